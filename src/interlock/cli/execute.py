"""`interlock exec`: runs one task for a script. The answer goes to stdout, progress to stderr."""

import asyncio
import re
import signal
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from interlock.cli.command_line_session import RootOptions, event_json, open_chat_client, parse_chat_options
from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJsonLines, note, print_json_line, print_text
from interlock.core.errors import BadUsage

if TYPE_CHECKING:
    from interlock.agent.events import AgentEvent
    from interlock.cli.command_line_session import ChatOptions, CommandLineSession
    from interlock.runtime.task_rows import Task

MAX_TASK_BYTES = 1024 * 1024
_AN_OPTION = re.compile(r"--?[A-Za-z][\w-]*(=.*)?")


async def execute(
    task: Annotated[str, Parameter(allow_leading_hyphen=True)],
    *,
    mode: str | None = None,
    root: RootOptions = (),
    session: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative=())] = False,
    json: AsJsonLines = False,
) -> int:
    """Run one task until it ends, and print the answer. Questions are not available.

    Parameters
    ----------
    task
        The task; - reads it from stdin.
    mode
        The mode to work in; it is opened for this process only.
    root
        A directory to work in, instead of the configured ones.
    session
        Continue this session instead of starting a new one.
    agent
        Run the task with this agent of the workspace.
    model
        The model to use, one of the configured models.
    quiet
        Print only errors on stderr.
    json
        Print events as JSON lines instead of the answer.
    """
    given = parse_chat_options(mode, root, session, agent, model)
    words = _read_task(task)
    # SIGTERM cancels the task, as Ctrl-C does: no other worker should resume it.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    return await (_run_as_json(words, given) if json else _run_as_text(words, given, quiet=quiet))


async def _run_as_text(words: str, given: "ChatOptions", *, quiet: bool) -> int:
    from interlock.channels.terminal.view import TerminalView, null_writer, standard_writer

    view = TerminalView(null_writer() if quiet else standard_writer(errors=True), shows_text=False)
    async with open_chat_client(given, view.show, is_one_task=True) as command_line_session:
        done = await (await command_line_session.local_session(words)).say(words, leaves_nothing=True)
        code = await _exit_of(command_line_session, done)
        answer, session_id = await command_line_session.answer_of(done), command_line_session.session_id
    if answer:
        print_text(answer.rstrip("\n"))
    if code is not ExitCode.ok and (quiet or not view.told_end):
        note(_end_of(done))
    if not quiet:
        note(f"recorded  interlock events tree {session_id}")
    return code


async def _run_as_json(words: str, given: "ChatOptions") -> int:
    def show(event: "AgentEvent") -> None:
        print_json_line(event_json(event))

    async with open_chat_client(given, show, is_one_task=True) as command_line_session:
        local_session = await command_line_session.local_session(words)
        print_json_line(
            {
                "type": "session",
                "session_id": local_session.session_id,
                "mode": (await command_line_session.mode()).value,
            }
        )
        done = await local_session.say(words, leaves_nothing=True)
        code = await _exit_of(command_line_session, done)
    print_json_line(
        {
            "type": "task",
            "task_id": done.id,
            "session_id": done.session_id,
            "status": done.status.value,
            "reason": done.reason or "",
            "exit_code": code.value,
        }
    )
    return code


async def _exit_of(command_line_session: "CommandLineSession", task: "Task") -> ExitCode:
    """The exit code for a task that ended without being done."""
    from interlock.runtime.task_rows import TaskStatus

    if task.status is TaskStatus.done:
        return ExitCode.ok
    if task.status is TaskStatus.cancelled:
        return ExitCode.cancelled
    if task.status is TaskStatus.waiting:
        return ExitCode.nobody_to_answer
    return ExitCode.limit if await command_line_session.was_ended_by_limit(task) else ExitCode.failed


def _end_of(task: "Task") -> str:
    from interlock.runtime.task_rows import TaskStatus

    if task.status is TaskStatus.waiting:
        return f"waiting for an answer: interlock questions show {task.question_id}"
    return task.reason or task.status.value


def _read_task(task: str) -> str:
    words = _given_or_read(task)
    if not words.strip():
        raise BadUsage("the task is empty")
    return words


def _given_or_read(task: str) -> str:
    if _AN_OPTION.fullmatch(task):
        raise BadUsage(f"there is no option {task}; pass a task that starts with a dash on stdin")
    if task != "-":
        return task
    given = sys.stdin.buffer.read(MAX_TASK_BYTES + 1)
    if len(given) > MAX_TASK_BYTES:
        raise BadUsage(f"a task can have at most {MAX_TASK_BYTES} bytes")
    try:
        return given.decode()
    except UnicodeDecodeError:
        raise BadUsage("stdin is not valid UTF-8") from None
