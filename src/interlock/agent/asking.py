"""Asks the model for one turn: shows its text as it comes, without secrets; tries again where it may."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from interlock.agent.breaker import Breakers, CircuitKey, Open, Permit, Probe, model_left_alone
from interlock.agent.control import TaskControl
from interlock.agent.events import AgentEvent, RetryAnnounced, TextDelta
from interlock.agent.limits import Stop
from interlock.agent.retries import Retries
from interlock.events.base import Event
from interlock.events.work import ModelToolChoiceRefused
from interlock.infra.records import dataclass
from interlock.infra.text import storable
from interlock.models.provider import (
    ModelError,
    ModelFault,
    ModelItem,
    ModelRequest,
    Provider,
    Reply,
    ToolChoice,
)
from interlock.redaction.redactor import Redactor
from interlock.tools.base import MAX_ARGUMENT_BYTES

Record = Callable[[Sequence[Event]], None]

# No tool has a longer name, and none takes more: what is beyond is not looked at, by whoever reads it.
MAX_NAME_CHARS = 200
# Servers refuse an option with 400 or 422; routers with 404, where no server behind them takes it.
_OF_THE_REQUEST = frozenset({ModelFault.invalid_request, ModelFault.not_found})


@dataclass(slots=True)
class Question:
    """One turn's request to a model, and what came of it."""

    turn: int
    request: ModelRequest
    began: float
    reply: Reply | None = None
    # The task's time ran out before there was a reply.
    stop: Stop | None = None
    # When the first piece arrived, by the event loop's clock, like `began`.
    first_piece: float | None = None


class Asking:
    """For one task. `record` queues events in the order they happened."""

    def __init__(
        self,
        provider: Provider,
        redactor: Redactor,
        breakers: Breakers,
        refuses_required: set[str],
        control: TaskControl,
        record: Record,
    ) -> None:
        """`refuses_required`: the models known to refuse `required`, to which others are added here."""
        self._refuses_required = refuses_required
        self._provider = provider
        self._redactor = redactor
        self._breakers = breakers
        self._control = control
        self._record = record
        self._key = CircuitKey(model=provider.name)

    async def ask(self, question: Question, retries: Retries) -> AsyncGenerator[AgentEvent]:
        """Gives the text as it comes; afterwards the question has its reply, or why there is none.

        A server that refuses a required tool call is asked again without. Raises `ModelError`.
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
                    # The next try is to be one: while the circuit is open there would be none.
                    delay = max(delay, self._breakers.seconds_open(self._key))
                if delay is None or self._control.out_of_time(after_seconds=delay):
                    if error.fault.may_pass:
                        self._record([retries.exhausted(error)])
                    raise
                self._record([retries.scheduled(error, delay)])
                yield RetryAnnounced(delay, str(error))
                await asyncio.sleep(delay)
        if refused is not None and question.reply is not None:
            name = self._provider.name
            self._refuses_required.add(name)
            self._record([ModelToolChoiceRefused(model=name, tool_choice="required", error=str(refused))])

    async def _once(self, question: Question) -> AsyncGenerator[AgentEvent]:
        permit = self._breakers.allows(self._key)
        if isinstance(permit, Open):
            raise model_left_alone(self._provider.name, permit)
        if isinstance(permit, Probe):
            self._record(permit.events)
        try:
            async with aclosing(self._answer(question)) as events:
                async for event in events:
                    yield event
            if question.stop is None:
                self._record(self._breakers.succeeded(permit))
        except ModelError as error:
            self._record(self._breakers.failed(permit, error.fault.value, str(error)))
            raise
        finally:
            self._release(permit)

    async def _answer(self, question: Question) -> AsyncGenerator[TextDelta]:
        safe, offset = self._redactor.stream(), 0
        async with aclosing(self._provider.stream(question.request)) as items:
            while (item := await self._next(items, question)) is not None:
                if isinstance(item, Reply):
                    question.reply = self._fit(item)
                    break
                if question.first_piece is None:
                    question.first_piece = asyncio.get_running_loop().time()
                if text := safe.feed(storable(item.text)):
                    yield TextDelta(question.turn, offset, text)
                    offset += len(text)
        if question.reply is None and question.stop is None:
            raise ModelError(ModelFault.protocol, "the model's response ended without a finish reason")
        if rest := safe.finish():
            yield TextDelta(question.turn, offset, rest)

    async def _next(self, items: AsyncIterator[ModelItem], question: Question) -> ModelItem | None:
        """None: there is no more, or the task's time ran out, which a model that never ends cannot know."""
        try:
            async with asyncio.timeout(self._control.seconds_left) as time:
                return await anext(items, None)
        except TimeoutError:
            if not time.expired():
                raise
            question.stop = self._control.time_ran_out()
            return None

    def _fit(self, reply: Reply) -> Reply:
        """As it can be stored and shown. An id that cannot be is none: its call is given another one."""
        calls = tuple(
            replace(
                call,
                call_id=call.call_id if self._is_fit(call.call_id) else "",
                name=storable(call.name[:MAX_NAME_CHARS]),
                # One more than may be, so that the gate says that it is too much.
                arguments=storable(call.arguments[: MAX_ARGUMENT_BYTES + 1]),
            )
            for call in reply.tool_calls
        )
        return replace(reply, text=storable(reply.text), tool_calls=calls)

    def _is_fit(self, call_id: str) -> bool:
        return call_id.isprintable() and self._redactor.text(call_id) == call_id

    def _release(self, permit: Permit) -> None:
        """Settled outcomes are not touched by this; one that was broken off lets others try."""
        self._breakers.released(permit)


def _may_be_the_choice(error: ModelError, question: Question) -> bool:
    """Whether the same request without `required` may succeed. Servers say it in many ways."""
    is_required = question.request.tool_choice is ToolChoice.required
    return is_required and error.fault in _OF_THE_REQUEST and question.first_piece is None
