"""Runs one turn of the model: streams its text, redacted; after a fault asks again, or another model."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from interlock.agent.circuit_breaker import (
    CircuitBreakers,
    CircuitKey,
    OpenCircuit,
    ProbePermit,
    model_circuit_open_error,
)
from interlock.agent.context import reply_usage
from interlock.agent.events import Emit, ReasoningDelta, RetryAnnounced, TextDelta
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.limits import LimitStop
from interlock.agent.retries import TurnRetries
from interlock.agent.summary import Summary, summarize
from interlock.config.limits import TaskLimitSettings
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.log.event import Event
from interlock.log.task_events import ModelFallback, ModelToolChoiceRefused, TurnDiscarded
from interlock.models.configured_models import next_model
from interlock.models.provider import (
    ChatMessage,
    ModelError,
    ModelFault,
    ModelProvider,
    ModelReasoningDelta,
    ModelReply,
    ModelRequest,
    ModelTextDelta,
    ToolChoice,
)
from interlock.redaction.redactor import Redactor
from interlock.tools.tool import MAX_ARGUMENT_BYTES

_log = StructuredLogger(__name__)

T = TypeVar("T")
OpenProvider = Callable[[str], ModelProvider]
Hold = Callable[[Sequence[Event]], None]
Append = Callable[[Event], None]
Discard = Callable[[TurnDiscarded], None]
Flush = Callable[[], Awaitable[None]]

# No tool has a longer name or takes larger arguments: the rest is cut.
MAX_NAME_CHARS = 200
# How long text may wait that is too short to be scanned for secrets by itself.
SCAN_SECONDS = 0.05
# Servers reject an option with 400 or 422; routers with 404, if no server behind them accepts it.
_OF_THE_REQUEST = frozenset({ModelFault.invalid_request, ModelFault.not_found})


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a model is asked in a turn, and since when, by the event loop's clock."""

    turn: int
    request: ModelRequest
    began: float


@dataclass(frozen=True, slots=True)
class TurnReply:
    """A model's reply, and the request it accepted. `first_delta_at` is by the same clock as `began`."""

    asked: TurnRequest
    reply: ModelReply
    # The model that replied.
    model: str
    first_delta_at: float | None = None
    # How long it reasoned before its answer; None if it did not.
    reasoning_ms: int | None = None


