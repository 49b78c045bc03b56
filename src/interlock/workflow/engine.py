"""Advances runs: state, events and the next step are stored in one transaction.

It is called within the transaction that ends a step's task, so that a crash neither loses nor repeats a
step.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, assert_never

import orjson

from interlock.core.logging import StructuredLogger
from interlock.log.event import Event
from interlock.log.hash_chain import now_us
from interlock.log.run_events import (
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
from interlock.log.stream_appender import EventScope
from interlock.log.writer import Transaction
from interlock.policy.delegation import step_mode
from interlock.workflow.graph import NodeKind
from interlock.workflow.run_rows import (
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
    NodeVisit,
    RunState,
    RunStatus,
    WorkflowRun,
    WrongRunStatus,
    read_run_state,
    run_from_row,
)
from interlock.workflow.state_machine import (
    AbandonRun,
    CompleteNode,
    EnterNode,
    FinishRun,
    MarkNodeFailed,
    Move,
    NodeInFrame,
    VisitStatus,
    WorkOnStep,
)
from interlock.workflow.step_prompt import step_message

_log = StructuredLogger(__name__)


def begin(transaction: Transaction, run: WorkflowRun) -> NextStep | None:
    """Start a new run, up to its first step. Sets `run.started_event`."""
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
    return _RunTransaction(transaction, run.session_id).go(lambda run_state: run_state.walk().begin())


def task_ended(
    transaction: Transaction, task_id: str, *, is_done: bool, is_cancelled: bool, reason: str, who: str
) -> NextStep | None:
    """The next task after a step's task has ended, if any."""
    rows = transaction.connection.query(RUN_OF_TASK, (task_id,))
    if not rows:
        return None
    moving = _RunTransaction(transaction, str(rows[0][0]))
    number = int(rows[0][1])
    visit = next(each for each in moving.run_state.visits if each.number == number)
    if visit.status is not VisitStatus.active:
        return None
    if not is_done or moving.run_state.run.status.is_end:
        status = VisitStatus.cancelled if is_cancelled else VisitStatus.failed
        because = f"it was cancelled by {who}" if is_cancelled else reason or "it failed"
        moving.failed(visit, status, because, who)
        return None
    return moving.go(
        lambda run_state: run_state.walk(visit.artifacts).advance(visit.place, visit.outcome or "")
    )


def pause(transaction: Transaction, session_id: str, who: str) -> None:
    """Pause: the running step finishes, and no further step starts."""
    moving = _RunTransaction(transaction, session_id)
    moving.require(RunStatus.running, "paused")
    moving.set_status(RunStatus.paused, "", RunPaused(who=who))


def resume(
    transaction: Transaction, session_id: str, who: str, credential_id: str | None
) -> NextStep | None:
    moving = _RunTransaction(transaction, session_id)
    moving.require(RunStatus.paused, "resumed")
    moving.require_unchanged()
    at = moving.run_state.at
    if at is not None and at.status in {VisitStatus.failed, VisitStatus.cancelled}:
        raise WrongRunStatus(
            f"step {at.node} of run {session_id} did not finish ({at.reason}); retry it, or stop the run"
        )
    moving.resumed(who, credential_id, {})
    return moving.begin_ready(at) if at is not None and at.status is VisitStatus.ready else None


def retry(
    transaction: Transaction, session_id: str, who: str, credential_id: str | None, agents: dict[str, str]
) -> NextStep | None:
    """Retry the node that did not finish, with the current agents."""
    moving = _RunTransaction(transaction, session_id)
    moving.require(RunStatus.paused, "retried")
    moving.require_unchanged()
    at = moving.run_state.at
    if at is None or at.status not in {VisitStatus.failed, VisitStatus.cancelled}:
        raise WrongRunStatus(f"no step of run {session_id} failed; resume it")
    pins = orjson.dumps(agents, option=orjson.OPT_SORT_KEYS).decode()
    transaction.connection.change(PIN_AGENTS, (pins, session_id))
    moving.resumed(who, credential_id, agents)
    return moving.go(lambda run_state: run_state.walk().reenter(at.place), retry_of=at.number)


def stop(transaction: Transaction, session_id: str, who: str, reason: str = "") -> str | None:
    """Stop permanently. Returns the running task, which the caller cancels."""
    moving = _RunTransaction(transaction, session_id)
    if moving.run_state.run.status.is_end:
        raise WrongRunStatus(f"run {session_id} is already {moving.run_state.run.status}")
    because = f"stopped by {who}" + (f": {reason}" if reason else "")
    moving.end(RunStatus.stopped, "", because, RunStopped(who=who, reason=reason))
    at = moving.run_state.at
    if at is None or at.status is not VisitStatus.active:
        return None
    return at.task_id


def stop_if_open(transaction: Transaction, session_id: str, who: str) -> None:
    """Stop the run of a deleted session, if there is one; the caller cancels its task."""
    rows = transaction.connection.query(READ_RUN, (session_id,))
    if rows and not run_from_row(rows[0]).status.is_end:
        stop(transaction, session_id, who)


