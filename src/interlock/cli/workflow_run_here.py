"""Runs a workflow in this process and prints its progress."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.chat import prompt_for_question
from interlock.cli.command_line_session import open_chat_client, parse_chat_options
from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import note, print_json_line, print_text
from interlock.core.errors import InvalidAnswer, ModeNotOpen, UserError
from interlock.log.event import IS_MILESTONE
from interlock.log.kinds import merge_payload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.agent.events import AgentEvent
    from interlock.channels.terminal.local_session import LocalSession
    from interlock.cli.command_line_session import CommandLineSession
    from interlock.feed.frames import FeedItem
    from interlock.runtime.task_rows import Task
    from interlock.runtime.workflow_runs import RunView
    from interlock.workflow.run_rows import NodeVisit

# Limits for printing a step's answer, and its refused or failed calls.
MAX_LINES, MAX_CALLS, MAX_CHARS = 6, 10, 300
_FAILED_CALLS = f"""
SELECT kind, facts, content FROM events WHERE stream = ? AND task = ? AND content IS NOT NULL
    AND kind IN ('tool_call.denied', 'tool_call.failed') AND {IS_MILESTONE} ORDER BY seq
"""  # noqa: S608 - a constant


async def start_run_here(
    name: str, text: str, mode: str | None, root: tuple[Path, ...], model: str | None, *, as_json: bool
) -> int:
    given = parse_chat_options(mode, root, None, None, model)
    async with open_chat_client(given, _ignore_event) as command_line_session:
        runs = command_line_session.agent_runtime.runs
        session = await runs.create(name, opened_by="cli", mode=given.mode, model=given.model)

        async def begin() -> "Task":
            try:
                await runs.start(session.id, name, text, who=command_line_session.person)
            except UserError:
                # A session whose run never started is of no use.
                await command_line_session.agent_runtime.tasks.delete_session(
                    session.id, who=command_line_session.person
                )
                raise
            return await _task(command_line_session, session.id)

        return await _RunFollower(command_line_session, session.id, as_json=as_json).see_through(begin)


async def continue_run_here(
    run_id: str, what: str, mode: str | None, root: tuple[Path, ...], *, as_json: bool
) -> int:
    from interlock.cli.workflow import change
    from interlock.workflow.run_rows import RunStatus

    given = parse_chat_options(mode, root, None, None, None)
    async with open_chat_client(given, _ignore_event) as command_line_session:
        run = (await command_line_session.agent_runtime.runs.book.run_state(run_id)).run
        if not command_line_session.agent_runtime.runtime.mode_switch.is_open(run.mode):
            raise ModeNotOpen(
                f"run {run_id} is in {run.mode} mode, which is not open here; use --mode {run.mode}"
            )

        async def begin() -> "Task":
            if what == "retry" or run.status is RunStatus.paused:
                await change(command_line_session.agent_runtime, what, run_id)
            return await _task(command_line_session, run_id)

        follower = _RunFollower(command_line_session, run_id, as_json=as_json)
        await follower.pass_over()
        return await follower.see_through(begin)


def _ignore_event(_event: "AgentEvent") -> None:
    """Ignore events: answers and failed calls are printed with their nodes, from the log."""


async def _task(command_line_session: "CommandLineSession", run_id: str) -> "Task":
    """The task of the run's current step; if there is none, the newest task."""
    shown = await command_line_session.agent_runtime.runs.shown(run_id)
    if shown.task is not None:
        return shown.task
    return (await command_line_session.agent_runtime.tasks.list_tasks(session_id=run_id, limit=1))[0]


