"""Works on a run of a workflow in this process, and tells where it is."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.chat import ask_line
from interlock.cli.conversing import opened_desk, wanted
from interlock.cli.exits import Exit
from interlock.cli.output import note, print_json_line, print_line, print_text
from interlock.infra.errors import InvalidAnswer, ModeNotOpen

if TYPE_CHECKING:
    from interlock.agent.events import AgentEvent
    from interlock.channels.talk import Talk
    from interlock.cli.conversing import Desk
    from interlock.questions.rows import Question
    from interlock.worker.rows import Task
    from interlock.workflow.rows import Visit

LOOK_SECONDS = 0.2


async def run_new(
    name: str, text: str, mode: str | None, root: tuple[Path, ...], model: str | None, *, as_json: bool
) -> int:
    given = wanted(mode, root, None, None, model)
    async with opened_desk(given, _silence, someone_can_answer=True) as desk:
        runs = desk.office.runs
        session = await runs.create(name, opened_by="cli", mode=given.mode, model=given.model)

        async def begin() -> "Task":
            await runs.start(session.id, name, text, who=desk.person)
            return await _task(desk, session.id)

        return await _Follower(desk, session.id, as_json=as_json).see_through(begin)


async def go_on_here(
    run_id: str, what: str, mode: str | None, root: tuple[Path, ...], *, as_json: bool
) -> int:
    from interlock.cli.workflow import change
    from interlock.workflow.rows import RunStatus

    given = wanted(mode, root, None, None, None)
    async with opened_desk(given, _silence, someone_can_answer=True) as desk:
        run = (await desk.office.runs.book.standing(run_id)).run
        if not desk.office.runtime.mode_switch.is_open(run.mode):
            raise ModeNotOpen(
                f"run {run_id} is in {run.mode} mode, which is not open here: --mode {run.mode}"
            )

        async def begin() -> "Task":
            if what == "retry" or run.status is RunStatus.paused:
                await change(desk.office, what, run_id)
            return await _task(desk, run_id)

        return await _Follower(desk, run_id, as_json=as_json).see_through(begin)


def _silence(_event: "AgentEvent") -> None:
    """What the steps say and do is in the log; here the nodes are told."""


async def _task(desk: "Desk", run_id: str) -> "Task":
    """The task of the step that the run is at; where there is none, the last one."""
    shown = await desk.office.runs.shown(run_id)
    if shown.task is not None:
        return shown.task
    return (await desk.office.tasks.list_tasks(session_id=run_id, limit=1))[0]


class _Follower:
    def __init__(self, desk: "Desk", run_id: str, *, as_json: bool) -> None:
        self._desk = desk
        self._run_id = run_id
        self._as_json = as_json
        self._told: dict[int, str] = {}

    async def see_through(self, begin: "Callable[[], Awaitable[Task]]") -> int:
        """Until it is done, stuck, or waits for somebody who is not here."""
        note(f"run       {self._run_id}")
        talk = self._desk.talk_in(self._run_id)
        watching = asyncio.create_task(self._watch())
        try:
            await talk.see_to(begin)
            while await self._goes_on(talk):
                pass
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            await self._look()
        return await self._end()

    async def _goes_on(self, talk: "Talk") -> bool:
        shown = await self._desk.office.runs.shown(self._run_id)
        task = shown.task
        if shown.standing.run.status.is_end or task is None or task.status.is_end:
            return False
        if not shown.is_waiting:
            await talk.go_on(task)
            return True
        question = await talk.open_question(task)
        if question is None or not sys.stdin.isatty():
            return question is None
        await self._look()
        if (answer := _answer_to(question)) is None:
            return False
        try:
            await talk.answer(question, answer)
        except InvalidAnswer as error:
            note(str(error))
        return True

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """Tell what changed of the nodes since the last look."""
        from interlock.workflow.rows import RunNotFound
        from interlock.workflow.shown import visit_json

        with suppress(RunNotFound):
            for visit in (await self._desk.office.runs.book.standing(self._run_id)).visits:
                if self._told.get(visit.number) == visit.status.value:
                    continue
                self._told[visit.number] = visit.status.value
                if self._as_json:
                    print_json_line({"type": "node", **visit_json(visit)})
                else:
                    note(_line(visit))

    async def _end(self) -> int:
        from interlock.workflow.rows import RunStatus
        from interlock.workflow.shown import run_json

        shown = await self._desk.office.runs.shown(self._run_id)
        run = shown.standing.run
        codes = {RunStatus.done: Exit.ok, RunStatus.stopped: Exit.cancelled}
        code = Exit.nobody_to_answer if shown.is_waiting else codes.get(run.status, Exit.failed)
        if self._as_json:
            told = {**run_json(run), "steps": shown.standing.steps, "is_waiting": shown.is_waiting}
            print_json_line({"type": "run", **told, "exit_code": code.value})
        else:
            print_line(f"{run.status}{f': {run.outcome}' if run.outcome else ''}")
        if run.reason:
            note(run.reason)
        if shown.is_waiting and shown.task is not None:
            note(f"it waits for an answer: interlock questions show {shown.task.question_id}")
        note(f"recorded  interlock workflow show {self._run_id}")
        return code


def _answer_to(question: "Question") -> Mapping[str, Any] | None:
    """None: the person would rather not now; the run waits on."""
    from interlock.channels.answering import ask_person
    from interlock.questions.rendering import question_text

    widget = question.read_widget()
    print_text(question_text(widget))
    try:
        return ask_person(widget, ask_line)
    except (EOFError, KeyboardInterrupt):
        return None


def _line(visit: "Visit") -> str:
    said = visit.summary or visit.reason or ""
    outcome = f" {visit.outcome}" if visit.outcome and visit.status == "completed" else ""
    return f"{visit.status:<9} {visit.frame}{visit.node}{outcome}{f': {said}' if said else ''}"
