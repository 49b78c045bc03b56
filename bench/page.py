"""docs/performance.md: what was measured stands between marks, the words around it are by hand."""

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from bench import report
from bench.agent import Contestant
from bench.environments import ROOT
from bench.rows import Row

PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"


def write_page(rows: Sequence[Row], contestants: Sequence[Contestant]) -> None:
    """What was not measured in this run stays as it was."""
    if rows:
        table = report.markdown(report.DUTY_HEAD, report.duty_lines(rows))
        _put("duties", "How much of what is allowed each duty takes", report.duties_chart(rows), table)
    if contestants:
        table = report.markdown(report.CONTESTANT_HEAD, report.contestant_lines(contestants))
        _put("peers", "Processor time of one session", report.contestants_chart(contestants), table)


def _put(name: str, told: str, chart: str, table: str) -> None:
    (PICTURES / f"performance-{name}.svg").write_text(chart)
    where = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    begin, end = f"<!-- measured: {name} -->", f"<!-- end of {name} -->"
    parts = [
        begin,
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, {where}.",
        f"![{told}](pictures/performance-{name}.svg)",
        table,
        end,
    ]
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    text = PAGE.read_text()
    assert pattern.search(text), f"{PAGE.name} has no place for {name}"
    PAGE.write_text(pattern.sub(lambda _: "\n\n".join(parts), text))
