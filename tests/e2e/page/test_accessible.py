"""axe-core finds nothing serious: in every view, in dialogs, in light and in dark."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.furniture import addresses, visit
from tests.e2e.page.judges import serious, serious_colours
from tests.harness.browser import NOT_LET_IN, chip, go

# In dark everything that differs is colours; those of every view are looked at each time.
COLOURS = ["light", pytest.param("dark", marks=pytest.mark.full)]


@pytest.fixture(params=COLOURS)
def window(request, server, enter, lived_in):
    return enter(server, color_scheme=request.param)


def test_every_view(server, enter, lived_in):
    found = {}
    page = enter(server, color_scheme="light")
    for view, address in addresses(lived_in).items():
        visit(page, server, address)
        found[view] = serious(page)
    dark = enter(server, color_scheme="dark")
    for view, address in addresses(lived_in).items():
        visit(dark, server, address)
        found[f"{view}, dark"] = serious_colours(dark)
    assert not any(found.values()), found


def test_what_shuts_people_out_would_be_found(page, lived_in):
    """The judge is awake: a field without a name does not pass."""
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert "label" in {each["id"] for each in serious(page)}


def test_dialogs_menus_and_tips(server, window, lived_in):
    visit(window, server, addresses(lived_in)["chat"])
    chip(window, "chat").click()
    dialog = window.get_by_role("dialog")
    dialog.get_by_role("radio", name=re.compile("^coding")).check()
    expect(dialog.get_by_role("heading", name=re.compile(r"Adds \d+ tools"))).to_be_visible()
    # A disabled button is pale; axe must not see it half enabled.
    expect(dialog.locator("button[type=submit]")).to_be_enabled()
    assert serious(window) == []
    window.keyboard.press("Escape")
    window.get_by_role("main").get_by_role("button", name=re.compile("^Actions for")).click()
    assert serious(window) == []
    window.get_by_role("menuitem", name="Delete").click()
    expect(window.get_by_role("dialog")).to_be_visible()
    assert serious(window) == []
    window.keyboard.press("Escape")
    window.get_by_role("button", name="Submit").click()
    expect(window.get_by_role("alert").first).to_be_visible()
    assert serious(window) == []


def test_views_in_the_middle_of_something(server, window, lived_in):
    go(window, "Permissions")
    window.get_by_role("button", name=re.compile("^write_file is denied in chat(,|$)")).focus()
    expect(window.get_by_role("tooltip")).to_be_visible()
    window.get_by_role("button", name="Explain", exact=True).click()
    expect(window.get_by_role("status").filter(has_text="Checks, in order")).to_be_visible()
    assert serious(window) == []
    go(window, "Settings")
    window.get_by_role("checkbox", name="Enable filesystem tools").uncheck()
    window.get_by_role("textbox", name="Max read bytes").fill("nonsense")
    expect(window.get_by_role("alert").first).to_be_visible()
    assert serious(window) == []
    window.get_by_role("button", name="Discard changes").click()
    visit(window, server, addresses(lived_in)["timeline"])
    window.get_by_role("treegrid").get_by_role("row").filter(has_text="denied").first.click()
    expect(window.get_by_role("button", name="Close")).to_be_visible()
    window.get_by_role("button", name="Verify hash chain").click()
    expect(window.get_by_text("The hash chain is intact.")).to_be_visible()
    assert serious(window) == []


@pytest.mark.parametrize("colours", COLOURS)
def test_the_way_in(server, new_context, lived_in, watch, colours):
    page = new_context(server, color_scheme=colours).new_page()
    with watch.expects(NOT_LET_IN):
        page.goto(f"{server.origin}/#code={'x' * 43}")
        expect(page.get_by_role("alert")).to_be_visible()
        assert serious(page) == []
