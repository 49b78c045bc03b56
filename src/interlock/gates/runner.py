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
from dataclasses import replace
from typing import Protocol

from interlock.core.aio import wait_uncancelled
from interlock.core.errors import (
    AuditUnavailable,
    ErrorCode,
    PreconditionFailed,
    StoreError,
    ToolError,
    is_transient,
)
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.core.threads import DaemonThreadPool
from interlock.gates import failures
from interlock.gates.authority_ledger import AuthorityLedger
from interlock.gates.call_events import (
    intent_event,
    outcome_event,
    recorded_arguments,
    refusal_event,
)
from interlock.gates.gate import ClearedCall, Refusal, ToolCall, judge
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

    def condition(self, authority: Authority, context: ToolContext) -> WritePrecondition:
        """True as long as nothing was tightened; raises `PreconditionFailed` if it is known to be."""
        ...

    async def narrowed(self, authority: Authority, context: ToolContext) -> Authority | None:
        """The stricter of the Authority and the present policy; None if the call's task was cancelled."""
        ...


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

    async def call(self, call: ToolCall, authority: Authority, caller: ToolContext) -> ToolResult:
        began = time.perf_counter()
        judged = await self._judge(call, authority, caller)
        for _ in range(MAX_JUDGEMENTS):
            if isinstance(judged, Refusal):
                return await self._refuse(call, judged, authority, caller)
            intent = self._log.draft(await self._intent(judged), caller.scope)
            context = replace(judged.context, scope=EventScope(caller.scope.task, intent.id))
            try:
                if judged.read_at_once is not None:
                    result = self._sanitized(judged, judged.read_at_once)
                    return await self._record_outcome(judged, context, result, began, intent)
                await self._record_intent(judged, context, intent)
            except PreconditionFailed:
                authority, judged = await self._judge_again(call, judged, caller)
            else:
                return await self._carry_out(judged, context)
        raise AuditUnavailable("the permissions changed too often while the call was checked")

    async def _judge(
        self, call: ToolCall, authority: Authority, caller: ToolContext
    ) -> ClearedCall | Refusal:
        await self._enter(authority)
        name = self._safe_name(call)
        named = call if name == call.name else replace(call, name=name)

        def report(text: str) -> None:
            caller.report_progress(self._redactor.text(sanitize_text(str(text))))

        return await judge(named, authority, self._registry, replace(caller, report_progress=report))

    async def _judge_again(
        self, call: ToolCall, cleared: ClearedCall, caller: ToolContext
    ) -> tuple[Authority, ClearedCall | Refusal]:
        """Judge by the present policy too: the call runs only if both allow it and the tool is the same."""
        name = cleared.tool.name
        authority = await self._present.narrowed(cleared.authority, caller) if self._present else None
        if authority is None:
            failure = failures.task_cancelled(name, cleared.authority)
            return cleared.authority, Refusal(failure, call.name, PolicyLayer.task)
        judged = await self._judge(call, authority, caller)
        if isinstance(judged, ClearedCall) and judged.tool is not cleared.tool:
            judged = Refusal(failures.tool_changed(name, authority), call.name, PolicyLayer.capability)
        return authority, judged

    async def refuse_call(
        self, call: ToolCall, failure: ToolFailure, authority: Authority, caller: ToolContext
    ) -> ToolResult:
        """Refuse a call on behalf of its caller; it is recorded like any other outcome."""
        refusal = Refusal(failure, self._safe_name(call), PolicyLayer.arguments)
        return await self._refuse(call, refusal, authority, caller)

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
        self, call: ToolCall, refusal: Refusal, authority: Authority, caller: ToolContext
    ) -> ToolResult:
        failure, has_masks = redact_failure(refusal.failure, self._redactor)
        arguments = self._redactor.checked(recorded_arguments(call))
        has_masks = has_masks or refusal.redacted or refusal.requested_name != call.name
        safe = replace(refusal, failure=failure, redacted=has_masks)
        entry = self._registry.get(call.name)
        tool = entry.tool if entry else None
        event = refusal_event(call, safe, authority, arguments, tool, in_turn=caller.appender is not None)
        draft = self._log.draft(event, caller.scope)
        cancelled = await self._write(caller, draft)
        caller.outcome_recorded(draft)
        if cancelled is not None:
            raise cancelled
        return safe.result()

    async def _intent(self, cleared: ClearedCall) -> Event:
        """The intent's event. Arguments that it masks are saved before the call runs."""
        arguments, sealed, seal = self._redactor.checked(cleared.arguments), self._sealed, ""
        if arguments.changed and sealed is not None and cleared.tool.external is not None:
            session_id = cleared.context.session_id
            try:
                seal = await self._threads.start(lambda: sealed.seal(session_id, cleared.arguments))
            except OSError as error:
                raise AuditUnavailable(f"its arguments could not be saved: {error.strerror}") from error
        return intent_event(cleared, arguments, seal)

    async def _record_intent(self, cleared: ClearedCall, context: ToolContext, intent: EventDraft) -> None:
        """Raises `PreconditionFailed` if the policy changed since the call was judged."""
        cancelled = await self._write(context, intent, condition=self._unchanged(cleared))
        if cancelled is not None:
            # The intent is on disk: record an outcome, so that it is not left open.
            result = _cancelled_result(cleared)
            await self._record_outcome(cleared, context, result, time.perf_counter())
            raise cancelled

    async def _carry_out(self, cleared: ClearedCall, context: ToolContext) -> ToolResult:
        began = time.perf_counter()
        result, cancelled = await _execute(cleared, context)
        result = self._sanitized(cleared, result)
        if result.question_id is None:
            await self._record_outcome(cleared, context, result, began)
        if cancelled is not None:
            raise cancelled
        return result

    def _sanitized(self, cleared: ClearedCall, result: ToolResult) -> ToolResult:
        """Redacted and bounded: from here on it may be stored, shown and sent."""
        try:
            return sanitize_result(result, cleared.authority.limits, self._redactor)
        except Exception as error:  # noqa: BLE001 - whatever a tool returned, there is an outcome
            _log.error("tool_result_unusable", tool_name=cleared.tool.name, exc_info=error)
            return _internal_error(cleared, "its result cannot be shown")

    async def _record_outcome(
        self,
        cleared: ClearedCall,
        context: ToolContext,
        result: ToolResult,
        began: float,
        *intent: EventDraft,
    ) -> ToolResult:
        """The result, once its event is durable: behind the intent, or with it in one commit."""
        latency_ms = round((time.perf_counter() - began) * 1000, 3)
        draft = self._log.draft(outcome_event(cleared, result, latency_ms), context.scope)
        condition = self._unchanged(cleared) if intent else None
        cancelled = await self._write(context, *intent, draft, condition=condition)
        context.outcome_recorded(draft)
        if cancelled is not None:
            raise cancelled
        return result

    def _unchanged(self, cleared: ClearedCall) -> WritePrecondition | None:
        return self._present.condition(cleared.authority, cleared.context) if self._present else None

    async def _write(
        self, context: ToolContext, *drafts: EventDraft, condition: WritePrecondition | None = None
    ) -> _Cancelled:
        """Wait until the drafts are durable; returns the cancellation that came meanwhile."""
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


