"""The only way to run a tool, for every entry path.

    judge → record the intent → execute under a time-out → redact → bound → record the outcome → return

The intent is on disk before the tool has any effect, and the outcome before anyone is shown it. A call
whose intent cannot be recorded does not run. A read from memory has no effect that the intent must precede:
then both are recorded together, and if they cannot be, nothing is shown.

A tightened policy applies from the next call on. The intent is written only if nothing was tightened since
the call's Authority was compiled; else the call is judged again, by the stricter of that and the present
policy.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Protocol

from interlock.core.aio import wait_uncancelled
from interlock.core.errors import (
    AuditUnavailable,
    ErrorClass,
    ErrorCode,
    PreconditionFailed,
    StoreError,
    ToolError,
    is_transient,
)
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.core.threads import DaemonThreadPool
from interlock.gates.authority_ledger import AuthorityLedger
from interlock.gates.call_events import (
    CallOutcome,
    intent_event,
    outcome_event,
    recorded_arguments,
    refusal_event,
)
from interlock.gates.gate import (
    CallContext,
    ClearedCall,
    Refusal,
    ToolCall,
    judge,
    task_cancelled_refusal,
    tool_changed_refusal,
)
from interlock.gates.sanitize import redact_failure, sanitize_result
from interlock.log.event import Event
from interlock.log.stream_appender import EventDraft, EventScope, WritePrecondition
from interlock.log.writer import EventLog
from interlock.policy.authority import Authority
from interlock.policy.verdict import PolicyLayer
from interlock.redaction.redactor import Redactor
from interlock.tools.registry import ToolRegistry
from interlock.tools.result import ToolFailure, ToolResult
from interlock.tools.sealed_argument_store import SealedArgumentStore
from interlock.tools.threads import CallCancelled
from interlock.tools.tool import Effect, ToolContext

_log = StructuredLogger(__name__)

# How long a cancelled tool may take to stop before it is abandoned.
GRACE_SECONDS = 1.0
# How often one call is judged at most. Each time but the first, the policy had just changed.
MAX_JUDGEMENTS = 8

_Cancelled = asyncio.CancelledError | None


class CurrentPolicy(Protocol):
    """The present policy, beside the one that an Authority was compiled from."""

    def condition(self, authority: Authority, context: CallContext) -> WritePrecondition:
        """True as long as nothing was tightened; raises `PreconditionFailed` if it is known to be."""
        ...

    async def narrowed(self, authority: Authority, context: CallContext) -> Authority | None:
        """The stricter of the Authority and the present policy; None if the call's task was cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class _StartedCall:
    """A call whose intent is durable: it is executed, unless its outcome is already durable too."""

    inside: CallContext
    answer: CallOutcome | None = None


@dataclass(frozen=True, slots=True)
class _Execution:
    """How an execution ended, and the cancellation that must still be passed on, if there was one."""

    outcome: CallOutcome
    cancelled: _Cancelled


