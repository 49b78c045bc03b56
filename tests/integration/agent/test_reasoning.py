"""What a model reasons: stored with its turn, and given back to it while it works on the same request."""

import json
from collections.abc import AsyncGenerator

from interlock.models.provider import (
    AssistantMessage,
    ModelReasoningDelta,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    Reasoning,
    RequestedCall,
)
from tests.harness.agent_loop import SECRET


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
