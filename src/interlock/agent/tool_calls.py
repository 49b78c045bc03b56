"""Runs the tool calls of one turn: read-only ones concurrently, all others one after another.

Every call gets exactly one tool message, in the order of the calls, whatever its outcome.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import groupby

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
    ToolCallInfo,
    ToolDenied,
    ToolProgress,
    ToolResultInfo,
    shown_arguments,
)
from interlock.agent.limit_stops import LimitStop, ModelHint
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.placeholder_results import ENDED_BEFORE, REFUSED_OFTEN, not_run_result, stopped_result
from interlock.agent.repetition import arguments_fingerprint
from interlock.core.unbounded_queue import UnboundedQueue
from interlock.gates.gate import ToolCall
from interlock.gates.runner import CallContext, ToolRunner
from interlock.log.event import Event
from interlock.log.stream_appender import EventDraft, EventScope
from interlock.log.writer import EventLog, TaskAppender
from interlock.models.provider import RequestedCall
from interlock.policy.authority import Authority
from interlock.redaction.redactor import Redactor
from interlock.sessions.manager import SessionManager
from interlock.sessions.models import Message, Role
from interlock.tools.result import ToolResult

MAX_PARALLEL_CALLS = 8

ExecuteTool = Callable[[ToolCall, Authority, CallContext], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class TurnScope:
    """The session, event scope, authority and lease under which a turn's calls run."""

    session_id: str
    scope: EventScope
    authority: Authority
    lease_token: int | None
    appender: TaskAppender
    is_held: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class DraftedMessage:
    """A message and the event that has it, which gives it its number when it is written."""

    message: Message
    draft: EventDraft


@dataclass(slots=True)
class ToolCallBatchResult:
    """The result of a turn's calls: messages by call id, the limit reached, and open questions."""

    answers: dict[str, DraftedMessage] = field(default_factory=dict)
    stop: LimitStop | None = None
    # Calls that wait for a person, with the question each asked.
    waiting: dict[str, str] = field(default_factory=dict)