class ToolRunner:
    """`sealed` keeps arguments that the log masks; without it, they cannot be shown later.

    Without `present`, nothing can be tightened while a call is judged.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        log: EventLog,
        redactor: Redactor,
        sealed: SealedArgumentStore | None = None,
        present: CurrentPolicy | None = None,
    ) -> None:
        self._present = present
        self._sealed = sealed
        self._threads = DaemonThreadPool("interlock-sealing")
        self._registry = registry
        self._log = log
        self._book = AuthorityLedger(log)
        self._redactor = redactor

    async def call(self, call: ToolCall, authority: Authority, context: CallContext) -> ToolResult:
        judged = await self._judge(call, authority, context)
        for _ in range(MAX_JUDGEMENTS):
            if isinstance(judged, Refusal):
                return await self._refuse(call, judged, authority, context)
            try:
                begun = await self._begin(judged, context)
            except PreconditionFailed:
                authority, judged = await self._judge_again(call, judged, context)
            else:
                return await self._carry_out(judged, begun)
        raise AuditUnavailable("the permissions changed too often while the call was checked")

    async def _judge(
        self, call: ToolCall, authority: Authority, context: CallContext
    ) -> ClearedCall | Refusal:
        await self._enter(authority)
        name = self._safe_name(call)
        named = call if name == call.name else replace(call, name=name)

        def report(text: str) -> None:
            context.report_progress(self._redactor.text(sanitize_text(str(text))))

        return await judge(named, authority, self._registry, replace(context, report_progress=report))

    async def _judge_again(
        self, call: ToolCall, cleared: ClearedCall, context: CallContext
    ) -> tuple[Authority, ClearedCall | Refusal]:
        """Judge by the present policy too: the call runs only if both allow it and the tool is the same."""
        name = cleared.tool.name
        authority = await self._present.narrowed(cleared.authority, context) if self._present else None
        if authority is None:
            return cleared.authority, task_cancelled_refusal(call, name, cleared.authority)
        judged = await self._judge(call, authority, context)
        if isinstance(judged, ClearedCall) and judged.tool is not cleared.tool:
            judged = tool_changed_refusal(call, name, authority)
        return authority, judged

    async def _begin(self, cleared: ClearedCall, context: CallContext) -> _StartedCall:
        answer = self._answer_at_once(cleared)
        if answer is None:
            return _StartedCall(await self._record_intent(cleared, context))
        await self._record_whole(cleared, answer, context)
        return _StartedCall(context, answer)

    async def _carry_out(self, cleared: ClearedCall, begun: _StartedCall) -> ToolResult:
        if begun.answer is not None:
            return begun.answer.result
        ended = await self._execute(cleared, begun.inside)
        if ended.outcome.result.question_id is None:
            await self._record_outcome(cleared, ended.outcome, begun.inside)
        if ended.cancelled is not None:
            raise ended.cancelled
        return ended.outcome.result

    async def refuse_call(
        self, call: ToolCall, failure: ToolFailure, authority: Authority, context: CallContext
    ) -> ToolResult:
        """Refuse a call on behalf of its caller; it is recorded like any other outcome."""
        refusal = Refusal(failure, self._safe_name(call), PolicyLayer.arguments)
        return await self._refuse(call, refusal, authority, context)

    def only_reads(self, tool_name: str) -> bool:
        """Whether its calls may run concurrently; an unknown tool never runs."""
        entry = self._registry.get(tool_name)
        return entry is None or entry.tool.effect is Effect.read

    def asks(self, tool_name: str) -> bool:
        """Whether its call may have asked a question, which stays open however the call was stopped."""
        entry = self._registry.get(tool_name)
        return entry is not None and entry.tool.effect is Effect.ask

    def _safe_name(self, call: ToolCall) -> str:
        """A name is untrusted: a secret in it must be masked before it is cut."""
        return call.name if self._registry.get(call.name) else self._redactor.text(call.name)

    async def _enter(self, authority: Authority) -> None:
        try:
            await self._book.enter(authority)
        except StoreError as error:
            raise AuditUnavailable(f"the authority could not be recorded: {error}") from error

    async def _refuse(
        self, call: ToolCall, refusal: Refusal, authority: Authority, context: CallContext
    ) -> ToolResult:
        failure, has_masks = redact_failure(refusal.failure, self._redactor)
        arguments = self._redactor.checked(recorded_arguments(call))
        has_masks = has_masks or refusal.redacted or refusal.requested_name != call.name
        told = replace(refusal, failure=failure, redacted=has_masks)
        entry = self._registry.get(call.name)
        event = refusal_event(
            call,
            told,
            authority,
            arguments,
            entry.tool if entry else None,
            in_turn=context.appender is not None,
        )
        cancelled = await self._append_outcome(event, context)
        if cancelled is not None:
            raise cancelled
        return told.result()

    async def _intent(self, cleared: ClearedCall, context: CallContext) -> Event:
        """The intent's event. Arguments that it masks are saved before the call runs."""
        arguments, sealed, seal = self._redactor.checked(cleared.arguments), self._sealed, ""
        if arguments.changed and sealed is not None and cleared.tool.external is not None:
            try:
                seal = await self._threads.start(lambda: sealed.seal(context.session_id, cleared.arguments))
            except OSError as error:
                raise AuditUnavailable(f"its arguments could not be saved: {error.strerror}") from error
        return intent_event(cleared, arguments, seal)

    async def _record_intent(self, cleared: ClearedCall, context: CallContext) -> CallContext:
        """The context whose scope is the call itself, once the intent is durable."""
        intent = self._log.draft(await self._intent(cleared, context), context.scope)
        cancelled = await self._write_intent(cleared, context, intent)
        inside = replace(context, scope=EventScope(context.scope.task, intent.id))
        if cancelled is not None:
            # The intent is on disk: record an outcome, so that it is not left open.
            await self._record_outcome(cleared, _cancelled(cleared), inside)
            raise cancelled
        return inside

    def _answer_at_once(self, cleared: ClearedCall) -> CallOutcome | None:
        """The outcome of a call that only reads, if it needs no waiting."""
        if cleared.tool.effect is not Effect.read:
            return None
        began = time.perf_counter()
        try:
            result = cleared.tool.at_once(cleared.prepared, cleared.context)
        except (Exception, SystemExit):  # noqa: BLE001 - the error is reported when it is executed
            return None
        return None if result is None else self._outcome(cleared, result, began)

    async def _record_whole(self, cleared: ClearedCall, outcome: CallOutcome, context: CallContext) -> None:
        """The intent and the outcome, both or neither."""
        intent = self._log.draft(await self._intent(cleared, context), context.scope)
        inside = EventScope(context.scope.task, intent.id)
        event = outcome_event(cleared, outcome, in_turn=context.appender is not None)
        outcome_draft = self._log.draft(event, inside)
        cancelled = await self._write_intent(cleared, context, intent, outcome_draft)
        context.outcome_recorded(outcome_draft)
        if cancelled is not None:
            raise cancelled

    async def _execute(self, cleared: ClearedCall, inside: CallContext) -> _Execution:
        """Run it to its end, its time-out or its cancellation. Effects that took place are reported."""
        began = time.perf_counter()
        context = replace(cleared.context, scope=inside.scope, timeout_seconds=cleared.timeout_seconds)
        running = asyncio.ensure_future(_contained(cleared, context))
        patience = cleared.timeout_seconds + (
            GRACE_SECONDS * 2 if cleared.time_limit.enforced_by_tool else 0
        )
        cancelled: _Cancelled = None
        try:
            await asyncio.wait({running}, timeout=patience)
        except asyncio.CancelledError as error:
            cancelled = error
        if not running.done():
            cancelled = await wait_uncancelled(asyncio.ensure_future(_stop(running, cleared))) or cancelled
            if _was_stopped(running):
                result = _cancelled_result(cleared) if cancelled else _timed_out(cleared, running)
                return _Execution(self._outcome(cleared, result, began), cancelled)
        return _Execution(self._outcome(cleared, _result_of(running, cleared), began), cancelled)

    def _outcome(self, cleared: ClearedCall, result: ToolResult, began: float) -> CallOutcome:
        """Redacted and bounded: from here on it may be stored, shown and sent."""
        latency_ms = (time.perf_counter() - began) * 1000
        try:
            shown = sanitize_result(result, cleared.authority.limits, self._redactor)
        except Exception as error:  # noqa: BLE001 - whatever a tool returned, there is an outcome
            _log.error("tool_result_unusable", tool_name=cleared.tool.name, exc_info=error)
            shown = _internal_error(cleared, "its result cannot be shown")
        return CallOutcome(shown, round(latency_ms, 3))

    async def _record_outcome(
        self, cleared: ClearedCall, outcome: CallOutcome, context: CallContext
    ) -> None:
        event = outcome_event(cleared, outcome, in_turn=context.appender is not None)
        cancelled = await self._append_outcome(event, context)
        if cancelled is not None:
            raise cancelled

    async def _append_outcome(self, event: Event, context: CallContext) -> _Cancelled:
        """Wait until the event is durable; returns the cancellation that came meanwhile."""
        draft = self._log.draft(event, context.scope)
        cancelled = await self._write(context, draft)
        context.outcome_recorded(draft)
        return cancelled

    async def _write_intent(
        self, cleared: ClearedCall, context: CallContext, *drafts: EventDraft
    ) -> _Cancelled:
        """The same; raises `PreconditionFailed` if the policy changed since the call was judged."""
        condition = self._present.condition(cleared.authority, context) if self._present else None
        return await self._write(context, *drafts, condition=condition)

    async def _write(
        self, context: CallContext, *drafts: EventDraft, condition: WritePrecondition | None = None
    ) -> _Cancelled:
        cancelled: _Cancelled = None
        try:
            appender = context.appender or self._log.appender(context.session_id, context.lease_token)
            writing = appender.append(*drafts, condition=condition)
            try:
                await writing
            except asyncio.CancelledError as error:
                if isinstance(writing.exception(), PreconditionFailed):
                    # Nothing was started.
                    raise
                cancelled = error
                writing.result()
        except StoreError as error:
            raise AuditUnavailable(f"{drafts[0].kind} could not be recorded: {error}") from error
        return cancelled