class _RunTransaction:
    """One run within one transaction."""

    def __init__(self, transaction: Transaction, session_id: str) -> None:
        transaction.next_seq()
        self._transaction = transaction
        self._session_id = session_id
        self.run_state = read_run_state(transaction.connection, session_id)

    def require(self, status: RunStatus, what: str) -> None:
        present = self.run_state.run.status
        if present is not status:
            raise WrongRunStatus(
                f"run {self._session_id} is {present}; only a run that is {status} can be {what}"
            )

    def require_unchanged(self) -> None:
        """Raise to the person, not the run, if the stored workflow is missing or not the pinned one."""
        _ = self.run_state.run.book

    def go(
        self, plan: Callable[[RunState], Sequence[Move]], *, retry_of: int | None = None
    ) -> NextStep | None:
        try:
            moves = plan(self.run_state)
        except Exception as error:  # noqa: BLE001 - a task must be able to end, whatever its run looks like
            _log.error("run_cannot_go_on", session_id=self._session_id, exc_info=error)
            moves = [AbandonRun(f"it cannot continue ({type(error).__name__}: {error})")]
        step: NextStep | None = None
        for move in moves:
            step = self._make(move, retry_of) or step
            retry_of = None if isinstance(move, EnterNode) else retry_of
        return step

    def _make(self, move: Move, retry_of: int | None) -> NextStep | None:
        match move:
            case EnterNode(place, visit):
                self._enter(place, visit, retry_of)
            case CompleteNode(place, outcome, edge):
                visit_row = self.run_state.newest(place)
                to, label = (edge.target, edge.label) if edge else ("", "")
                self._close(visit_row, VisitStatus.completed, outcome, to, label)
                self._record(
                    visit_row,
                    NodeCompleted(**_which(visit_row), outcome=outcome, to=to, label=label),
                )
            case WorkOnStep(place):
                return self._work(self.run_state.newest(place))
            case MarkNodeFailed(place, reason):
                self.failed(self.run_state.newest(place), VisitStatus.failed, reason, "")
            case FinishRun(outcome):
                steps = self.run_state.steps
                self.end(
                    RunStatus.done, outcome, "", RunFinished(status="done", outcome=outcome, steps=steps)
                )
            case AbandonRun(reason):
                told = RunFinished(status="failed", outcome="", steps=self.run_state.steps, reason=reason)
                self.end(RunStatus.failed, "", reason, told)
            case _:
                assert_never(move)
        return None

    # -- nodes --

    def _enter(self, place: NodeInFrame, visit: int, retry_of: int | None) -> None:
        node = self.run_state.run.book.node(place)
        number = len(self.run_state.visits) + 1
        entered = NodeEntered(
            number=number,
            frame=place.frame,
            node=place.node,
            node_kind=node.kind.value,
            visit=visit,
            retry_of=retry_of,
        )
        recorded = self._transaction.record(entered, EventScope(None, self.run_state.run.started_event))
        row = NodeVisit(
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
        self.run_state = replace(self.run_state, visits=(*self.run_state.visits, row))

    def _work(self, visit: NodeVisit) -> NextStep | None:
        if self.run_state.run.status is RunStatus.paused:
            return None
        return self.begin_ready(visit)

    def begin_ready(self, visit: NodeVisit) -> NextStep:
        """The task of a ready step, in the stricter of the run's mode and the step's own."""
        run, task_id = self.run_state.run, f"t_{secrets.token_hex(8)}"
        workflow = run.book.workflow_in(visit.frame)
        brief = workflow.nodes[visit.node].brief
        self._transaction.connection.change(BEGIN_VISIT, (task_id, self._session_id, visit.number))
        self._record(visit, NodeBegun(**_which(visit), task_id=task_id))
        return NextStep(
            task_id=task_id,
            content=step_message(self.run_state, visit, workflow.name),
            mode=step_mode(run.mode, brief.mode if brief else None),
            parent=visit.entered_event,
            who=run.started_by,
            credential_id=run.credential_id,
        )

    def failed(self, visit: NodeVisit, status: VisitStatus, reason: str, who: str) -> None:
        """Record a failed node. The run stays there until a person retries or stops it."""
        self._close(visit, status, visit.outcome, "", "", reason)
        self._record(visit, NodeFailed(**_which(visit), status=status.value, reason=reason))
        if not self.run_state.run.status.is_end:
            because = f"step {visit.node} did not finish: {reason}"
            self.set_status(RunStatus.paused, because, RunPaused(who=who, reason=because))

    def _close(
        self,
        visit: NodeVisit,
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
        visits = tuple(closed if each.number == visit.number else each for each in self.run_state.visits)
        self.run_state = replace(self.run_state, visits=visits)

    # -- run --

    def set_status(self, status: RunStatus, reason: str, event: Event) -> None:
        self._transaction.connection.change(SET_STATUS, (status.value, reason or None, self._session_id))
        self._of_run(event)
        self.run_state = replace(self.run_state, run=replace(self.run_state.run, status=status))

    def resumed(self, who: str, credential_id: str | None, agents: dict[str, str]) -> None:
        """Record the credential that resumed the run: revoking it ends the run."""
        self._transaction.connection.change(SET_CREDENTIAL, (credential_id, self._session_id))
        told = RunResumed(who=who, agents=agents, credential_id=credential_id or "")
        self.set_status(RunStatus.running, "", told)
        run = replace(self.run_state.run, credential_id=credential_id)
        self.run_state = replace(self.run_state, run=run)

    def end(self, status: RunStatus, outcome: str, reason: str, event: Event) -> None:
        parameters = (status.value, outcome or None, reason or None, now_us(), self._session_id)
        self._transaction.connection.change(END_RUN, parameters)
        self._of_run(event)
        self.run_state = replace(self.run_state, run=replace(self.run_state.run, status=status))

    def _of_run(self, event: Event) -> None:
        self._transaction.record(event, EventScope(None, self.run_state.run.started_event))

    def _record(self, visit: NodeVisit, event: Event) -> None:
        self._transaction.record(event, EventScope(None, visit.entered_event))


def _which(visit: NodeVisit) -> dict[str, Any]:
    return {"number": visit.number, "frame": visit.frame, "node": visit.node}
