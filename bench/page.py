"""docs/performance.md: the tables of the last whole run between two marks, the words are by hand."""

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from bench.agent import Contestant
from bench.environments import ROOT
from bench.report import CONTESTANT_HEAD, DUTY_HEAD, chart, contestant_lines, duty_lines, markdown
from bench.rows import Row

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "pictures" / "performance.svg"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write_page(rows: Sequence[Row], contestants: Sequence[Contestant]) -> None:
    where = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    parts = [
        BEGIN,
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, {where}, by `make bench`.",
        "![How much of what is allowed each duty takes](pictures/performance.svg)",
        markdown(DUTY_HEAD, duty_lines(rows)),
        "The same work by others, in one run:",
        markdown(CONTESTANT_HEAD, contestant_lines(contestants)),
        END,
    ]
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    text = PAGE.read_text()
    assert pattern.search(text), f"{PAGE.name} has no place for what is measured"
    PAGE.write_text(pattern.sub(lambda _: "\n\n".join(parts), text))
    PICTURE.write_text(chart(rows, contestants))
