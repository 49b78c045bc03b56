"""What a model reasons: stored with its turn, and given back to it while it works on the same request."""

import json
from collections.abc import AsyncGenerator

from interlock.agent.events import ReasoningDelta, TextDelta
from interlock.models.provider import (
    AssistantMessage,
    ModelError,
    ModelFault,
    ModelReasoningDelta,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    Reasoning,
    RequestedCall,
)
from interlock.redaction.redactor import MARK
from tests.harness.agent_loop import SECRET
from tests.integration.agent.test_loop import of


class Thinker:
    """Thinks, calls a tool, thinks and answers; it keeps what it was sent."""

    name = "thinker"

    def __init__(self, *thoughts: str) -> None:
        self._thoughts = list(thoughts)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        self.requests.append(request)
        reasoning = Reasoning(self._thoughts.pop(0), self.name, '["signed"]')
        yield ModelReasoningDelta(reasoning.text)
        if len(self.requests) % 2:
            calls = (RequestedCall(f"c{len(self.requests)}", "current_time", "{}"),)
            yield ModelReply("", calls, reasoning=reasoning)
        else:
            yield ModelTextDelta("Noon.")
            yield ModelReply("Noon.", reasoning=reasoning)

    async def close(self) -> None:
        pass

    def given_back(self, request: int) -> list[Reasoning | None]:
        messages = self.requests[request].messages
        return [message.reasoning for message in messages if isinstance(message, AssistantMessage)]


async def test_reasoning_goes_back_within_the_request_and_into_the_log(harness):
    model, session = Thinker("one", "two", "three", "four"), await harness.session()
    await harness.run(session, "What time is it?", model)
    await harness.run(session, "And now?", model)
    assert [model.given_back(number) for number in range(4)] == [
        [],
        [Reasoning("one", "thinker", '["signed"]')],
        [None, None],
        [None, None, Reasoning("three", "thinker", '["signed"]')],
    ]
    turns = [json.loads(row[4]) for row in harness.event_rows(session, "turn.completed")]
    assert [turn["reasoning"]["text"] for turn in turns] == ["one", "two", "three", "four"]


async def test_a_secret_in_it_is_neither_stored_nor_sent_back(harness):
    model, session = Thinker(f"The key is {SECRET}.", "two"), await harness.session()
    await harness.run(session, "What time is it?", model)
    (given,) = model.given_back(1)
    assert given is not None
    assert SECRET not in given.text
    assert given.opaque == ""
    turns = harness.event_rows(session, "turn.completed")
    assert SECRET not in str(turns)
    assert json.loads(turns[0][4])["redacted"] is True


# -- live --------------------------------------------------------------------------------------------


class Streaming:
    """Streams these deltas, or fails with one of them."""

    name = "thinker"

    def __init__(self, *answers: tuple) -> None:
        self._answers = list(answers)

    async def stream(self, _request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        said, thought = "", ""
        for each in self._answers.pop(0):
            if isinstance(each, Exception):
                raise each
            if isinstance(each, ModelReasoningDelta):
                thought += each.text
            else:
                said += each.text
            yield each
        yield ModelReply(said, reasoning=Reasoning(thought, self.name))

    async def close(self) -> None:
        pass


def thinking(*texts: str) -> list[ModelReasoningDelta]:
    return [ModelReasoningDelta(text) for text in texts]


def reasoning_of(events: list) -> str:
    """What a reader has on the screen who follows the offsets."""
    text = ""
    for delta in of(ReasoningDelta, events):
        text = text[: delta.offset] + delta.text
    return text


async def test_reasoning_is_shown_as_it_comes_before_its_answer_and_with_its_time(harness):
    session = await harness.session()
    model = Streaming((*thinking("Hm, ", "so."), ModelTextDelta("Noon.")))
    events = await harness.run(session, "What time is it?", model)
    assert reasoning_of(events) == "Hm, so."
    kinds = [type(event) for event in events]
    last = len(kinds) - 1 - kinds[::-1].index(ReasoningDelta)
    assert last < kinds.index(TextDelta)
    *going_on, ended = of(ReasoningDelta, events)
    assert [delta.duration_ms for delta in going_on] == [None] * len(going_on)
    assert ended.duration_ms is not None
    (turn,) = harness.event_rows(session, "turn.completed")
    assert json.loads(turn[4])["reasoning_ms"] == ended.duration_ms


async def test_no_delta_of_it_shows_a_secret_wherever_it_is_cut(harness):
    for cut in range(1, len(SECRET)):
        session = await harness.session()
        deltas = thinking(f"It is {SECRET[:cut]}", f"{SECRET[cut:]} here.")
        events = await harness.run(session, "go", Streaming((*deltas, ModelTextDelta("ok"))))
        assert reasoning_of(events) == f"It is {MARK} here."


async def test_what_it_reasons_after_the_answer_began_is_shown_when_it_is_stored(harness):
    """A secret may begin before the answer and end after it."""
    deltas = (*thinking(SECRET[:8]), ModelTextDelta("Well. "), *thinking(SECRET[8:]), ModelTextDelta("ok"))
    session = await harness.session()
    events = await harness.run(session, "go", Streaming(deltas))
    assert reasoning_of(events) == SECRET[:8]
    (turn,) = harness.event_rows(session, "turn.completed")
    assert SECRET not in turn[4]


async def test_reasoning_of_an_answer_that_broke_off_is_taken_back(harness):
    fault = ModelError(ModelFault.server, "the server failed")
    session = await harness.session()
    model = Streaming((*thinking("Half a thou"), fault), (*thinking("Again."), ModelTextDelta("ok")))
    events = await harness.run(session, "go", model)
    assert reasoning_of(events) == "Again."
    (discarded,) = harness.event_rows(session, "turn.discarded")
    assert json.loads(discarded[4])["output_tokens"] > 1