class ModelTurnRunner:
    """Runs the turns of one task.

    `hold` leaves events for the next append, `append` records one now, `flush` waits until it is on disk.
    `model` is a value of the setting MODEL; `fallbacks` are what to ask in place of a model that fails, in
    order, for the rest of the task.
    """

    def __init__(
        self,
        model: str,
        *,
        fallbacks: Sequence[str] = (),
        provider_of: OpenProvider,
        redactor: Redactor,
        breakers: CircuitBreakers,
        refuses_required: set[str],
        settings: TaskLimitSettings,
        limits: LimitTracker,
        hold: Hold,
        append: Append,
        discard: Discard,
        flush: Flush,
    ) -> None:
        """`refuses_required`: values of MODEL known to reject `required`; new ones are added here."""
        self._refuses_required = refuses_required
        self._fallbacks = fallbacks
        self._provider_of = provider_of
        self._tried: set[str] = set()
        self._redactor = redactor
        self._breakers = breakers
        self._settings = settings
        self._limits = limits
        self._hold = hold
        self._append = append
        self._discard_turn = discard
        self._flush = flush
        self._use(model)

    def _use(self, model: str) -> None:
        self._provider = self._provider_of(model)
        self._key = CircuitKey(model=self._provider.name, form=model)

    @property
    def name(self) -> str:
        return self._provider.name

    async def stream_turn(self, asked: TurnRequest, emit: Emit) -> TurnReply | LimitStop:
        """Ask the model, emitting its text as it arrives, until it answers or the task's time is up."""
        try:
            async with asyncio.timeout(self._limits.seconds_left) as deadline:
                return await self._ask(asked, emit)
        except TimeoutError:
            if not deadline.expired():
                raise
            return self._limits.time_ran_out()

    async def _ask(self, asked: TurnRequest, emit: Emit) -> TurnReply | LimitStop:
        """If a server rejects a required tool call, it is asked again without. Raises `ModelError`."""
        retries, text = TurnRetries(self._settings), _StreamedTurn(asked.turn, self._redactor, emit)
        refused: ModelError | None = None
        while True:
            try:
                reply = await self._within_circuit(self._stream(asked.request, text))
                break
            except ModelError as error:
                if not text.has_begun and _may_be_the_choice(error, asked.request):
                    refused = error
                    asked = replace(asked, request=replace(asked.request, tool_choice=ToolChoice.auto))
                    continue
                following = self._after(error, retries)
                stop = await self._discard(asked, text, error) if text.has_begun else None
                if following is None:
                    if error.fault.is_transient:
                        self._hold([retries.exhausted(error)])
                    raise
                if stop is not None:
                    return stop
                if isinstance(following, float):
                    self._append(retries.scheduled(error, following))
                    emit(RetryAnnounced(following, str(error)))
                    await asyncio.sleep(following)
                    continue
                if stop := self._fall_back(following, error, emit):
                    return stop
                refused, retries = None, TurnRetries(self._settings)
        name = self._provider.name
        if refused is not None:
            self._refuses_required.add(self._key.form)
            self._hold([ModelToolChoiceRefused(model=name, tool_choice="required", error=str(refused))])
        return TurnReply(asked, self._fit(reply), name, text.first_delta_at, text.reasoning_ms)

    def _after(self, error: ModelError, retries: TurnRetries) -> float | str | None:
        """In how many seconds this model is asked again, or which one is asked in its place, if any."""
        fallback = next_model(self._fallbacks, error, self._tried)
        closed_in = self._breakers.seconds_open(self._key)
        delay = None if closed_in and fallback else retries.next_delay(error)
        if delay is not None:
            # Wait until the circuit closes: before that, a retry would fail without a request.
            delay = max(delay, closed_in)
            if not self._limits.out_of_time(after_seconds=delay):
                return delay
        return fallback

    async def _discard(
        self, asked: TurnRequest, text: "_StreamedTurn", error: ModelError
    ) -> LimitStop | None:
        """Take back what was shown. A reader sees that in the log before the text that follows."""
        usage = reply_usage(asked.request, ModelReply("".join(text.received)))
        self._discard_turn(
            TurnDiscarded(
                turn=asked.turn,
                error_class=error.fault.value,
                error=str(error),
                model=self._provider.name,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
            )
        )
        await self._flush()
        text.restart()
        return self._limits.reply_discarded(usage)

    def _fall_back(self, model: str, error: ModelError, emit: Emit) -> LimitStop | None:
        self._tried.add(model)
        before, fault = self._provider.name, error.fault.value
        self._use(model)
        after = self._provider.name
        self._append(ModelFallback(from_model=before, to_model=after, error_class=fault, error=str(error)))
        emit(RetryAnnounced.by_another(str(error), after))
        return self._limits.use_model(after)

    async def summarize(self, messages: Sequence[ChatMessage], *, budget_tokens: int) -> Summary | None:
        """A summary that the model writes; None if it does not: the task goes on without."""
        try:
            async with asyncio.timeout(self._limits.seconds_left):
                return await self._within_circuit(
                    summarize(
                        self._provider, messages, budget_tokens=budget_tokens, redactor=self._redactor
                    )
                )
        except (ModelError, TimeoutError) as error:
            _log.warning("not_summarized", model=self._provider.name, error=str(error))
            return None

    async def _within_circuit(self, asking: Coroutine[Any, Any, T]) -> T:
        """One request, if the model's circuit allows it."""
        permit = self._breakers.allows(self._key)
        if isinstance(permit, OpenCircuit):
            asking.close()
            raise model_circuit_open_error(self._provider.name, permit)
        if isinstance(permit, ProbePermit):
            self._hold(permit.events)
        try:
            answer = await asking
            self._hold(self._breakers.succeeded(permit))
        except ModelError as error:
            self._hold(self._breakers.failed(permit, error.fault.value, str(error)))
            raise
        finally:
            # Let others probe if it was interrupted. Settled permits are not affected.
            self._breakers.released(permit)
        return answer

    async def _stream(self, request: ModelRequest, text: "_StreamedTurn") -> ModelReply:
        try:
            async with aclosing(self._provider.stream(request)) as items:
                async for item in items:
                    if isinstance(item, ModelReply):
                        text.finish()
                        return item
                    text.add(item)
        except asyncio.CancelledError:
            text.finish()
            raise
        finally:
            text.stop_scanning()
        raise ModelError(ModelFault.protocol, "the model's response ended without a finish reason")

    def _fit(self, reply: ModelReply) -> ModelReply:
        """The reply in a form that can be stored and shown. An unusable call id is replaced later."""
        calls = tuple(
            replace(
                call,
                call_id=call.call_id if self._is_fit(call.call_id) else "",
                name=sanitize_text(call.name[:MAX_NAME_CHARS]),
                # One more than allowed, so that the gate reports it as too long.
                arguments=sanitize_text(call.arguments[: MAX_ARGUMENT_BYTES + 1]),
            )
            for call in reply.tool_calls
        )
        return replace(reply, text=sanitize_text(reply.text), tool_calls=calls)

    def _is_fit(self, call_id: str) -> bool:
        return call_id.isprintable() and self._redactor.text(call_id) == call_id


