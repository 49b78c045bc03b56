"""What holds for all pages: nothing is shown that nobody tries, and every link leads somewhere."""

import re
import shlex

import pytest
from cyclopts.exceptions import CycloptsError

from interlock.cli.main import build_app
from tests.e2e.docs.blocks import Block, blocks_of
from tests.e2e.docs.following import FIRST_PAGES, HOW_TOS
from tests.e2e.docs.reader import ROOT

# Examples for looking something up, each by itself: their commands are read by the real parser.
LOOKED_UP = ["docs/cli.md", "docs/mcp.md", "docs/settings.md"]
# Blocks that nobody runs, each with its reason in the page. A new one must take the place of another.
MOST_NOT_RUN = 8
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page, ROOT)]


def test_whatever_is_not_followed_says_why():
    not_run = [block for block in all_blocks() if "not run" in block.notes]
    assert [block.place for block in not_run if len(block.notes["not run"]) < 10] == []
    assert len(not_run) <= MOST_NOT_RUN, [block.place for block in not_run]
    left = {
        block.page
        for block in all_blocks()
        if block.page not in {*FIRST_PAGES, *HOW_TOS, *LOOKED_UP} and "not run" not in block.notes
    }
    assert left == set()


def commands_in(page: str) -> list[tuple[str, list[str]]]:
    found = []
    for block in blocks_of(ROOT / page, ROOT):
        for command in block.commands:
            for part in re.split(r"\||&&|\n(?!\s)", command.text.replace("\\\n", " ")):
                text = re.sub(r"^(?:\w+=\S+\s+)*", "", part.strip())
                if text.startswith("interlock "):
                    found.append((block.place, shlex.split(text, comments=True)[1:]))
    return found


@pytest.mark.parametrize("page", LOOKED_UP)
def test_the_commands_of_a_page_for_looking_up_are_understood(page):
    app, faults, shown = build_app(), [], commands_in(page)
    assert shown
    for place, words in shown:
        try:
            app.parse_args(words, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            faults.append(f"{place}: interlock {shlex.join(words)}: {error}")
    assert faults == []


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", without_code(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    lost = []
    for found in LINK.finditer(without_code(page.read_text())):
        target = found[1] or found[2]
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there.read_text())):
            lost.append(target)
    assert lost == []


def test_the_index_names_every_page():
    """Those in folders of their own are named by the page above them."""
    index, docs = (ROOT / "docs" / "README.md").read_text(), ROOT / "docs"
    pages = [*docs.glob("*.md"), *docs.glob("howto/*.md"), *docs.glob("reference/*.md")]
    wanted = sorted(str(page.relative_to(docs)) for page in pages if page.name != "README.md")
    assert [page for page in wanted if f"({page})" not in index] == []
