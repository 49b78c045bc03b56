"""Moves runs on: what is stored, what the log tells of it and what is to be done next are one transaction.

Whoever ends a step's task calls it within the transaction that ends it, so that a crash can neither lose
nor double a step.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, assert_never

import orjson

from interlock.events.base import Event
from interlock.events.chain import now_us
from interlock.events.ledger import Scope
from interlock.events.log import Transaction
from interlock.events.runs import (
    NodeBegun,
    NodeCompleted,
    NodeEntered,
    NodeFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
)
from interlock.gates.handing import step_mode
from interlock.infra.logging import Log
from interlock.workflow.graph import NodeKind
from interlock.workflow.machine import (
    Complete,
    Enter,
    Fail,
    Finish,
    GiveUp,
    Move,
    Place,
    VisitStatus,
    Work,
)
from interlock.workflow.rows import (
    BEGIN_VISIT,
    CLOSE_VISIT,
    END_RUN,
    INSERT_RUN,
    INSERT_VISIT,
    PIN_AGENTS,
    READ_RUN,
    RUN_OF_TASK,
    SET_CREDENTIAL,
    SET_STATUS,
    NextStep,
    Run,
    RunStatus,
    Standing,
    Visit,
    WrongRunStatus,
    read_standing,
    run_of,
)
from interlock.workflow.telling import step_message

_log = Log(__name__)


def begin(transaction: Transaction, run: Run) -> NextStep | None:
    """A new run, up to its first step. `run.started_event` is made here."""
    started = RunStarted(
        workflow=run.workflow,
        digest=run.digest,
        mode=run.mode.value,
        who=run.started_by,
        agents=dict(run.agents),
        credential_id=run.credential_id or "",
    )
    recorded = transaction.record(started)
    begun = replace(run, started_event=recorded.id, created_us=recorded.time_us)
    transaction.connection.change(INSERT_RUN, begun.as_row())
    return _Moving(transaction, run.session_id).go(lambda standing: standing.walk().begin())


def task_ended(
    transaction: Transaction, task_id: str, *, is_done: bool, is_cancelled: bool, reason: str, who: str
) -> NextStep | None:
    """What follows a task, if it was a step's: at most one other task."""
    rows = transaction.connection.query(RUN_OF_TASK, (task_id,))
    if not rows:
        return None
    moving = _Moving(transaction, str(rows[0][0]))
    number = int(rows[0][1])
    visit = next(each for each in moving.standing.visits if each.number == number)
    if visit.status is not VisitStatus.active:
        return None
    if not is_done or moving.standing.run.status.is_end:
        status = VisitStatus.cancelled if is_cancelled else VisitStatus.failed
        because = f"it was cancelled by {who}" if is_cancelled else reason or "it failed"
        moving.failed(visit, status, because, who)
        return None
    return moving.go(
        lambda standing: standing.walk(visit.artifacts).advance(visit.place, visit.outcome or "")
    )


def pause(transaction: Transaction, session_id: str, who: str) -> None:
    """The step at work goes to its end; none is begun after it."""
    moving = _Moving(transaction, session_id)
    moving.require(RunStatus.running, "paused")
    moving.set_status(RunStatus.paused, "", RunPaused(who=who))


def resume(
    transaction: Transaction, session_id: str, who: str, credential_id: str | None
) -> NextStep | None:
    moving = _Moving(transaction, session_id)
    moving.require(RunStatus.paused, "resumed")
    moving.require_unchanged()
    at = moving.standing.at
    if at is not None and at.status in {VisitStatus.failed, VisitStatus.cancelled}:
        raise WrongRunStatus(
            f"step {at.node} of run {session_id} did not finish ({at.reason}); retry it, or stop the run"
        )
    moving.resumed(who, credential_id, {})
    return moving.begin_ready(at) if at is not None and at.status is VisitStatus.ready else None


