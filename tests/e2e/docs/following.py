"""Follows a page to the letter. The pages stand in two files of tests, which run side by side."""

from pathlib import Path

import pytest

from tests.e2e.docs.blocks import blocks_of
from tests.e2e.docs.doubles import doubles, free_port
from tests.e2e.docs.reader import ROOT, Reader

FIRST_PAGES = [
    "README.md",
    "docs/tutorial.md",
    "docs/workflows.md",
    "docs/telegram.md",
    "docs/redaction.md",
]
HOW_TOS = ["docs/howto/operator.md", "docs/howto/developer.md", "docs/howto/auditor.md"]
POSTGRES = "postgresql://interlock@db.example/interlock"


def follow(page: str, folder: Path, request: pytest.FixtureRequest) -> None:
    to_run = [block for block in blocks_of(ROOT / page, ROOT) if "not run" not in block.notes]
    assert to_run
    stand_ins = {}
    if any(POSTGRES in line for block in to_run for line in block.lines):
        stand_ins[POSTGRES] = request.getfixturevalue("empty_postgres").url
    with doubles() as there:
        given = (free_port(), there.variables, {**there.stand_ins, **stand_ins})
        with Reader(folder / "ada", *given) as reader:
            for block in to_run:
                reader.follow(block)
