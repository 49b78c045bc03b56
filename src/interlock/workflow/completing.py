"""Takes down what a step says it came to, if an edge leads on with that; and tells where runs are."""

import re
from collections.abc import Mapping

import orjson

from interlock.events.ledger import Scope
from interlock.events.log import EventLog, Transaction
from interlock.events.runs import NodeDecided
from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.text import storable
from interlock.redaction.redactor import Redactor
from interlock.store.database import Database
from interlock.store.driver import Connection
from interlock.workflow.machine import VisitStatus
from interlock.workflow.rows import (
    DECIDE,
    LIST_RUNS,
    READ_SHOWN,
    RUN_OF_TASK,
    Run,
    Standing,
    StepAtWork,
    Visit,
    read_standing,
    run_of,
)
from interlock.workflow.telling import MAX_ARTIFACT, MAX_ARTIFACTS, MAX_SUMMARY

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class RunBook:
    """What stands in the store about runs. Only a step's own word is written here."""

    def __init__(self, database: Database, log: EventLog, redactor: Redactor) -> None:
        self._database = database
        self._events = log
        self._redactor = redactor

    async def standing(self, session_id: str) -> Standing:
        return await self._database.read(lambda db: read_standing(db, storable(session_id), READ_SHOWN))

    async def runs(self, *, workflow: str | None = None, limit: int = 100) -> list[Run]:
        """The newest first."""
        everything, name = (1, "") if workflow is None else (0, storable(workflow))
        rows = await self._database.read(lambda db: db.query(LIST_RUNS, (everything, name, limit)))
        return [run_of(row) for row in rows]

    async def at_work(self, session_id: str) -> StepAtWork | None:
        """The step that the session's task is about; None where there is none."""
        standing = await self.standing(session_id)
        visit = standing.at
        if visit is None or visit.status is not VisitStatus.active:
            return None
        workflow = standing.run.book.workflow_in(visit.frame)
        return StepAtWork(standing, visit, workflow, workflow.nodes[visit.node])

    async def complete(
        self,
        session_id: str,
        scope: Scope,
        token: int | None,
        outcome: str,
        summary: str,
        artifacts: Mapping[str, str],
    ) -> str:
        """Raises a `ToolError` that names the outcomes there are, where this one leads nowhere."""
        _refuse_unfit(summary, artifacts)
        said = self._redactor.text(storable(summary))
        kept = {name: self._redactor.text(storable(text)) for name, text in artifacts.items()}

        def work(transaction: Transaction) -> str:
            transaction.next_seq()
            standing, visit = _at_work(transaction.connection, scope.task or "")
            walk = standing.walk(kept)
            if reason := walk.refusal(visit.place, outcome):
                allowed = ", ".join(walk.allowed(visit.place)) or "none"
                raise ToolError(
                    ErrorCode.E_INVALID_TRANSITION,
                    f"{reason} (allowed: {allowed})",
                    f"Call it again with one of these outcomes: {allowed}.",
                )
            stored = orjson.dumps(kept).decode() if kept else None
            parameters = (outcome, said, stored, session_id, visit.number)
            transaction.connection.change(DECIDE, parameters)
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


def _at_work(connection: Connection, task_id: str) -> tuple[Standing, Visit]:
    rows = connection.query(RUN_OF_TASK, (task_id,))
    if rows:
        standing = read_standing(connection, str(rows[0][0]))
        for visit in standing.visits:
            if visit.number == rows[0][1] and visit.status is VisitStatus.active:
                return standing, visit
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
