"""Runs the tool calls of one turn: read-only ones concurrently, all others one after another.

Every call gets exactly one tool message, in the order of the calls, whatever its outcome.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Protocol

import orjson

from interlock.agent.circuit_breaker import (
    CircuitBreakers,
    CircuitKey,
    OpenCircuit,
    ProbePermit,
    tool_circuit_open_failure,
)
from interlock.agent.events import (
    AgentEvent,
    AskUser,
    Emit,
    ToolCallInfo,
    ToolDenied,
    ToolProgress,
    ToolResultInfo,
    is_deep,
)
from interlock.agent.limit_tracker import LimitTracker, arguments_fingerprint
from interlock.agent.limits import LimitStop, ModelHint
from interlock.agent.placeholder_results import ENDED_BEFORE, REFUSED_OFTEN, not_run_result, stopped_result
from interlock.core.aio import cancel_and_wait
from interlock.core.errors import ToolError
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.event import Event
from interlock.log.stream_appender import EventDraft, EventScope
from interlock.models.provider import RequestedCall
from interlock.policy.authority import Authority
from interlock.redaction.redactor import Redactor
from interlock.sessions.models import Message, Role
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext

MAX_PARALLEL_CALLS = 8

ExecuteTool = Callable[[ToolCall, Authority, ToolContext], Awaitable[ToolResult]]


class HoldResult(Protocol):
    def __call__(
        self, call_id: str, content: str, scope: EventScope, *, replaces_outcome: bool = False
    ) -> "DraftedMessage": ...


@dataclass(frozen=True, slots=True)
class TurnScope:
    """The authority under which a turn's calls run, and their session, lease and place in the log."""

    authority: Authority
    context: ToolContext


@dataclass(frozen=True, slots=True)
class DraftedMessage:
    """A message and the event that has it, which gives it its number when it is written."""

    message: Message
    draft: EventDraft


@dataclass(slots=True)
class CallResults:
    """The results of a turn's calls: messages by call id, the limit reached, and open questions."""

    answers: dict[str, DraftedMessage] = field(default_factory=dict)
    stop: LimitStop | None = None
    # Calls that wait for a person, with the question each asked.
    waiting: dict[str, str] = field(default_factory=dict)

    def has(self, call_id: str) -> bool:
        return call_id in self.answers or call_id in self.waiting


@dataclass(slots=True)
class _RunningCall:
    """One call of a turn: as requested, and as far as it has come."""

    request: ToolCall
    # If it is unknown, the name the model used, redacted.
    tool_name: str
    # The arguments as the model wrote them.
    arguments: str
    has_begun: bool = False
    # The event of its outcome, once that is on disk.
    outcome: EventDraft | None = None
    result: ToolResult | None = None

    @property
    def id(self) -> str:
        return self.request.call_id


