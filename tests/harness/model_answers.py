"""What a chat completions server can answer: streams of chunks, whole documents, refusals, and silence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

MODEL = "double-1"


@dataclass(frozen=True)
class HangForever:
    """Say nothing more until the client hangs up."""


@dataclass(frozen=True)
class DropConnection:
    """Break the connection off, in the middle of whatever it is."""


@dataclass(frozen=True)
class Delay:
    seconds: float


ResponseStep = bytes | HangForever | DropConnection | Delay


@dataclass(frozen=True)
class ModelAnswer:
    """What one request gets: a head, then steps. Bytes are each written and flushed by themselves."""

    steps: tuple[ResponseStep, ...] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    # Before even the head of the answer.
    first: tuple[ResponseStep, ...] = ()
    gzipped: bool = False
    # Where the body ends: by its own mark, as HTTP has it, or never.
    ends: bool = True

    def then(self, *steps: ResponseStep) -> "ModelAnswer":
        return replace(self, steps=self.steps + steps)


# -- what a stream is made of ------------------------------------------------------------------------


def event(document: Any) -> bytes:
    data = document if isinstance(document, bytes) else orjson.dumps(document)
    return b"data: " + data + b"\n\n"


DONE = event(b"[DONE]")


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": MODEL,
        "choices": [choice],
        **more,
    }


def usage_chunk(taken: int = 11, given: int = 7) -> dict[str, Any]:
    usage = {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given}
    return chunk() | {"choices": [], "usage": usage}


def text_chunks(pieces: Iterable[str]) -> list[dict[str, Any]]:
    return [chunk({"role": "assistant", "content": ""}), *(chunk({"content": piece}) for piece in pieces)]


def call_delta(
    index: int | None, *, name: str | None = None, arguments: Any = None, call_id: str | None = None
) -> dict[str, Any]:
    """One piece of one tool call; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    delta: dict[str, Any] = {
        "function": {key: value for key, value in function.items() if value is not None}
    }
    if index is not None:
        delta["index"] = index
    if call_id is not None:
        delta |= {"id": call_id, "type": "function"}
    return delta


def call_chunks(*deltas: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [chunk({"tool_calls": [delta]}) for delta in deltas]


def streamed(
    chunks: Sequence[Any], *, finish: str | None = "stop", usage: bool = True, done: bool = True
) -> ModelAnswer:
    """A well-formed stream of these chunks, each in a write of its own."""
    steps = [event(item) for item in chunks]
    if finish is not None:
        steps.append(event(chunk(finish=finish)))
    if usage:
        steps.append(event(usage_chunk()))
    if done:
        steps.append(DONE)
    return ModelAnswer(tuple(steps))


def said(text: str, size: int = 5) -> ModelAnswer:
    return streamed(text_chunks(text[at : at + size] for at in range(0, len(text), size)))


def called(*calls: tuple[str, Mapping[str, Any] | str], ids: str = "call") -> ModelAnswer:
    """Asks for tools: each a name and its arguments, as an object or as whatever text."""
    deltas: list[dict[str, Any]] = []
    for index, (name, arguments) in enumerate(calls):
        text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        middle = len(text) // 2
        deltas.append(call_delta(index, name=name, arguments="", call_id=f"{ids}_{index}"))
        deltas += [call_delta(index, arguments=part) for part in (text[:middle], text[middle:]) if part]
    return streamed(call_chunks(*deltas), finish="tool_calls")


def whole(text: str) -> ModelAnswer:
    """An answer that is not streamed, from a server that cannot."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return json_answer({"object": "chat.completion", "choices": [choice], "usage": usage})


def json_answer(document: Any, status: int = 200, **headers: str) -> ModelAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ModelAnswer((orjson.dumps(document),), status, "application/json", named)


def refused(status: int, message: str = "no", **headers: str) -> ModelAnswer:
    return json_answer({"error": {"message": message, "type": "double"}}, status, **headers)