class _RunFollower:
    def __init__(self, command_line_session: "CommandLineSession", run_id: str, *, as_json: bool) -> None:
        self._command_line_session = command_line_session
        self._run_id = run_id
        self._as_json = as_json
        self._printed: dict[int, str] = {}
        self._looking = asyncio.Lock()
        self._is_over = False
        # The log of the run has something new.
        self._has_grown = asyncio.Event()

    async def see_through(self, begin: "Callable[[], Awaitable[Task]]") -> int:
        """Run until done, stuck, or waiting for a person who is not here."""
        note(f"run       {self._run_id}")
        local_session = self._command_line_session.talk_in(self._run_id)
        watching = asyncio.create_task(self._watch())
        try:
            await local_session.run_until_idle(begin)
            while await self._goes_on(local_session):
                pass
        finally:
            # Do not cancel it: its last output would be lost.
            self._is_over = True
            self._has_grown.set()
            await asyncio.wait({watching})
            await self._look()
        return await self._end()

    async def _goes_on(self, local_session: "LocalSession") -> bool:
        shown = await self._command_line_session.agent_runtime.runs.shown(self._run_id)
        task = shown.task
        if shown.run_state.run.status.is_end or task is None or task.status.is_end:
            return False
        if not shown.is_waiting:
            await local_session.go_on(task)
            return True
        question = await local_session.open_question(task)
        if question is None or not sys.stdin.isatty():
            return question is None
        await self._look()
        if (answer := prompt_for_question(question)) is None:
            # The run keeps waiting.
            return False
        try:
            await local_session.answer(question, answer)
        except InvalidAnswer as error:
            note(str(error))
        return True

    async def _watch(self) -> None:
        hub = self._command_line_session.agent_runtime.hub
        await hub.follow(self._run_id, self)
        try:
            while not self._is_over:
                self._has_grown.clear()
                await self._look()
                await self._has_grown.wait()
        finally:
            await hub.leave(self._run_id, self)

    def deliver(self, item: "FeedItem", /) -> None:
        if item.is_last:
            self._has_grown.set()

    async def ready(self) -> None:
        """There is always room: items are not kept."""

    async def pass_over(self) -> None:
        """Mark the earlier visits as printed."""
        visits = (await self._command_line_session.agent_runtime.runs.book.run_state(self._run_id)).visits
        self._printed |= {visit.number: visit.status.value for visit in visits}

    async def _look(self) -> None:
        """Print the nodes whose status changed since the last look."""
        from interlock.workflow.json_views import visit_json
        from interlock.workflow.run_rows import RunNotFound

        with suppress(RunNotFound):
            async with self._looking:
                for visit in (
                    await self._command_line_session.agent_runtime.runs.book.run_state(self._run_id)
                ).visits:
                    if self._printed.get(visit.number) == visit.status.value:
                        continue
                    self._printed[visit.number] = visit.status.value
                    if self._as_json:
                        print_json_line({"type": "node", **visit_json(visit)})
                        continue
                    await self._print_step(visit)
                    note(_line(visit))

    async def _print_step(self, visit: "NodeVisit") -> None:
        """Print a finished step's refused or failed calls, and its answer."""
        if visit.task_id is None or visit.ended_us is None:
            return
        place = (self._run_id, visit.task_id)
        rows = await self._command_line_session.agent_runtime.runtime.database.read(
            lambda db: db.query(_FAILED_CALLS, place)
        )
        for kind, facts, content in rows[:MAX_CALLS]:
            fields = merge_payload(facts, content)
            told = " ".join(f"{fields['tool_name']}: {fields['error']}".split())
            note(f"  {kind.removeprefix('tool_call.')} {told[:MAX_CHARS]}")
        if len(rows) > MAX_CALLS:
            note(f"  and {len(rows) - MAX_CALLS} more denied or failed calls")
        task = await self._command_line_session.agent_runtime.tasks.get(visit.task_id)
        if answer := (await self._command_line_session.answer_of(task)).strip():
            print_text(_first_lines(answer))

    async def _end(self) -> int:
        from interlock.workflow.json_views import run_json
        from interlock.workflow.run_rows import RunStatus

        shown = await self._command_line_session.agent_runtime.runs.shown(self._run_id)
        run = shown.run_state.run
        codes = {RunStatus.done: ExitCode.ok, RunStatus.stopped: ExitCode.cancelled}
        code = ExitCode.nobody_to_answer if shown.is_waiting else codes.get(run.status, ExitCode.failed)
        if self._as_json:
            told = {**run_json(run), "steps": shown.run_state.steps, "is_waiting": shown.is_waiting}
            print_json_line({"type": "run", **told, "exit_code": code.value})
        else:
            print_text(await self._last_line(shown))
        if run.reason:
            note(run.reason)
        note(f"recorded  interlock workflow show {self._run_id}")
        return code

    async def _last_line(self, shown: "RunView") -> str:
        run, task = shown.run_state.run, shown.task
        if not shown.is_waiting or task is None or task.question_id is None:
            return f"{run.status}{f': {run.outcome}' if run.outcome else ''}"
        from interlock.questions.rendering import question_text

        question = await self._command_line_session.agent_runtime.runtime.questions.get(task.question_id)
        asked = " ".join(question_text(question.read_widget()).split())[:MAX_CHARS]
        node = shown.run_state.at.node if shown.run_state.at else ""
        return (
            f"waiting for an answer in {node}: {asked}\n"
            f"interlock questions answer {question.id}\n"
            f"interlock workflow resume {self._run_id} --here"
        )


def _line(visit: "NodeVisit") -> str:
    said = visit.summary or visit.reason or ""
    outcome = f" {visit.outcome}" if visit.outcome and visit.status == "completed" else ""
    return f"{visit.status:<9} {visit.frame}{visit.node}{outcome}{f': {said}' if said else ''}"


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    cut = [line[:MAX_CHARS] + ("…" if len(line) > MAX_CHARS else "") for line in lines[:MAX_LINES]]
    return "\n".join(cut + (["…"] if len(lines) > MAX_LINES else []))
