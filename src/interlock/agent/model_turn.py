"""Runs one turn of the model: streams its text, redacted, and retries where allowed."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from interlock.agent.circuit_breaker import (
    CircuitBreakers,
    CircuitKey,
    OpenCircuit,
    ProbePermit,
    model_circuit_open_error,
)
from interlock.agent.events import Emit, RetryAnnounced, TextDelta
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.limits import LimitStop
from interlock.agent.retries import TurnRetries
from interlock.config.limits import TaskLimitSettings
from interlock.core.text import sanitize_text
from interlock.log.event import Event
from interlock.log.task_events import ModelToolChoiceRefused
from interlock.models.provider import (
    ModelError,
    ModelFault,
    ModelProvider,
    ModelReasoningDelta,
    ModelReply,
    ModelRequest,
    ToolChoice,
)
from interlock.redaction.redactor import Redactor
from interlock.tools.tool import MAX_ARGUMENT_BYTES

Hold = Callable[[Sequence[Event]], None]
Append = Callable[[Event], None]

# No tool has a longer name or takes larger arguments: the rest is cut.
MAX_NAME_CHARS = 200
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
    first_delta_at: float | None = None


class ModelTurnRunner:
    """Runs the turns of one task. `hold` leaves events for the next append, `append` records one now."""

    def __init__(
        self,
        provider: ModelProvider,
        *,
        redactor: Redactor,
        breakers: CircuitBreakers,
        refuses_required: set[str],
        settings: TaskLimitSettings,
        limits: LimitTracker,
        hold: Hold,
        append: Append,
    ) -> None:
        """`refuses_required`: models known to reject `required`; new ones are added here."""
        self._refuses_required = refuses_required
        self._provider = provider
        self._redactor = redactor
        self._breakers = breakers
        self._settings = settings
        self._limits = limits
        self._hold = hold
        self._append = append
        self._key = CircuitKey(model=provider.name)

    async def stream_turn(self, asked: TurnRequest, emit: Emit) -> TurnReply | LimitStop:
        """Ask the model, emitting its text as it arrives, until it answers or the task's time is up."""
        try:
            async with asyncio.timeout(self._limits.seconds_left) as deadline:
                return await self._ask(asked, emit)
        except TimeoutError:
            if not deadline.expired():
                raise
            return self._limits.time_ran_out()

    async def _ask(self, asked: TurnRequest, emit: Emit) -> TurnReply:
        """If a server rejects a required tool call, it is asked again without. Raises `ModelError`."""
        retries, text = TurnRetries(self._settings), _StreamedText(asked.turn, self._redactor, emit)
        refused: ModelError | None = None
        while True:
            try:
                reply = await self._stream(asked.request, text)
                break
            except ModelError as error:
                has_text = text.first_delta_at is not None
                if not has_text and _may_be_the_choice(error, asked.request):
                    refused = error
                    asked = replace(asked, request=replace(asked.request, tool_choice=ToolChoice.auto))
                    continue
                delay = retries.next_delay(error, shown=has_text)
                if delay is not None:
                    # Wait until the circuit closes: before that, a retry would fail without a request.
                    delay = max(delay, self._breakers.seconds_open(self._key))
                if delay is None or self._limits.out_of_time(after_seconds=delay):
                    if error.fault.is_transient:
                        self._hold([retries.exhausted(error)])
                    raise
                self._append(retries.scheduled(error, delay))
                emit(RetryAnnounced(delay, str(error)))
                await asyncio.sleep(delay)
        if refused is not None:
            name = self._provider.name
            self._refuses_required.add(name)
            self._hold([ModelToolChoiceRefused(model=name, tool_choice="required", error=str(refused))])
        return TurnReply(asked, self._fit(reply), text.first_delta_at)

    async def _stream(self, request: ModelRequest, text: "_StreamedText") -> ModelReply:
        """One request, if the model's circuit allows it."""
        permit = self._breakers.allows(self._key)
        if isinstance(permit, OpenCircuit):
            raise model_circuit_open_error(self._provider.name, permit)
        if isinstance(permit, ProbePermit):
            self._hold(permit.events)
        try:
            async with aclosing(self._provider.stream(request)) as items:
                async for item in items:
                    if isinstance(item, ModelReply):
                        text.finish()
                        self._hold(self._breakers.succeeded(permit))
                        return item
                    if not isinstance(item, ModelReasoningDelta):
                        text.add(item.text)
            raise ModelError(ModelFault.protocol, "the model's response ended without a finish reason")
        except ModelError as error:
            self._hold(self._breakers.failed(permit, error.fault.value, str(error)))
            raise
        except asyncio.CancelledError:
            text.finish()
            raise
        finally:
            # Let others probe if it was interrupted. Settled permits are not affected.
            self._breakers.released(permit)

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


class _StreamedText:
    """The text of one turn as it arrives: redacted, then emitted."""

    def __init__(self, turn: int, redactor: Redactor, emit: Emit) -> None:
        self._turn = turn
        self._safe = redactor.stream()
        self._emit = emit
        self._offset = 0
        self.first_delta_at: float | None = None

    def add(self, text: str) -> None:
        if self.first_delta_at is None:
            self.first_delta_at = asyncio.get_running_loop().time()
        self._show(self._safe.feed(sanitize_text(text)))

    def finish(self) -> None:
        self._show(self._safe.finish())

    def _show(self, text: str) -> None:
        if text:
            self._emit(TextDelta(self._turn, self._offset, text))
            self._offset += len(text)


def _may_be_the_choice(error: ModelError, request: ModelRequest) -> bool:
    """Whether the same request without `required` may succeed. Servers report it in many ways."""
    return request.tool_choice is ToolChoice.required and error.fault in _OF_THE_REQUEST
