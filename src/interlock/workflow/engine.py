"""Advances runs: state, events and the next step are stored in one transaction.

It is called within the transaction that ends a step's task, so that a crash neither loses nor repeats a
step.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from interlock.core.logging import StructuredLogger
from interlock.log.event import Event
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
from interlock.workflow.run_rows import (
    READ_RUN,
    RUN_OF_TASK,
    NextStep,
    NodeVisit,
    RunState,
    RunStatus,
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


def begin(transaction: Transaction, session_id: str, started: RunStarted) -> NextStep | None:
    """Start a new run, up to its first step."""
    transaction.record(started)
    return _RunTransaction(transaction, session_id).go(lambda run_state: run_state.walk().begin())


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
    moving.record(RunPaused(who=who))


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
    moving.record(RunResumed(who=who, credential_id=credential_id or ""))
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
    moving.record(RunResumed(who=who, agents=agents, credential_id=credential_id or ""))
    return moving.go(lambda run_state: run_state.walk().reenter(at.place), retry_of=at.number)


def stop(transaction: Transaction, session_id: str, who: str, reason: str = "") -> str | None:
    """Stop permanently. Returns the running task, which the caller cancels."""
    moving = _RunTransaction(transaction, session_id)
    if moving.run_state.run.status.is_end:
        raise WrongRunStatus(f"run {session_id} is already {moving.run_state.run.status}")
    moving.record(RunStopped(who=who, reason=reason))
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
                completed = NodeCompleted(**_which(visit_row), outcome=outcome, to=to, label=label)
                self.record(completed, visit_row)
            case WorkOnStep(place):
                return self._work(self.run_state.newest(place))
            case MarkNodeFailed(place, reason):
                self.failed(self.run_state.newest(place), VisitStatus.failed, reason, "")
            case FinishRun(outcome):
                self.record(RunFinished(status="done", outcome=outcome, steps=self.run_state.steps))
            case AbandonRun(reason):
                steps = self.run_state.steps
                self.record(RunFinished(status="failed", outcome="", steps=steps, reason=reason))
            case _:
                assert_never(move)
        return None

    # -- nodes --

    def _enter(self, place: NodeInFrame, visit: int, retry_of: int | None) -> None:
        node = self.run_state.run.book.node(place)
        self.record(
            NodeEntered(
                number=len(self.run_state.visits) + 1,
                frame=place.frame,
                node=place.node,
                node_kind=node.kind.value,
                visit=visit,
                retry_of=retry_of,
            )
        )

    def _work(self, visit: NodeVisit) -> NextStep | None:
        if self.run_state.run.status is RunStatus.paused:
            return None
        return self.begin_ready(visit)

    def begin_ready(self, visit: NodeVisit) -> NextStep:
        """The task of a ready step, in the stricter of the run's mode and the step's own."""
        run, task_id = self.run_state.run, f"t_{secrets.token_hex(8)}"
        workflow = run.book.workflow_in(visit.frame)
        brief = workflow.nodes[visit.node].brief
        self.record(NodeBegun(**_which(visit), task_id=task_id), visit)
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
        self.record(NodeFailed(**_which(visit), status=status.value, reason=reason), visit)
        if not self.run_state.run.status.is_end:
            because = f"step {visit.node} did not finish: {reason}"
            self.record(RunPaused(who=who, reason=because))

    def record(self, event: Event, visit: NodeVisit | None = None) -> None:
        """Record an event of the run, or of a visit of it, and read what it changed."""
        parent = self.run_state.run.started_event if visit is None else visit.entered_event
        self._transaction.record(event, EventScope(None, parent))
        self.run_state = read_run_state(self._transaction.connection, self._session_id)


def _which(visit: NodeVisit) -> dict[str, Any]:
    return {"number": visit.number, "frame": visit.frame, "node": visit.node}
