"""Runs one turn of the model: streams its text, redacted, and retries where allowed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from interlock.agent.circuit_breaker import (
    CircuitBreakers,
    CircuitKey,
    OpenCircuit,
    Permit,
    ProbePermit,
    model_circuit_open_error,
)
from interlock.agent.events import AgentEvent, RetryAnnounced, TextDelta
from interlock.agent.limit_stops import LimitStop
from interlock.agent.limit_tracker import LimitTracker
from interlock.agent.retries import TurnRetries
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
    ModelStreamItem,
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


@dataclass(slots=True)
class TurnRequest:
    """One turn's request to a model, and its result."""

    turn: int
    request: ModelRequest
    began: float
    reply: ModelReply | None = None
    # Set if the task's time ran out before a reply.
    stop: LimitStop | None = None
    # The time of the first delta, by the event loop's clock, like `began`.
    first_piece: float | None = None


class ModelTurnRunner:
    """Runs the turns of one task. `hold` leaves events for the next append, `append` records one now."""

    def __init__(
        self,
        provider: ModelProvider,
        redactor: Redactor,
        breakers: CircuitBreakers,
        refuses_required: set[str],
        control: LimitTracker,
        hold: Hold,
        append: Append,
    ) -> None:
        """`refuses_required`: models known to reject `required`; new ones are added here."""
        self._refuses_required = refuses_required
        self._provider = provider
        self._redactor = redactor
        self._breakers = breakers
        self._control = control
        self._hold = hold
        self._append = append
        self._key = CircuitKey(model=provider.name)

    async def ask(self, question: TurnRequest, retries: TurnRetries) -> AsyncGenerator[AgentEvent]:
        """Yield the text as it arrives; afterwards `question` has the reply, or why there is none.

        If a server rejects a required tool call, it is asked again without. Raises `ModelError`.
        """
        refused: ModelError | None = None
        while question.reply is None and question.stop is None:
            try:
                async with aclosing(self._once(question)) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                if _may_be_the_choice(error, question):
                    refused = error
                    question.request = replace(question.request, tool_choice=ToolChoice.auto)
                    continue
                delay = retries.next_delay(error, shown=question.first_piece is not None)
                if delay is not None:
                    # Wait until the circuit closes: before that, a retry would fail without a request.
                    delay = max(delay, self._breakers.seconds_open(self._key))
                if delay is None or self._control.out_of_time(after_seconds=delay):
                    if error.fault.is_transient:
                        self._hold([retries.exhausted(error)])
                    raise
                self._append(retries.scheduled(error, delay))
                yield RetryAnnounced(delay, str(error))
                await asyncio.sleep(delay)
        if refused is not None and question.reply is not None:
            name = self._provider.name
            self._refuses_required.add(name)
            self._hold([ModelToolChoiceRefused(model=name, tool_choice="required", error=str(refused))])

    async def _once(self, question: TurnRequest) -> AsyncGenerator[AgentEvent]:
        permit = self._breakers.allows(self._key)
        if isinstance(permit, OpenCircuit):
            raise model_circuit_open_error(self._provider.name, permit)
        if isinstance(permit, ProbePermit):
            self._hold(permit.events)
        try:
            async with aclosing(self._answer(question)) as events:
                async for event in events:
                    yield event
            if question.stop is None:
                self._hold(self._breakers.succeeded(permit))
        except ModelError as error:
            self._hold(self._breakers.failed(permit, error.fault.value, str(error)))
            raise
        finally:
            self._release(permit)

    async def _answer(self, question: TurnRequest) -> AsyncGenerator[TextDelta]:
        safe, offset = self._redactor.stream(), 0
        async with aclosing(self._provider.stream(question.request)) as items:
            while (item := await self._next(items, question)) is not None:
                if isinstance(item, ModelReply):
                    question.reply = self._fit(item)
                    break
                if isinstance(item, ModelReasoningDelta):
                    continue
                if question.first_piece is None:
                    question.first_piece = asyncio.get_running_loop().time()
                if text := safe.feed(sanitize_text(item.text)):
                    yield TextDelta(question.turn, offset, text)
                    offset += len(text)
        if question.reply is None and question.stop is None:
            raise ModelError(ModelFault.protocol, "the model's response ended without a finish reason")
        if rest := safe.finish():
            yield TextDelta(question.turn, offset, rest)

    async def _next(
        self, items: AsyncIterator[ModelStreamItem], question: TurnRequest
    ) -> ModelStreamItem | None:
        """The next item; None at the end, or when the task's time runs out on a stream that never ends."""
        try:
            async with asyncio.timeout(self._control.seconds_left) as time:
                return await anext(items, None)
        except TimeoutError:
            if not time.expired():
                raise
            question.stop = self._control.time_ran_out()
            return None

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

    def _release(self, permit: Permit) -> None:
        """Let others probe if the attempt was interrupted. Settled permits are not affected."""
        self._breakers.released(permit)


def _may_be_the_choice(error: ModelError, question: TurnRequest) -> bool:
    """Whether the same request without `required` may succeed. Servers report it in many ways."""
    is_required = question.request.tool_choice is ToolChoice.required
    return is_required and error.fault in _OF_THE_REQUEST and question.first_piece is None
