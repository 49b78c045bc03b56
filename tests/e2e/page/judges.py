"""Who judges a view: axe-core, and the width of a phone."""

from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
RUN = """async () => (await axe.run(document, { resultTypes: ['violations'] })).violations
  .map(({ id, impact, nodes }) => ({ id, impact, where: nodes.map(({ target, failureSummary }) =>
    `${target.join(' ')}: ${failureSummary}`) }))"""
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
# What sticks out: the page itself, or a box that is not meant to scroll sideways.
WIDER = """() => {
  const found = [document.scrollingElement, document.body, document.querySelector('main'),
    ...document.querySelectorAll('.view-scroll, .stream, dialog, nav')];
  return found.filter((box) => box && box.scrollWidth > box.clientWidth + 1 && box.clientWidth > 0)
    .map((box) => `${box.localName}.${box.className}: ${box.scrollWidth} in ${box.clientWidth}`)
    .concat(document.scrollingElement.scrollWidth > innerWidth ? ['the page'] : []);
}"""


# Of the same page in its other colours, where nothing else differs.
RUN_COLOURS = RUN.replace("resultTypes", "runOnly: ['color-contrast'], resultTypes")


def serious(page: Page, run: str = RUN) -> list[Any]:
    """Evaluated, not added to the page: its content policy would rightly hold a script off."""
    page.evaluate(AXE)
    found = page.evaluate(run)
    return [each for each in found if each["impact"] in {"serious", "critical"}]


def serious_colours(page: Page) -> list[Any]:
    """Only what cannot be read."""
    return serious(page, RUN_COLOURS)


def sticks_out(page: Page) -> list[Any]:
    return list(page.evaluate(WIDER))