async def _execute(cleared: ClearedCall, context: ToolContext) -> tuple[ToolResult, _Cancelled]:
    """Run it to its end, its time-out or its cancellation; the caller raises that after the outcome."""
    running = asyncio.ensure_future(_contained(cleared, context))
    patience = context.timeout_seconds + (GRACE_SECONDS * 2 if cleared.time_limit.enforced_by_tool else 0)
    cancelled: _Cancelled = None
    try:
        await asyncio.wait({running}, timeout=patience)
    except asyncio.CancelledError as error:
        cancelled = error
    if not running.done():
        cancelled = await wait_uncancelled(asyncio.ensure_future(_stop(running, cleared))) or cancelled
        if _was_stopped(running):
            return _cancelled_result(cleared) if cancelled else _timed_out(cleared, running), cancelled
    return _result_of(running, cleared), cancelled


async def _contained(cleared: ClearedCall, context: ToolContext) -> ToolResult:
    """A tool that raises SystemExit has failed; it does not end the process."""
    try:
        return await cleared.tool.execute(cleared.prepared, context)
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"the tool raised {type(error).__name__}") from error


def _result_of(running: "asyncio.Future[ToolResult]", cleared: ClearedCall) -> ToolResult:
    """The result of a finished tool; an exception becomes a failure without internals."""
    name, authority = cleared.tool.name, cleared.authority
    if running.cancelled():
        return ToolResult.failed(failures.stopped_itself(name, authority))
    error = running.exception()
    if error is not None and is_transient(error):
        # The store failed, not the tool. Record no outcome: it would close an open question, and a
        # delegated task resumes with its parent.
        cause = error.__cause__ if isinstance(error, AuditUnavailable) else error
        raise AuditUnavailable(f"the outcome of {name} is unknown: {cause}") from cause
    if isinstance(error, ToolError) and isinstance(error.error_code, ErrorCode):
        failure = failures.tool_error_failure(name, authority, error)
        return ToolResult.failed(failure, redacted=error.redacted)
    if error is not None:
        _log.error("tool_raised", tool_name=name, call_id=cleared.context.call_id, exc_info=error)
        return _internal_error(cleared, f"it failed unexpectedly ({type(error).__name__})")
    result: object = running.result()
    if isinstance(result, ToolResult):
        return result
    _log.error("tool_returned_no_result", tool_name=name, returned=type(result).__name__)
    return _internal_error(cleared, "its return value is not a tool result")


def _internal_error(cleared: ClearedCall, reason: str) -> ToolResult:
    return ToolResult.failed(failures.internal_error(cleared.tool.name, cleared.authority, reason))


def _was_stopped(running: "asyncio.Future[ToolResult]") -> bool:
    """It did not end by itself: whatever it did has no result."""
    return not running.done() or running.cancelled() or isinstance(running.exception(), CallCancelled)


async def _stop(running: "asyncio.Future[ToolResult]", cleared: ClearedCall) -> None:
    cleared.context.cancel.set()
    running.cancel()
    await asyncio.wait({running}, timeout=cleared.time_limit.stop_seconds or GRACE_SECONDS)
    if not running.done():
        _log.error("tool_ignored_cancel", tool_name=cleared.tool.name, call_id=cleared.context.call_id)
    elif not _was_stopped(running) and (error := running.exception()) is not None:
        _log.warning("tool_raised_while_stopping", tool_name=cleared.tool.name, exc_info=error)


def _timed_out(cleared: ClearedCall, running: "asyncio.Future[ToolResult]") -> ToolResult:
    is_unknown = not running.done() and cleared.context.cancel.took_effect
    seconds = cleared.context.timeout_seconds
    return ToolResult.failed(
        failures.timed_out(cleared.tool.name, cleared.authority, seconds, is_unknown=is_unknown)
    )


def _cancelled_result(cleared: ClearedCall) -> ToolResult:
    took_effect = cleared.context.cancel.took_effect
    return ToolResult.failed(
        failures.cancelled(cleared.tool.name, cleared.authority, took_effect=took_effect)
    )
