"""Changes by calls, and their undo by a person."""

import os

from interlock.tools.files.undoing import UndoReport
from tests.integration.workbench import Workbench


async def undo(bench: Workbench, identity: str = "") -> UndoReport:
    return await bench.undo.take_back(identity or bench.session_id, who="test")


async def undone(bench: Workbench, identity: str = "") -> UndoReport:
    """Everything must be taken back."""
    report = await undo(bench, identity)
    assert [outcome for outcome in report.outcomes if outcome.reason is not None] == []
    return report


def left(report: UndoReport) -> dict[str, str]:
    return {
        outcome.path.rpartition("/root/")[2]: outcome.reason
        for outcome in report.outcomes
        if outcome.reason is not None
    }


def house(bench: Workbench) -> None:
    """A folder with one of everything."""
    bench.write("d/a/f", b"\0binary\xff")
    bench.write("d/run.sh", "x").chmod(0o751)
    (bench.root / "d/empty").mkdir()
    (bench.root / "d/link").symlink_to("../outside")
    os.mkfifo(bench.root / "d/pipe")
    (bench.root / "d/a").chmod(0o750)
    (bench.root / "d").chmod(0o711)


async def rewritten(bench: Workbench, path: str, content: str) -> None:
    await bench.ok("read_file", path=path)
    await bench.ok("write_file", path=path, content=content)