def retry(
    transaction: Transaction, session_id: str, who: str, credential_id: str | None, agents: dict[str, str]
) -> NextStep | None:
    """The node that did not get to an end, once more, with the agents as they are now."""
    moving = _Moving(transaction, session_id)
    moving.require(RunStatus.paused, "retried")
    moving.require_unchanged()
    at = moving.standing.at
    if at is None or at.status not in {VisitStatus.failed, VisitStatus.cancelled}:
        raise WrongRunStatus(f"no step of run {session_id} failed; resume it")
    pins = orjson.dumps(agents, option=orjson.OPT_SORT_KEYS).decode()
    transaction.connection.change(PIN_AGENTS, (pins, session_id))
    moving.resumed(who, credential_id, agents)
    return moving.go(lambda standing: standing.walk().again(at.place), retry_of=at.number)


def stop(transaction: Transaction, session_id: str, who: str, reason: str = "") -> str | None:
    """For good. The task that is to be cancelled with it, if one is under way."""
    moving = _Moving(transaction, session_id)
    if moving.standing.run.status.is_end:
        raise WrongRunStatus(f"run {session_id} is already {moving.standing.run.status}")
    because = f"stopped by {who}" + (f": {reason}" if reason else "")
    moving.end(RunStatus.stopped, "", because, RunStopped(who=who, reason=reason))
    at = moving.standing.at
    if at is None or at.status is not VisitStatus.active:
        return None
    return at.task_id


def stop_if_open(transaction: Transaction, session_id: str, who: str) -> None:
    """Stop the run of a session that is deleted, if there is one; its task is cancelled by the caller."""
    rows = transaction.connection.query(READ_RUN, (session_id,))
    if rows and not run_of(rows[0]).status.is_end:
        stop(transaction, session_id, who)


