"""`interlock undo`: reverts changes to files."""

from typing import TYPE_CHECKING

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, note, print_json, print_line
from interlock.cli.runtime import open_cli_runtime

if TYPE_CHECKING:
    from interlock.wiring import Runtime, UndoReport

_DONE = {"created": "removed", "replaced": "restored", "deleted": "recreated", "moved": "moved back"}


async def undo(id: str, *, dry_run: bool = False, json: AsJson = False) -> int:  # noqa: A002 - it is the argument's name
    """Undo the changes that a session, a task or a single call made to files.

    Files changed since then are not touched. The undo has its own id, by which it can be undone. Changes
    made by commands (bash) are not recorded and cannot be undone.

    Parameters
    ----------
    id
        The session, task or call that made the changes.
    dry_run
        Only show which changes would be undone, newest first, with the oldest change of each file.
    """
    from interlock.wiring import local_actor

    async with open_cli_runtime() as runtime:
        redact = runtime.redactor.value
        if dry_run:
            entries = await runtime.undo.find_entries(id)
            # Of several changes to one file, the oldest: undo restores the state before it.
            oldest = {entry.change.path: entry.change for entry in entries}
            changes = [
                {
                    "path": redact(change.path),
                    "action": change.action.value,
                    "from": redact(change.source),
                }
                for change in oldest.values()
            ]
            if json:
                print_json({"changes": changes})
            for change in [] if json else changes:
                origin = f"   (from {change['from']})" if change["from"] else ""
                print_line(f"{change['action']:<10}{change['path']}{origin}")
            return ExitCode.ok
        report = await runtime.undo.revert(id, who=local_actor())
    left = [outcome for outcome in report.outcomes if outcome.reason is not None]
    if json:
        print_json(
            {
                "undo_id": report.undo_id,
                "changes": [
                    redact({"path": outcome.path, "action": outcome.action, "left_because": outcome.reason})
                    for outcome in report.outcomes
                ],
            }
        )
    else:
        print_report(report, runtime)
    return ExitCode.failed if left else ExitCode.ok


def print_report(report: "UndoReport", runtime: "Runtime") -> None:
    for outcome in report.outcomes:
        word = _DONE[outcome.action] if outcome.reason is None else "left"
        reason = f"   ({outcome.reason})" if outcome.reason else ""
        print_line(runtime.redactor.text(f"{word:<14}{outcome.now_at}{reason}"))
    if any(outcome.reason is None for outcome in report.outcomes):
        note(f"to undo this: interlock undo {report.undo_id}")