class _RedactedText:
    """A text as it grows. `add`, `scan` and `end` return what may be shown, and its offset."""

    def __init__(self, redactor: Redactor) -> None:
        self._safe = redactor.stream()
        self._shown = 0

    def add(self, text: str) -> tuple[int, str]:
        return self._after(self._safe.feed(sanitize_text(text)))

    @property
    def is_unscanned(self) -> bool:
        return self._safe.is_unscanned

    def scan(self) -> tuple[int, str]:
        return self._after(self._safe.scan())

    def end(self) -> tuple[int, str]:
        return self._after(self._safe.finish())

    def _after(self, text: str) -> tuple[int, str]:
        offset, self._shown = self._shown, self._shown + len(text)
        return offset, text


class _StreamedTurn:
    """The reasoning and the text of one turn as they arrive: redacted, then emitted."""

    def __init__(self, turn: int, redactor: Redactor, emit: Emit) -> None:
        self._turn = turn
        self._redactor = redactor
        self._emit = emit
        self.first_delta_at: float | None = None
        self._scanning: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        self.stop_scanning()
        self._text, self._reasoning = _RedactedText(self._redactor), _RedactedText(self._redactor)
        # As the model wrote it, since the answer began.
        self.received: list[str] = []
        self._reasons_since: float | None = None
        self.reasoning_ms: int | None = None

    @property
    def has_begun(self) -> bool:
        return bool(self.received)

    def restart(self) -> None:
        """Take back what was shown: the next deltas begin at offset 0."""
        has_reasoned = self._reasons_since is not None
        self._begin()
        self._emit(TextDelta(self._turn, 0, ""))
        if has_reasoned:
            self._emit(ReasoningDelta(self._turn, 0, ""))

    def add(self, delta: ModelTextDelta | ModelReasoningDelta) -> None:
        self.received.append(delta.text)
        now = asyncio.get_running_loop().time()
        if isinstance(delta, ModelReasoningDelta):
            if self._reasons_since is None:
                self._reasons_since = now
            # What follows an answer is shown when it is stored: a secret may continue in it.
            if self.reasoning_ms is None:
                self._show_reasoning(*self._reasoning.add(delta.text))
        else:
            self._end_reasoning()
            if self.first_delta_at is None:
                self.first_delta_at = now
            self._show_text(*self._text.add(delta.text))
        if self._scanning is None and (self._text.is_unscanned or self._reasoning.is_unscanned):
            self._scanning = asyncio.get_running_loop().call_later(SCAN_SECONDS, self._scan)

    def _scan(self) -> None:
        """Show what a model that pauses has written so far."""
        self._scanning = None
        if self._reasoning.is_unscanned:
            self._show_reasoning(*self._reasoning.scan())
        if self._text.is_unscanned:
            self._show_text(*self._text.scan())

    def stop_scanning(self) -> None:
        if self._scanning is not None:
            self._scanning.cancel()
            self._scanning = None

    def finish(self) -> None:
        self.stop_scanning()
        self._end_reasoning()
        self._show_text(*self._text.end())

    def _end_reasoning(self) -> None:
        if self._reasons_since is None or self.reasoning_ms is not None:
            return
        seconds = asyncio.get_running_loop().time() - self._reasons_since
        self.reasoning_ms = max(1, round(seconds * 1000))
        offset, text = self._reasoning.end()
        self._emit(ReasoningDelta(self._turn, offset, text, self.reasoning_ms))

    def _show_reasoning(self, offset: int, text: str) -> None:
        if text:
            self._emit(ReasoningDelta(self._turn, offset, text))

    def _show_text(self, offset: int, text: str) -> None:
        if text:
            self._emit(TextDelta(self._turn, offset, text))


def _may_be_the_choice(error: ModelError, request: ModelRequest) -> bool:
    """Whether the same request without `required` may succeed. Servers report it in many ways."""
    return request.tool_choice is ToolChoice.required and error.fault in _OF_THE_REQUEST