class ToolCallScheduler:
    """Runs the calls of one task."""

    def __init__(
        self,
        execute: ExecuteTool,
        *,
        runner: ToolRunner,
        redactor: Redactor,
        breakers: CircuitBreakers,
        limits: LimitTracker,
        hold: Callable[[Sequence[Event]], None],
        hold_result: HoldResult,
    ) -> None:
        """`hold` leaves events for the next append, `hold_result` the tool message of a call."""
        self._execute = execute
        self._runner = runner
        self._redactor = redactor
        self._breakers = breakers
        self._limits = limits
        self._hold = hold
        self._hold_result = hold_result

    async def run_calls(self, calls: Sequence[RequestedCall], turn: TurnScope, emit: Emit) -> CallResults:
        """Run the calls, within the time that is left for the task, and answer each of them."""
        results = CallResults()
        if not calls:
            return results
        running = [self._opened(call, turn.authority) for call in calls]
        try:
            async with asyncio.timeout(self._limits.seconds_left) as deadline:
                for group in self._groups(running):
                    results.stop = results.stop or self._limits.out_of_time()
                    if results.stop is not None or self._limits.refusal_limit is not None:
                        break
                    await self._run_group(group, turn, emit)
                    self._finish(group, turn, results, emit)
        except TimeoutError:
            if not deadline.expired():
                raise
            results.stop = self._limits.time_ran_out()
            self._finish(running, turn, results, emit)
        finally:
            # Also when cancelled: a call without a result makes the history invalid.
            self._answer_unrun(running, turn, results)
        return results

    def answers_from_log(
        self, answers: Iterable[tuple[str, str]], turn: TurnScope
    ) -> dict[str, DraftedMessage]:
        """The messages of calls whose outcome is known."""
        scope = turn.context.scope
        return {call_id: self._hold_result(call_id, content, scope) for call_id, content in answers}

    async def _run_group(self, group: Sequence[_RunningCall], turn: TurnScope, emit: Emit) -> None:
        for call in group:
            emit(self._info(call, turn.authority))
        if len(group) == 1:
            await self._run(group[0], turn, emit)
            return
        running = [asyncio.create_task(self._run(call, turn, emit)) for call in group]
        try:
            await asyncio.wait(running)
        finally:
            await cancel_and_wait(*running)
        for each in running:
            each.result()

    async def _run(self, call: _RunningCall, turn: TurnScope, emit: Emit) -> None:
        def report(text: str) -> None:
            # A tool that was given up may still report.
            if call.result is None:
                emit(ToolProgress(call.id, text))

        def recorded(draft: EventDraft) -> None:
            call.outcome = draft

        context = replace(turn.context, outcome_recorded=recorded, report_progress=report)
        name, authority = call.tool_name, turn.authority
        permit = self._breakers.allows(CircuitKey(tool_name=name, session_id=context.session_id))
        if isinstance(permit, OpenCircuit):
            failure = tool_circuit_open_failure(name, authority.mode.value, permit)
            call.result = await self._runner.refuse_call(call.request, failure, authority, context)
            return
        if isinstance(permit, ProbePermit):
            self._hold(permit.events)
        call.has_begun = True
        try:
            call.result = await self._execute(call.request, authority, context)
            self._hold(self._breakers.record_tool_result(permit, call.result))
        finally:
            self._breakers.released(permit)

    def _finish(
        self, calls: Iterable[_RunningCall], turn: TurnScope, results: CallResults, emit: Emit
    ) -> None:
        """Take the results of calls that have ended, in the order of the calls."""
        for call in calls:
            if call.result is not None and not results.has(call.id):
                emit(self._finished(call, call.result, turn, results))

    def _finished(
        self, call: _RunningCall, result: ToolResult, turn: TurnScope, results: CallResults
    ) -> AgentEvent:
        if result.question_id is not None:
            results.waiting[call.id] = result.question_id
            return AskUser(call.id, result.question_id)
        envelope = result.as_dict()
        content, failure = orjson.dumps(envelope).decode(), result.failure
        verdict = self._limits.call_ended(
            call.tool_name, self._fingerprint(call), content, failure, exposed=turn.authority.exposed
        )
        self._limits.call_used(result.used)
        if isinstance(verdict, ModelHint) or call.outcome is None:
            noted = envelope | ({"note": verdict.text} if isinstance(verdict, ModelHint) else {})
            results.answers[call.id] = self._hold_result(
                call.id,
                orjson.dumps(noted).decode(),
                turn.context.scope,
                replaces_outcome=call.outcome is not None,
            )
        else:
            message = Message(0, Role.tool, content, 0, None, call.id)
            results.answers[call.id] = DraftedMessage(message, call.outcome)
        if isinstance(verdict, LimitStop):
            results.stop = results.stop or verdict
        if failure is not None and failure.is_denial:
            return ToolDenied(
                call_id=call.id,
                tool_name=failure.tool_name,
                mode=failure.mode,
                error_code=failure.error_code.value,
                message=failure.message,
                next_action=failure.next_action,
            )
        return ToolResultInfo(call.id, call.tool_name, envelope)

    def _answer_unrun(self, calls: Iterable[_RunningCall], turn: TurnScope, results: CallResults) -> None:
        """Answer calls that did not run, or were stopped without an outcome."""
        mode = turn.authority.mode.value
        for call in calls:
            if results.has(call.id) or call.outcome is not None:
                continue
            if not call.has_begun:
                reason = ENDED_BEFORE if self._limits.refusal_limit is None else REFUSED_OFTEN
                content = not_run_result(call.tool_name, mode, reason)
            elif self._runner.asks(call.tool_name):
                # Its question may be stored by now: resuming or ending the task finds it in the log.
                continue
            else:
                content = stopped_result(call.tool_name, mode)
            results.answers[call.id] = self._hold_result(call.id, content, turn.context.scope)

    def _opened(self, call: RequestedCall, authority: Authority) -> _RunningCall:
        name = authority.names.get(call.name) or self._redactor.text(call.name)
        return _RunningCall(ToolCall(call.call_id, call.name, call.arguments), name, call.arguments)

    def _info(self, call: _RunningCall, authority: Authority) -> ToolCallInfo:
        try:
            decoded = call.request.decoded()
        except ToolError:
            shown: object = call.arguments
        else:
            shown = call.arguments if is_deep(decoded) else decoded
        requested = call.request.name
        called_as = requested if authority.names.get(requested, requested) != requested else ""
        return ToolCallInfo(call.id, call.tool_name, self._redactor.value(shown), called_as)

    def _fingerprint(self, call: _RunningCall) -> str:
        try:
            return arguments_fingerprint(call.request.decoded())
        except ToolError:
            return arguments_fingerprint(call.arguments)

    def _groups(self, calls: Sequence[_RunningCall]) -> Iterator[Sequence[_RunningCall]]:
        """Adjacent read-only calls run together; a call that changes something runs alone, in its place."""

        def only_reads(call: _RunningCall) -> bool:
            return self._runner.only_reads(call.tool_name)

        for are_reads, neighbours in groupby(calls, key=only_reads):
            batch = list(neighbours)
            size = MAX_PARALLEL_CALLS if are_reads else 1
            yield from (batch[start : start + size] for start in range(0, len(batch), size))
