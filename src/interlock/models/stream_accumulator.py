"""Assembles one reply from the chunks of a chat completion stream."""

import secrets
from itertools import groupby
from typing import Any

import orjson

from interlock.core.token_usage import TokenUsage
from interlock.models.provider import (
    FinishReason,
    ModelError,
    ModelFault,
    ModelReply,
    Reasoning,
    RequestedCall,
)
from interlock.models.server_errors import error_from_stream, unreadable_reply_error

_FINISHED = {
    "stop": FinishReason.stop,
    "tool_calls": FinishReason.tool_calls,
    "function_call": FinishReason.tool_calls,
    "length": FinishReason.length,
    "max_tokens": FinishReason.length,
    "content_filter": FinishReason.content_filter,
}
MAX_CALLS = 128
MAX_REPLY_BYTES = 64 * 1024 * 1024
_MAX_ID = 128
_MAX_NAME = 512
# No answer costs more; a server that says so has not counted.
_MAX_TOKENS = 10**12
# DeepSeek, Qwen, Kimi, GLM, llama.cpp and older vLLM; then OpenRouter, Ollama, Groq and newer vLLM.
_REASONING_FIELDS = ("reasoning_content", "reasoning")
# The fields of a reasoning detail that arrive in parts.
_GROWING = ("text", "summary", "data")
# How much is parsed at most to find out whether a call's arguments have ended, delta after delta.
_MAX_LOOKED_THROUGH = 8 * 1024 * 1024