class _Moving:
    """One run within one transaction."""

    def __init__(self, transaction: Transaction, session_id: str) -> None:
        transaction.next_seq()
        self._transaction = transaction
        self._session_id = session_id
        self.standing = read_standing(transaction.connection, session_id)

    def require(self, status: RunStatus, what: str) -> None:
        present = self.standing.run.status
        if present is not status:
            raise WrongRunStatus(
                f"run {self._session_id} is {present}; only a run that is {status} can be {what}"
            )

    def require_unchanged(self) -> None:
        """Raises where the stored workflow is gone or not the pinned one: a person is told, not the run."""
        _ = self.standing.run.book

    def go(
        self, plan: Callable[[Standing], Sequence[Move]], *, retry_of: int | None = None
    ) -> NextStep | None:
        try:
            moves = plan(self.standing)
        except Exception as error:  # noqa: BLE001 - a task must be able to end, whatever its run looks like
            _log.error("run_cannot_go_on", session_id=self._session_id, exc_info=error)
            moves = [GiveUp(f"it cannot continue ({type(error).__name__}: {error})")]
        step: NextStep | None = None
        for move in moves:
            step = self._make(move, retry_of) or step
            retry_of = None if isinstance(move, Enter) else retry_of
        return step

    def _make(self, move: Move, retry_of: int | None) -> NextStep | None:
        match move:
            case Enter(place, visit):
                self._enter(place, visit, retry_of)
            case Complete(place, outcome, edge):
                visit_row = self.standing.newest(place)
                to, label = (edge.target, edge.label) if edge else ("", "")
                self._close(visit_row, VisitStatus.completed, outcome, to, label)
                self._tell(
                    visit_row,
                    NodeCompleted(**_which(visit_row), outcome=outcome, to=to, label=label),
                )
            case Work(place):
                return self._work(self.standing.newest(place))
            case Fail(place, reason):
                self.failed(self.standing.newest(place), VisitStatus.failed, reason, "")
            case Finish(outcome):
                steps = self.standing.steps
                self.end(
                    RunStatus.done, outcome, "", RunFinished(status="done", outcome=outcome, steps=steps)
                )
            case GiveUp(reason):
                told = RunFinished(status="failed", outcome="", steps=self.standing.steps, reason=reason)
                self.end(RunStatus.failed, "", reason, told)
            case _:
                assert_never(move)
        return None

    # -- nodes --

    def _enter(self, place: Place, visit: int, retry_of: int | None) -> None:
        node = self.standing.run.book.node(place)
        number = len(self.standing.visits) + 1
        entered = NodeEntered(
            number=number,
            frame=place.frame,
            node=place.node,
            node_kind=node.kind.value,
            visit=visit,
            retry_of=retry_of,
        )
        recorded = self._transaction.record(entered, Scope(None, self.standing.run.started_event))
        row = Visit(
            session_id=self._session_id,
            number=number,
            frame=place.frame,
            node=place.node,
            kind=node.kind,
            status=VisitStatus.ready if node.kind is NodeKind.step else VisitStatus.active,
            entered_event=recorded.id,
            visit=visit,
            retry_of=retry_of,
            entered_us=recorded.time_us,
        )
        self._transaction.connection.change(INSERT_VISIT, row.as_row())
        self.standing = replace(self.standing, visits=(*self.standing.visits, row))

    def _work(self, visit: Visit) -> NextStep | None:
        if self.standing.run.status is RunStatus.paused:
            return None
        return self.begin_ready(visit)

    def begin_ready(self, visit: Visit) -> NextStep:
        """Its task: in the stricter of the run's mode and the step's own."""
        run, task_id = self.standing.run, f"t_{secrets.token_hex(8)}"
        workflow = run.book.workflow_in(visit.frame)
        brief = workflow.nodes[visit.node].brief
        self._transaction.connection.change(BEGIN_VISIT, (task_id, self._session_id, visit.number))
        self._tell(visit, NodeBegun(**_which(visit), task_id=task_id))
        return NextStep(
            task_id=task_id,
            content=step_message(self.standing, visit, workflow.name),
            mode=step_mode(run.mode, brief.mode if brief else None),
            parent=visit.entered_event,
            who=run.started_by,
            credential_id=run.credential_id,
        )

    def failed(self, visit: Visit, status: VisitStatus, reason: str, who: str) -> None:
        """The run stays where it is until a person retries, or stops it."""
        self._close(visit, status, visit.outcome, "", "", reason)
        self._tell(visit, NodeFailed(**_which(visit), status=status.value, reason=reason))
        if not self.standing.run.status.is_end:
            because = f"step {visit.node} did not finish: {reason}"
            self.set_status(RunStatus.paused, because, RunPaused(who=who, reason=because))

    def _close(
        self,
        visit: Visit,
        status: VisitStatus,
        outcome: str | None,
        to: str,
        label: str,
        reason: str | None = None,
    ) -> None:
        ended = now_us()
        parameters = (status.value, outcome, to or None, label or None, reason, ended)
        self._transaction.connection.change(CLOSE_VISIT, (*parameters, self._session_id, visit.number))
        closed = replace(visit, status=status, outcome=outcome, reason=reason, ended_us=ended)
        visits = tuple(closed if each.number == visit.number else each for each in self.standing.visits)
        self.standing = replace(self.standing, visits=visits)

    # -- the run --

    def set_status(self, status: RunStatus, reason: str, event: Event) -> None:
        self._transaction.connection.change(SET_STATUS, (status.value, reason or None, self._session_id))
        self._of_run(event)
        self.standing = replace(self.standing, run=replace(self.standing.run, status=status))

    def resumed(self, who: str, credential_id: str | None, agents: dict[str, str]) -> None:
        """From now on it ends when this credential is revoked."""
        self._transaction.connection.change(SET_CREDENTIAL, (credential_id, self._session_id))
        told = RunResumed(who=who, agents=agents, credential_id=credential_id or "")
        self.set_status(RunStatus.running, "", told)
        run = replace(self.standing.run, credential_id=credential_id)
        self.standing = replace(self.standing, run=run)

    def end(self, status: RunStatus, outcome: str, reason: str, event: Event) -> None:
        parameters = (status.value, outcome or None, reason or None, now_us(), self._session_id)
        self._transaction.connection.change(END_RUN, parameters)
        self._of_run(event)
        self.standing = replace(self.standing, run=replace(self.standing.run, status=status))

    def _of_run(self, event: Event) -> None:
        self._transaction.record(event, Scope(None, self.standing.run.started_event))

    def _tell(self, visit: Visit, event: Event) -> None:
        self._transaction.record(event, Scope(None, visit.entered_event))


def _which(visit: Visit) -> dict[str, Any]:
    return {"number": visit.number, "frame": visit.frame, "node": visit.node}
