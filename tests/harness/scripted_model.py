"""A model that says to each message what a test wrote down for it, and goes on when the test lets it."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.harness.model_answers import (
    Delay,
    ModelAnswer,
    ResponseStep,
    called,
    chunk,
    event,
    refused,
    said,
    streamed,
    text_chunks,
)
from tests.harness.model_server import KEY, ModelRequest, ModelServer

__all__ = ["Gate", "ScriptedModel", "called", "held", "held_back", "refused", "said"]

POLL_SECONDS = 0.01
START_SECONDS = 10


class Gate(threading.Event):
    """Where an answer stops until the test opens it."""


class _GatedSteps(tuple[Any, ...]):
    """Steps of an answer among which a gate can stand."""

    __slots__ = ()

    def __iter__(self) -> Iterator[ResponseStep]:
        for step in super().__iter__():
            if isinstance(step, Gate):
                while not step.is_set():
                    yield Delay(POLL_SECONDS)
            else:
                yield step


def held(*parts: str | dict[str, str] | Gate | ResponseStep) -> ModelAnswer:
    """An answer in text, or in whole deltas, with gates or faults between its parts."""
    whole = streamed(text_chunks([]))
    first, *rest = whole.steps
    middle = [event(_delta(part)) if isinstance(part, str | dict) else part for part in parts]
    return replace(whole, steps=_GatedSteps([first, *middle, *rest]))


def held_back(gate: Gate, answer: ModelAnswer) -> ModelAnswer:
    """This answer, once the gate is open."""
    return replace(answer, first=_GatedSteps([gate]))


def _delta(part: str | dict[str, str]) -> dict[str, Any]:
    return chunk({"content": part} if isinstance(part, str) else part)


class ScriptedModel:
    """The scripted server of tests/doubles on a thread of its own, beside the browser's loop."""

    def __init__(self) -> None:
        self._plays: dict[str, list[Any]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.server: ModelServer

    def __enter__(self) -> "ScriptedModel":
        self._thread.start()
        self.server = ModelServer(self._decide)
        self._run(self.server.start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, doing: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result(START_SECONDS)

    @property
    def variables(self) -> dict[str, str]:
        """The settings with which Interlock asks this model."""
        return {
            "MODEL": "openai",
            "OPENAI_MODEL": "double-1",
            "OPENAI_BASE_URL": self.server.base_url,
            "OPENAI_API_KEY": KEY,
        }

    def plays(self, message: str, *turns: ModelAnswer | list[ModelAnswer]) -> str:
        """To this message, one answer a turn. Of a list each is given once, and the last from then on.

        A step of a workflow is known by the first paragraph of what it is told.
        """
        self._plays[message] = list(turns)
        return message

    def _decide(self, asked: ModelRequest) -> ModelAnswer:
        at = max(n for n, message in enumerate(asked.messages) if message["role"] == "user")
        text = asked.messages[at]["content"]
        turn = sum(message["role"] == "assistant" for message in asked.messages[at:])
        turns = self._plays.get(text) or self._plays.get(text.partition("\n\n")[0], [])
        if turn >= len(turns):
            self.server.faults.append(f"nobody wrote down turn {turn} of what to say to {text!r}")
            return refused(400, "the script has ended")
        answer = turns[turn]
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        return answer
