"""Puts one reply together from the chunks of a chat completion stream."""

from typing import Any

import orjson

from interlock.models.provider import FinishReason, ModelError, ModelFault, Reply, RequestedCall, Usage

_FINISHED = {
    "stop": FinishReason.stop,
    "tool_calls": FinishReason.tool_calls,
    "function_call": FinishReason.tool_calls,
    "length": FinishReason.length,
    "max_tokens": FinishReason.length,
    "content_filter": FinishReason.content_filter,
}
MAX_CALLS = 128


class _Call:
    __slots__ = ("arguments", "call_id", "name")

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []


class Assembly:
    """`add` a chunk's JSON and show what it returns; `reply` when the stream has ended."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._finish: str | None = None
        self._usage: Usage | None = None

    @property
    def is_finished(self) -> bool:
        return self._finish is not None

    def add(self, data: bytes) -> str:
        """The text that this chunk adds, often none."""
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise _unreadable("a piece of the answer is not JSON") from None
        if not isinstance(chunk, dict):
            raise _unreadable("a piece of the answer is not an object")
        if error := chunk.get("error"):
            raise ModelError(ModelFault.server, f"the model's server broke off: {error_text(error)}")
        if usage := chunk.get("usage"):
            self._usage = _usage(usage) or self._usage
        choices = chunk.get("choices")
        if not choices:
            return ""
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            raise _unreadable("a piece of the answer has choices of an unknown form")
        return self._add_choice(choices[0])

    def _add_choice(self, choice: dict[str, Any]) -> str:
        if reason := choice.get("finish_reason"):
            self._finish = str(reason)
        # Servers that do not stream send the whole message at once.
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise _unreadable("a piece of the answer has a delta of an unknown form")
        if calls := delta.get("tool_calls"):
            self._add_calls(calls)
        text = delta.get("content") or delta.get("refusal")
        if not text:
            return ""
        if not isinstance(text, str):
            raise _unreadable("a piece of the answer has text of an unknown form")
        self._text.append(text)
        return text

    def _add_calls(self, deltas: Any) -> None:
        if not isinstance(deltas, list):
            raise _unreadable("a piece of the answer has tool calls of an unknown form")
        for delta in deltas:
            function = delta.get("function") if isinstance(delta, dict) else None
            if not isinstance(function, dict):
                raise _unreadable("a tool call in the answer has no function")
            call = self._call_of(delta, function)
            if identity := delta.get("id"):
                call.call_id = str(identity)
            if name := function.get("name"):
                # Some servers repeat the name in every piece, some send it in parts.
                call.name = name if not call.name or call.name == name else call.name + str(name)
            arguments = function.get("arguments")
            if isinstance(arguments, str):
                call.arguments.append(arguments)
            elif arguments is not None:
                call.arguments.append(orjson.dumps(arguments).decode())

    def _call_of(self, delta: dict[str, Any], function: dict[str, Any]) -> _Call:
        index = delta.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            index = self._index_of(delta.get("id"), has_name=bool(function.get("name")))
        if index not in self._calls:
            if len(self._calls) >= MAX_CALLS:
                raise _unreadable(f"the answer asks for more than {MAX_CALLS} tool calls")
            self._calls[index] = _Call()
        return self._calls[index]

    def _index_of(self, identity: Any, *, has_name: bool) -> int:
        """For servers that leave the index out: by the id, else the call that a name begins."""
        for index, call in self._calls.items():
            if identity and call.call_id == str(identity):
                return index
        last = max(self._calls, default=-1)
        return last + 1 if has_name or last < 0 else last

    def reply(self) -> Reply:
        if self._finish is None:
            raise ModelError(ModelFault.network, "the model's answer was cut off before its end")
        calls = tuple(
            RequestedCall(call.call_id or f"call_{index}", call.name, "".join(call.arguments))
            for index, call in sorted(self._calls.items())
        )
        finish = _FINISHED.get(self._finish, FinishReason.stop)
        if calls and finish is FinishReason.stop:
            finish = FinishReason.tool_calls
        text = "".join(self._text)
        if not text and not calls and finish is not FinishReason.content_filter:
            raise ModelError(ModelFault.protocol, "the model's answer is empty")
        return Reply(text, calls, finish, self._usage)


def error_text(error: Any) -> str:
    """What a server says of its error, in one short line."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error.get("error") or error
    text = error if isinstance(error, str) else str(error)
    return " ".join(text.split())[:300]


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    taken, given = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(taken, int) or not isinstance(given, int) or min(taken, given) < 0:
        return None
    return Usage(taken, given)


def _unreadable(reason: str) -> ModelError:
    return ModelError(
        ModelFault.protocol, f"the model's server answered in a form that cannot be read: {reason}"
    )
