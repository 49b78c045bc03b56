"""Reads runs, and records the outcome that a step reports, if an edge accepts it."""

import re
from collections.abc import Mapping

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import sanitize_text
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.log.run_events import NodeDecided
from interlock.log.stream_appender import EventScope
from interlock.log.writer import EventLog, Transaction
from interlock.redaction.redactor import Redactor
from interlock.workflow.run_rows import (
    LIST_RUNS,
    READ_SHOWN,
    RUN_OF_TASK,
    ActiveStep,
    NodeVisit,
    RunState,
    WorkflowRun,
    read_run_state,
    run_from_row,
)
from interlock.workflow.state_machine import VisitStatus
from interlock.workflow.step_prompt import MAX_ARTIFACT, MAX_ARTIFACTS, MAX_SUMMARY

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class RunReader:
    """The store of runs. It writes only the outcome that a step reports."""

    def __init__(self, database: Database, log: EventLog, redactor: Redactor) -> None:
        self._database = database
        self._events = log
        self._redactor = redactor

    async def run_state(self, session_id: str) -> RunState:
        return await self._database.read(
            lambda db: read_run_state(db, sanitize_text(session_id), READ_SHOWN)
        )

    async def runs(self, *, workflow: str | None = None, limit: int = 100) -> list[WorkflowRun]:
        """The runs, newest first."""
        everything, name = (1, "") if workflow is None else (0, sanitize_text(workflow))
        rows = await self._database.read(lambda db: db.query(LIST_RUNS, (everything, name, limit)))
        return [run_from_row(row) for row in rows]

    async def at_work(self, session_id: str) -> ActiveStep | None:
        """The step of the session's task; None if there is none."""
        run_state = await self.run_state(session_id)
        visit = run_state.at
        if visit is None or visit.status is not VisitStatus.active:
            return None
        workflow = run_state.run.book.workflow_in(visit.frame)
        return ActiveStep(run_state, visit, workflow, workflow.nodes[visit.node])

    async def complete(
        self,
        session_id: str,
        scope: EventScope,
        token: int | None,
        outcome: str,
        summary: str,
        artifacts: Mapping[str, str],
    ) -> str:
        """Record a step's outcome. Raises a `ToolError` with the possible ones if no edge accepts it."""
        _refuse_unfit(summary, artifacts)
        said = self._redactor.text(sanitize_text(summary))
        kept = {name: self._redactor.text(sanitize_text(text)) for name, text in artifacts.items()}

        def work(transaction: Transaction) -> str:
            transaction.next_seq()
            run_state, visit = _at_work(transaction.connection, scope.task or "")
            walk = run_state.walk(kept)
            if reason := walk.refusal(visit.place, outcome):
                allowed = ", ".join(walk.allowed(visit.place)) or "none"
                raise ToolError(
                    ErrorCode.E_INVALID_TRANSITION,
                    f"{reason} (allowed: {allowed})",
                    f"Call it again with one of these outcomes: {allowed}.",
                )
            transaction.record(
                NodeDecided(
                    number=visit.number,
                    frame=visit.frame,
                    node=visit.node,
                    outcome=outcome,
                    summary=said,
                    artifacts=kept,
                ),
                scope,
            )
            return visit.node

        return await self._events.transact(session_id, work, token=token)


def _at_work(connection: DbConnection, task_id: str) -> tuple[RunState, NodeVisit]:
    rows = connection.query(RUN_OF_TASK, (task_id,))
    if rows:
        run_state = read_run_state(connection, str(rows[0][0]))
        for visit in run_state.visits:
            if visit.number == rows[0][1] and visit.status is VisitStatus.active:
                return run_state, visit
    raise ToolError(
        ErrorCode.EXECUTION_ERROR,
        "no workflow step is running here",
        "Answer the user instead.",
        is_an_answer=True,
    )


def _refuse_unfit(summary: str, artifacts: Mapping[str, str]) -> None:
    problem = ""
    if len(summary) > MAX_SUMMARY:
        problem = f"summary: has {len(summary)} characters; the limit is {MAX_SUMMARY}"
    elif len(artifacts) > MAX_ARTIFACTS:
        problem = f"artifacts: there are {len(artifacts)}; the limit is {MAX_ARTIFACTS}"
    for name, text in artifacts.items():
        if not _NAME.fullmatch(name):
            problem = problem or "artifacts: a name can have lower-case letters, digits and _, at most 40"
        elif len(text) > MAX_ARTIFACT:
            problem = problem or (
                f"artifacts.{name}: has {len(text)} characters; the limit is {MAX_ARTIFACT}"
            )
    if problem:
        raise ToolError(
            ErrorCode.INVALID_ARGS, problem, "Write less; put long content into files and name them."
        )