class _Call:
    __slots__ = ("arguments", "call_id", "index", "looked_through", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.looked_through = 0

    @property
    def is_whole(self) -> bool:
        may_be_over = self.arguments and self.arguments[-1].rstrip().endswith("}")
        if not may_be_over or self.looked_through > _MAX_LOOKED_THROUGH:
            return False
        text = "".join(self.arguments)
        self.looked_through += len(text)
        return is_object(text)


class StreamAccumulator:
    """`add` a chunk's JSON and show what it returns; `reply` when the stream has ended.

    `secret` is the key: it is masked in the server's error messages. `model` is what gets the reasoning
    back, as PROVIDER:NAME. `take_reasoning` returns the reasoning added since the last time;
    `reasoning_field` is the field in which it comes.
    """

    def __init__(self, secret: str = "", model: str = "") -> None:
        self._secret = secret
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_taken = 0
        self.reasoning_field = ""
        # The deltas of OpenRouter's structured form.
        self._details: list[dict[str, Any]] = []
        self._calls: list[_Call] = []
        # The newest call at each index: some servers give every call the index 0.
        self._at: dict[int, _Call] = {}
        self._finish: str | None = None
        self._usage: TokenUsage | None = None
        self._size = 0
        # The index of the answer that is read, of several: the first one.
        self._chosen: int | None = None

    def add(self, data: bytes) -> str:
        """The text that this chunk adds, often empty."""
        self._size += len(data)
        if self._size > MAX_REPLY_BYTES:
            raise ModelError(ModelFault.protocol, "the model's response exceeds the size limit")
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise unreadable_reply_error("a chunk of the response is not JSON") from None
        if not isinstance(chunk, dict):
            raise unreadable_reply_error("a chunk of the response is not an object")
        if error := chunk.get("error"):
            raise error_from_stream(error, self._secret)
        if usage := chunk.get("usage"):
            self._usage = _usage(usage) or self._usage
        choices = chunk.get("choices")
        if not choices:
            return ""
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            raise unreadable_reply_error("a chunk of the response has choices of an unknown form")
        return self._add_choice(choices[0]) if self._is_chosen(choices[0].get("index")) else ""

    def _is_chosen(self, index: Any) -> bool:
        """Some servers interleave several answers, although one was requested."""
        if type(index) is not int:
            return True
        if self._chosen is None:
            self._chosen = index
        return index == self._chosen

    def _add_choice(self, choice: dict[str, Any]) -> str:
        if reason := choice.get("finish_reason"):
            # In whatever form, it is the end.
            self._finish = reason if isinstance(reason, str) else "stop"
        # Servers that do not stream send the whole message at once.
        delta = choice.get("delta") or choice.get("message")
        if not delta:
            return ""
        if not isinstance(delta, dict):
            raise unreadable_reply_error("a chunk of the response has a delta of an unknown form")
        if calls := delta.get("tool_calls"):
            self._add_calls(calls)
        self._add_reasoning(delta)
        text = delta.get("content") or delta.get("refusal")
        if not text:
            return ""
        if not isinstance(text, str):
            text = _text_of_parts(text)
        self._text.append(text)
        return text

    def _add_reasoning(self, delta: dict[str, Any]) -> None:
        """Reasoning of an unknown form is skipped: the answer counts."""
        for field in _REASONING_FIELDS:
            text = delta.get(field)
            if text and isinstance(text, str):
                self.reasoning_field = self.reasoning_field or field
                self._reasoning.append(text)
                break
        details = delta.get("reasoning_details")
        if isinstance(details, list):
            self._details += [detail for detail in details if isinstance(detail, dict)]

    def take_reasoning(self) -> str:
        new = self._reasoning[self._reasoning_taken :]
        self._reasoning_taken = len(self._reasoning)
        return "".join(new)

    def _whole_reasoning(self) -> Reasoning | None:
        if not self._reasoning and not self._details:
            return None
        return Reasoning("".join(self._reasoning), self._model, _encoded_details(self._details))

    def _add_calls(self, deltas: Any) -> None:
        if not isinstance(deltas, list):
            raise unreadable_reply_error("a chunk of the response has tool calls of an unknown form")
        for position, delta in enumerate(deltas):
            function = delta.get("function") if isinstance(delta, dict) else None
            if not isinstance(function, dict):
                raise unreadable_reply_error("a tool call in the response has no function")
            identity, name = _word(delta, "id"), _word(function, "name")
            call = self._call_of(delta.get("index"), identity, name, is_further=position > 0)
            call.call_id = call.call_id or identity
            # Some servers repeat the name in every delta, some send it in parts.
            if name and call.name != name:
                call.name += name
                if len(call.name) > _MAX_NAME:
                    raise unreadable_reply_error("a tool call in the response has a name that is too long")
            arguments = function.get("arguments")
            if isinstance(arguments, str):
                call.arguments.append(arguments)
            elif arguments is not None:
                call.arguments.append(_encoded(arguments))

    def _call_of(self, index: Any, identity: str, name: str, *, is_further: bool) -> _Call:
        if type(index) is not int:
            return self._unnumbered(identity, name, is_further=is_further)
        call = self._at.get(index)
        if call is not None and not (name and identity and call.call_id and identity != call.call_id):
            return call
        return self._begin(index)

    def _unnumbered(self, identity: str, name: str, *, is_further: bool) -> _Call:
        """For servers that leave the index out: by the id, else a name begins a call."""
        if identity:
            for call in self._calls:
                if call.call_id == identity:
                    return call
        last = self._calls[-1] if self._calls else None
        if last is None or identity:
            return self._begin(len(self._calls))
        is_repeated = name == last.name and not is_further and not last.is_whole
        return last if not name or is_repeated else self._begin(len(self._calls))

    def _begin(self, index: int) -> _Call:
        if len(self._calls) >= MAX_CALLS:
            raise unreadable_reply_error(f"the response requests more than {MAX_CALLS} tool calls")
        call = self._at[index] = _Call(index)
        self._calls.append(call)
        return call

    def reply(self, *, is_done: bool = False) -> ModelReply:
        """The whole reply. `is_done`: the server ended the stream, perhaps without a finish reason."""
        if self._finish is None and not is_done:
            raise ModelError(ModelFault.network, "the model's response was cut off")
        calls = self._requested()
        finish = _FINISHED.get(self._finish or "stop", FinishReason.stop)
        if calls and finish is FinishReason.stop:
            finish = FinishReason.tool_calls
        elif not calls and finish is FinishReason.tool_calls:
            finish = FinishReason.stop
        text = "".join(self._text)
        if not text and not calls and finish is FinishReason.stop:
            raise ModelError(ModelFault.protocol, "the model's response is empty")
        return ModelReply(text, calls, finish, self._usage, self._whole_reasoning())

    def _requested(self) -> tuple[RequestedCall, ...]:
        requested, taken = [], {""}
        for call in sorted(self._calls, key=lambda call: call.index):
            if not call.name:
                raise unreadable_reply_error("a tool call in the response has no name")
            identity = call.call_id
            if identity in taken or len(identity) > _MAX_ID or not identity.isprintable():
                identity = new_call_id()
            taken.add(identity)
            requested.append(RequestedCall(identity, call.name, "".join(call.arguments)))
        return tuple(requested)


def new_call_id() -> str:
    """An id for calls without one, distinct also from those of earlier turns."""
    return f"call_{secrets.token_hex(8)}"


def is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _word(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise unreadable_reply_error(f"a tool call in the response has an unknown form of {key}")


def _encoded(arguments: Any) -> str:
    try:
        return orjson.dumps(arguments).decode()
    except orjson.JSONEncodeError:
        raise unreadable_reply_error("a tool call in the response is nested too deeply") from None


def _encoded_details(deltas: list[dict[str, Any]]) -> str:
    """As the server wants them back. Deltas of one detail follow each other with its type and index."""
    details = []
    for _, group in groupby(deltas, _detail_key):
        parts = [{key: value for key, value in delta.items() if value is not None} for delta in group]
        whole = {key: value for part in parts for key, value in part.items()}
        for key in _GROWING:
            texts = [part[key] for part in parts if isinstance(part.get(key), str)]
            whole |= {key: "".join(texts)} if texts else {}
        details.append(whole)
    try:
        return orjson.dumps(details).decode() if details else ""
    except orjson.JSONEncodeError:
        return ""


def _detail_key(delta: dict[str, Any]) -> tuple[Any, Any]:
    index = delta.get("index")
    return delta.get("type"), id(delta) if index is None else index


def _text_of_parts(parts: Any) -> str:
    """Some servers send text in typed parts. Other parts, such as thoughts, are skipped."""
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise unreadable_reply_error("a chunk of the response has text of an unknown form")
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, dict):
        return None
    taken, given = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(taken) is not int or type(given) is not int:
        return None
    if not (0 <= taken <= _MAX_TOKENS and 0 <= given <= _MAX_TOKENS):
        return None
    return TokenUsage(taken, given)
