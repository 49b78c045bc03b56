"""`interlock tasks`: tasks and their status."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from cyclopts import App

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import (
    AsJson,
    Count,
    is_narrow,
    local_time,
    note,
    print_json,
    print_line,
    print_table,
)
from interlock.cli.runtime import open_cli_agent_runtime
from interlock.core.errors import BadUsage

if TYPE_CHECKING:
    from interlock.runtime.task_rows import Task, TaskStatus

NARROW = 120

app = App(name="tasks", help="List, show, cancel and retry tasks.", help_format="plaintext")


@app.command(name="list")
async def list_tasks(
    *, session: str | None = None, status: str | None = None, limit: Count = 50, json: AsJson = False
) -> int:
    """List the tasks, the newest first.

    Parameters
    ----------
    session
        Only tasks of this session.
    status
        Only tasks with this status: queued, running, waiting, done, failed or cancelled.
    limit
        Maximum number of tasks.
    """
    from interlock.runtime.task_rows import read_request_excerpts

    wanted = _status(status) if status else None
    async with open_cli_agent_runtime() as agent_runtime:
        found = await agent_runtime.tasks.list_tasks(session_id=session, status=wanted, limit=limit)
        asked = await agent_runtime.runtime.database.read(
            lambda connection: read_request_excerpts(connection, found)
        )
    if json:
        print_json([asdict(task) for task in found])
    elif not found:
        note("no tasks")
    else:
        _print_tasks(found, asked)
    return ExitCode.ok


def _print_tasks(tasks: "list[Task]", asked: dict[str, str]) -> None:
    # On a narrow terminal, the request matters more than the session; `show` prints the session.
    where = [] if is_narrow(NARROW) else ["session"]
    rows = [
        [
            task.id,
            *(task.session_id for _ in where),
            task.status,
            task.mode,
            local_time(task.created_us),
            asked.get(task.id, ""),
        ]
        for task in tasks
    ]
    print_table(["task", *where, "status", "mode", "created", "message"], rows)


@app.command
async def show(task: str, *, json: AsJson = False) -> int:
    """Show a task and its status.

    Parameters
    ----------
    task
        The task's id, as `interlock tasks list` shows it.
    """
    async with open_cli_agent_runtime() as agent_runtime:
        found = await agent_runtime.tasks.get(task)
        messages = await agent_runtime.runtime.sessions.transcript(
            found.session_id, after_seq=found.message_seq - 1
        )
    words = next((each.content for each in messages if each.seq == found.message_seq), "")
    if json:
        print_json({**asdict(found), "message": words})
        return ExitCode.ok
    print_line(f"task      {found.id}  in session {found.session_id}")
    print_line(f"status    {found.status}{' (cancelling)' if found.is_cancel_requested else ''}")
    print_line(f"message   {' '.join(words.split())[:200]}")
    print_line(f"created   {local_time(found.created_us)} by {found.who}")
    if found.started_us is not None:
        again = f", {found.attempts} times" if found.attempts > 1 else ""
        print_line(f"started   {local_time(found.started_us)} in {found.mode} mode{again}")
    if found.ended_us is not None:
        print_line(f"ended     {local_time(found.ended_us)}")
    if found.reason:
        print_line(f"reason    {found.reason}")
    if found.question_id:
        note(f"waiting for an answer: interlock questions show {found.question_id}")
    return ExitCode.ok


@app.command
async def cancel(task: str, *, json: AsJson = False) -> int:
    """Cancel a task. If it is running, its worker is notified.

    Parameters
    ----------
    task
        The task's id, as `interlock tasks list` shows it.
    """
    from interlock.wiring import local_actor

    async with open_cli_agent_runtime() as agent_runtime:
        cancelled = await agent_runtime.tasks.cancel(task, who=local_actor())
    _print_result(
        cancelled, "cancelled" if cancelled.status.is_end else "cancelling; notified its worker", json=json
    )
    return ExitCode.ok


@app.command
async def retry(task: str, *, json: AsJson = False) -> int:
    """Send the message of a failed or cancelled task again, as a new task.

    Parameters
    ----------
    task
        The task's id, as `interlock tasks list` shows it.
    """
    from interlock.wiring import local_actor

    async with open_cli_agent_runtime() as agent_runtime:
        queued = await agent_runtime.tasks.retry(task, who=local_actor())
    _print_result(queued, f"queued {queued.id}", json=json)
    if not json:
        note(f"to run it: interlock worker, or: interlock chat --session {queued.session_id}")
    return ExitCode.ok


def _print_result(task: "Task", sentence: str, *, json: bool) -> None:
    if json:
        print_json(asdict(task))
    else:
        print_line(sentence)


def _status(word: str) -> "TaskStatus":
    from interlock.runtime.task_rows import TaskStatus

    try:
        return TaskStatus(word)
    except ValueError:
        raise BadUsage(f"--status {word}: use one of {', '.join(TaskStatus)}") from None