async def _contained(cleared: ClearedCall, context: ToolContext) -> ToolResult:
    """A tool that raises SystemExit has failed; it does not end the process."""
    try:
        return await cleared.tool.execute(cleared.prepared, context)
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"the tool raised {type(error).__name__}") from error


def _result_of(running: "asyncio.Future[ToolResult]", cleared: ClearedCall) -> ToolResult:
    """The result of a finished tool; an exception becomes a failure without internals."""
    if running.cancelled():
        return _failed(
            cleared, ErrorCode.CANCELLED, "it was stopped", "Call it again if you still need it."
        )
    error = running.exception()
    if error is not None and is_transient(error):
        # The store failed, not the tool. Record no outcome: it would close an open question, and a
        # delegated task resumes with its parent.
        cause = error.__cause__ if isinstance(error, AuditUnavailable) else error
        raise AuditUnavailable(f"the outcome of {cleared.tool.name} is unknown: {cause}") from cause
    if isinstance(error, ToolError) and isinstance(error.error_code, ErrorCode):
        said = (error.error_code, str(error.message), str(error.next_action))
        told = _failure_result(cleared, *said, is_an_answer=error.is_an_answer)
        return replace(told, redacted=error.redacted)
    if error is not None:
        _log.error("tool_raised", tool_name=cleared.tool.name, call_id=cleared.call_id, exc_info=error)
        return _internal_error(cleared, f"it failed unexpectedly ({type(error).__name__})")
    result: object = running.result()
    if isinstance(result, ToolResult):
        return result
    _log.error("tool_returned_no_result", tool_name=cleared.tool.name, returned=type(result).__name__)
    return _internal_error(cleared, "its return value is not a tool result")


