"""Changes by calls, and their undo by a person."""

import os

from interlock.tools.files.undo_service import UndoReport
from tests.harness.tool_calls import ToolHarness


async def undo(make_harness: ToolHarness, identity: str = "") -> UndoReport:
    return await make_harness.undo.revert(identity or make_harness.session_id, who="test")


async def undone(make_harness: ToolHarness, identity: str = "") -> UndoReport:
    """Everything must be taken back."""
    report = await undo(make_harness, identity)
    assert [outcome for outcome in report.outcomes if outcome.reason is not None] == []
    return report


def left(report: UndoReport) -> dict[str, str]:
    return {
        outcome.path.rpartition("/root/")[2]: outcome.reason
        for outcome in report.outcomes
        if outcome.reason is not None
    }


def house(make_harness: ToolHarness) -> None:
    """A folder with one of everything."""
    make_harness.write("d/a/f", b"\0binary\xff")
    make_harness.write("d/run.sh", "x").chmod(0o751)
    (make_harness.root / "d/empty").mkdir()
    (make_harness.root / "d/link").symlink_to("../outside")
    os.mkfifo(make_harness.root / "d/pipe")
    (make_harness.root / "d/a").chmod(0o750)
    (make_harness.root / "d").chmod(0o711)


async def rewritten(make_harness: ToolHarness, path: str, content: str) -> None:
    await make_harness.ok("read_file", path=path)
    await make_harness.ok("write_file", path=path, content=content)
