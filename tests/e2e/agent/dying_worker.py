"""Workers that kill themselves at an event of a session, and the next ones, which go on from the log.

    python -m tests.e2e.agent.dying_worker

Reads numbered rounds, one a line, as JSON, and tells with a line how each of them went. A round forks a
process that works as `interlock worker` does and kills itself with SIGKILL right before or right after the
commit of an event; then one that is left in peace. Rounds are played side by side, as many as are given at
a time. Python and the product are loaded once, before the first fork.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import interlock.agent.loop
import interlock.channels.terminal.local_session
import interlock.db.group_commit
import interlock.models.openai_chat
import interlock.wiring.agents
from interlock.cli.runtime import open_cli_agent_runtime
from interlock.db.driver import DbConnection
from interlock.log.writer import EventLog
from interlock.redaction.factory import build_crash_redactor
from interlock.runtime.task_rows import TaskStatus

HEAD = "SELECT seq, hash FROM stream_heads WHERE stream = ?"


@dataclass(frozen=True)
class Round:
    """`moment` is before or after the commit of event `at`; nobody is killed where it is empty."""

    environment: dict[str, str]
    session: str
    task: str
    acknowledged: str
    moment: str = ""
    at: int = 0
    # Every unit in a commit of its own: each boundary between two of them exists.
    apart: bool = True
    # Not one task is to be done, but the run of a workflow that the session is.
    is_run: bool = False


class _Watched:
    """The writer's connection: every commit is known, and one of them is the last."""

    def __init__(self, connection: DbConnection, committing: Callable[[DbConnection], None]) -> None:
        self._connection = connection
        self._committing = committing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        self._committing(self._connection)


def watch(log: EventLog, given: Round) -> None:
    """Write down what is durable, commit by commit, and die where that was asked for."""
    writer, file = log._writer, os.open(given.acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    connect, submit = writer._connect, writer.submit
    if given.apart:
        interlock.db.group_commit.MAX_GROUP = 1
        writer.submit = lambda *units: [submit(unit) for unit in units][-1]

    def committing(connection: DbConnection) -> None:
        seq, digest = connection.query(HEAD, (given.session,))[0]
        if given.moment == "before" and seq >= given.at:
            os.kill(os.getpid(), signal.SIGKILL)
        connection.commit()
        os.write(file, f"{seq} {bytes(digest).hex()}\n".encode())
        if given.moment == "after" and seq >= given.at:
            os.kill(os.getpid(), signal.SIGKILL)

    writer._connect = lambda: _Watched(connect(), committing)
    if writer._connection is not None:
        writer._connection = _Watched(writer._connection, committing)


async def work(given: Round, *, watched: bool) -> None:
    """As `interlock worker`, until the task has ended; the person answers what it waits for."""
    async with open_cli_agent_runtime(sandboxed=True) as agent_runtime:
        if watched:
            watch(agent_runtime.runtime.log, given)
        worker = agent_runtime.worker()
        running = asyncio.create_task(worker.run())
        while (
            given.is_run and not (await agent_runtime.runs.book.run_state(given.session)).run.status.is_end
        ):
            await asyncio.sleep(0.02)
        while not given.is_run:
            task = await agent_runtime.tasks.get(given.task)
            if task.status.is_end:
                break
            if task.status is TaskStatus.waiting:
                await agent_runtime.runtime.questions.answer(
                    task.question_id, {"confirmed": True}, who="ada"
                )
            await asyncio.sleep(0.02)
        worker.stop()
        await running


def forked(run: Callable[[], None]) -> int:
    """The process that runs this, and nothing behind it."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        run()
        code = 0
    except BaseException as error:  # noqa: BLE001 - the parent must not go on twice
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def end_of(given: Round, *, watched: bool) -> int:
    """How a worker ended: its exit code, or the signal that killed it, below zero."""
    worker = forked(lambda: asyncio.run(asyncio.wait_for(work(given, watched=watched), 60)))
    return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])


def play(number: int, given: Round) -> None:
    """One round, told in one line."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    codes = [end_of(given, watched=True)]
    if given.moment:
        codes.append(end_of(given, watched=False))
    os.write(1, f"{json.dumps([number, codes])}\n".encode())


def main() -> None:
    # Those that play a round tell how it went; nobody waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        number, fields = json.loads(line)
        given = Round(**fields)
        os.environ.clear()
        os.environ.update(given.environment)
        # What is secret here is the same in every round: the children need not compile it again.
        build_crash_redactor().text("words")
        forked(partial(play, number, given))


if __name__ == "__main__":
    main()
