"""The pages say how to do things. Here each is followed to the letter."""

import pytest

from tests.e2e.docs.blocks import Block, blocks_of
from tests.e2e.docs.doubles import doubles, free_port
from tests.e2e.docs.reader import ROOT, Reader

FOLLOWED = [
    "docs/tutorial.md",
    "docs/howto/auditor.md",
    "docs/howto/operator.md",
    "docs/howto/developer.md",
]
# Blocks that nobody runs, each with its reason in the page. A new one must take the place of another.
MOST_NOT_RUN = 12
POSTGRES = "postgresql://interlock@db.example/interlock"


def blocks() -> list[Block]:
    pages = sorted(
        {ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "howto").glob("*.md")}
    )
    return [block for page in pages for block in blocks_of(page, ROOT)]


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed_to_the_letter(page, tmp_path, request):
    to_run = [block for block in blocks_of(ROOT / page, ROOT) if "not run" not in block.notes]
    stand_ins = {}
    if any(POSTGRES in line for block in to_run for line in block.lines):
        stand_ins[POSTGRES] = request.getfixturevalue("empty_postgres").url
    with doubles() as there:
        given = (free_port(), there.variables, {**there.stand_ins, **stand_ins})
        with Reader(tmp_path / "ada", *given) as reader:
            for block in to_run:
                reader.follow(block)