def _internal_error(cleared: ClearedCall, reason: str) -> ToolResult:
    return _failed(
        cleared,
        ErrorCode.EXECUTION_ERROR,
        reason,
        "Try a different approach, or tell the user that the tool is broken.",
        error_class=ErrorClass.unknown,
    )


def _was_stopped(running: "asyncio.Future[ToolResult]") -> bool:
    """It did not end by itself: whatever it did has no result."""
    return not running.done() or running.cancelled() or isinstance(running.exception(), CallCancelled)


async def _stop(running: "asyncio.Future[ToolResult]", cleared: ClearedCall) -> None:
    cleared.context.cancel.set()
    running.cancel()
    await asyncio.wait({running}, timeout=cleared.time_limit.stop_seconds or GRACE_SECONDS)
    if not running.done():
        _log.error("tool_ignored_cancel", tool_name=cleared.tool.name, call_id=cleared.call_id)
    elif not _was_stopped(running) and (error := running.exception()) is not None:
        _log.warning("tool_raised_while_stopping", tool_name=cleared.tool.name, exc_info=error)


def _timed_out(cleared: ClearedCall, running: "asyncio.Future[ToolResult]") -> ToolResult:
    unknown = not running.done() and cleared.context.cancel.took_effect
    return _failed(
        cleared,
        ErrorCode.TIMEOUT,
        f"it did not finish within {cleared.timeout_seconds:g} seconds and was stopped"
        + ("; it is not known whether it took effect" if unknown else ""),
        "Check whether it took effect before you call it again."
        if unknown
        else "Request less at a time, or a longer timeout if the tool has one.",
    )


def _cancelled_result(cleared: ClearedCall) -> ToolResult:
    if cleared.context.cancel.took_effect:
        reason, step = "it was cancelled; its earlier effects remain", "Check what it changed first."
    else:
        reason, step = "it was cancelled", "Nothing: the task was cancelled."
    return _failed(cleared, ErrorCode.CANCELLED, reason, step)


def _cancelled(cleared: ClearedCall) -> CallOutcome:
    return CallOutcome(_cancelled_result(cleared), 0.0)


def _failed(
    cleared: ClearedCall,
    code: ErrorCode,
    reason: str,
    next_action: str,
    *,
    error_class: ErrorClass | None = None,
) -> ToolResult:
    return _failure_result(cleared, code, f"{cleared.tool.name}: {reason}", next_action, error_class)


def _failure_result(
    cleared: ClearedCall,
    code: ErrorCode,
    message: str,
    next_action: str,
    error_class: ErrorClass | None = None,
    *,
    is_an_answer: bool = False,
) -> ToolResult:
    """In the tool's own words, as when it refuses before it runs."""
    failure = ToolFailure(
        error_code=code,
        error_class=error_class or code.error_class,
        tool_name=cleared.tool.name,
        mode=cleared.authority.mode.value,
        message=message,
        next_action=next_action,
        is_an_answer=is_an_answer,
    )
    return ToolResult(exit_code=1, failure=failure)