class ToolCallScheduler:
    """Runs the calls of one task."""

    def __init__(
        self,
        execute: ExecuteTool,
        runner: ToolRunner,
        sessions: SessionManager,
        log: EventLog,
        redactor: Redactor,
        breakers: CircuitBreakers,
        control: LimitTracker,
        record: Callable[[Sequence[Event]], None],
    ) -> None:
        self._execute = execute
        self._runner = runner
        self._sessions = sessions
        self._log = log
        self._redactor = redactor
        self._breakers = breakers
        self._control = control
        self._record = record
        self._begun: set[str] = set()
        self._outcomes: dict[str, EventDraft] = {}

    async def run(
        self, calls: Sequence[RequestedCall], turn: TurnScope, end: ToolCallBatchResult
    ) -> AsyncGenerator[AgentEvent]:
        """Yield events as they happen; `end` has the results afterwards."""
        try:
            for group in self._groups(calls, turn.authority):
                end.stop = end.stop or self._control.out_of_time()
                if end.stop is not None or self._control.refusal_limit is not None:
                    break
                async with aclosing(self._group(group, turn, end)) as events:
                    async for event in events:
                        yield event
        finally:
            if calls:
                self._answer_unrun(calls, turn, end)

    def answer_known(
        self, answers: Iterable[tuple[str, str]], turn: TurnScope, end: ToolCallBatchResult
    ) -> None:
        """Answer calls whose outcome is known."""
        for call_id, content in answers:
            end.answers[call_id] = self._message(call_id, content, turn)

    async def _group(
        self, group: Sequence[RequestedCall], turn: TurnScope, end: ToolCallBatchResult
    ) -> AsyncGenerator[AgentEvent]:
        for call in group:
            yield self._info(call, turn.authority)
        told: UnboundedQueue[ToolProgress | None] = UnboundedQueue()
        running = [asyncio.create_task(self._run(call, turn, told)) for call in group]
        for each in running:
            each.add_done_callback(lambda _ended: told.put(None))
        try:
            ended = 0
            while ended < len(running):
                try:
                    async with asyncio.timeout(self._control.seconds_left) as time:
                        progress = await told.next()
                except TimeoutError:
                    if not time.expired():
                        raise
                    end.stop = self._control.time_ran_out()
                    break
                if progress is None:
                    ended += 1
                else:
                    yield progress
        finally:
            await _cancel_and_wait(running)
        for call, each in zip(group, running, strict=True):
            if not each.cancelled():
                yield self._ended(call, each.result(), turn, end)

    def _answer_unrun(
        self, calls: Sequence[RequestedCall], turn: TurnScope, end: ToolCallBatchResult
    ) -> None:
        """Answer calls that will not run: a call without a result makes the history invalid."""
        for call in calls:
            if call.call_id not in end.answers and call.call_id not in end.waiting:
                mode, name = turn.authority.mode.value, self._name(call, turn.authority)
                if call.call_id in self._begun:
                    if self._runner.asks(name):
                        # Its question may be stored by now: resuming or ending the task finds it in the
                        # log.
                        continue
                    if call.call_id in self._outcomes:
                        continue
                    content = stopped_result(name, mode)
                else:
                    is_refused = self._control.refusal_limit is not None
                    content = not_run_result(name, mode, REFUSED_OFTEN if is_refused else ENDED_BEFORE)
                end.answers[call.call_id] = self._message(call.call_id, content, turn)

    async def _run(
        self, call: RequestedCall, turn: TurnScope, told: "UnboundedQueue[ToolProgress | None]"
    ) -> ToolResult:
        name = self._name(call, turn.authority)
        permit = self._breakers.allows(CircuitKey(tool_name=name, session_id=turn.session_id))
        context = CallContext(
            session_id=turn.session_id,
            scope=turn.scope,
            lease_token=turn.lease_token,
            is_held=turn.is_held,
            appender=turn.appender,
            outcome_recorded=lambda draft: self._outcomes.update({call.call_id: draft}),
            report_progress=lambda text: told.put(ToolProgress(call.call_id, text)),
        )
        asked = ToolCall(call.call_id, call.name, call.arguments)
        if isinstance(permit, OpenCircuit):
            failure = tool_circuit_open_failure(name, turn.authority.mode.value, permit)
            return await self._runner.refuse_call(asked, failure, turn.authority, context)
        if isinstance(permit, ProbePermit):
            self._record(permit.events)
        self._begun.add(call.call_id)
        try:
            result = await self._execute(asked, turn.authority, context)
            self._record(self._breakers.record_tool_result(permit, result))
            return result
        finally:
            self._breakers.released(permit)

    def _ended(
        self, call: RequestedCall, result: ToolResult, turn: TurnScope, end: ToolCallBatchResult
    ) -> AgentEvent:
        name = self._name(call, turn.authority)
        if result.question_id is not None:
            end.waiting[call.call_id] = result.question_id
            return AskUser(call.call_id, result.question_id)
        verdict = self._control.call_ended(
            name, arguments_fingerprint(call.arguments), result, exposed=turn.authority.exposed
        )
        self._control.call_used(result.used)
        envelope = result.as_dict()
        if isinstance(verdict, ModelHint):
            told = orjson.dumps({**envelope, "note": verdict.text}).decode()
            end.answers[call.call_id] = self._message(call.call_id, told, turn)
        else:
            content = orjson.dumps(envelope).decode()
            message = Message(0, Role.tool, content, 0, None, call.call_id)
            end.answers[call.call_id] = DraftedMessage(message, self._outcomes[call.call_id])
        if isinstance(verdict, LimitStop):
            end.stop = end.stop or verdict
        failure = result.failure
        if failure is not None and failure.is_denial:
            return ToolDenied(
                call_id=call.call_id,
                tool_name=failure.tool_name,
                mode=failure.mode,
                error_code=failure.error_code.value,
                message=failure.message,
                next_action=failure.next_action,
            )
        return ToolResultInfo(call.call_id, name, envelope)

    def _message(self, call_id: str, content: str, turn: TurnScope) -> DraftedMessage:
        message = self._sessions.draft(Role.tool, content, tool_call_id=call_id)
        draft = self._log.draft(message.event(), turn.scope)
        turn.appender.hold(draft)
        return DraftedMessage(message.message(), draft)

    def _info(self, call: RequestedCall, authority: Authority) -> ToolCallInfo:
        arguments = self._redactor.value(shown_arguments(call.arguments))
        called_as = call.name if authority.names.get(call.name, call.name) != call.name else ""
        return ToolCallInfo(call.call_id, self._name(call, authority), arguments, called_as)

    def _name(self, call: RequestedCall, authority: Authority) -> str:
        """The tool's name; if unknown, the name the model used, redacted."""
        return authority.names.get(call.name) or self._redactor.text(call.name)

    def _groups(
        self, calls: Sequence[RequestedCall], authority: Authority
    ) -> Iterator[Sequence[RequestedCall]]:
        """Adjacent read-only calls run together; a call that changes something runs alone, in its place."""

        def only_looks(call: RequestedCall) -> bool:
            return self._runner.only_reads(authority.names.get(call.name, call.name))

        for looks, neighbours in groupby(calls, key=only_looks):
            batch = list(neighbours)
            size = MAX_PARALLEL_CALLS if looks else 1
            yield from (batch[start : start + size] for start in range(0, len(batch), size))


async def _cancel_and_wait(running: "Sequence[asyncio.Task[ToolResult]]") -> None:
    """Cancel and wait until all have ended, even if cancelled again. Each call records its own end."""
    for each in running:
        each.cancel()
    cancelled: asyncio.CancelledError | None = None
    while unfinished := [each for each in running if not each.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancelled = error
    for each in running:
        # Retrieve the exception so that asyncio does not log it.
        _ = each.cancelled() or each.exception()
    if cancelled is not None:
        raise cancelled
