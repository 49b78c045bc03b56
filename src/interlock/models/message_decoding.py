"""Decodes messages, for models that have to interpret them themselves."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from interlock.core.token_usage import TokenUsage
from interlock.models.provider import ModelReply, ModelRequest, ModelStreamItem, ModelTextDelta

_PIECE = 12


@dataclass(frozen=True, slots=True)
class EndpointMessage:
    """One message of the form that `models/message_encoding.py` makes."""

    role: str
    content: str
    calls: tuple[tuple[str, str, str], ...] = ()
    call_id: str = ""


def decode_messages(messages: Iterable[bytes]) -> list[EndpointMessage]:
    return [_message(orjson.loads(message)) for message in messages]


def _message(document: dict[str, Any]) -> EndpointMessage:
    calls = tuple(
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in document.get("tool_calls") or ()
    )
    return EndpointMessage(
        document["role"], document.get("content") or "", calls, document.get("tool_call_id", "")
    )


def offered_tool_names(tools: bytes) -> frozenset[str]:
    return frozenset(tool["function"]["name"] for tool in orjson.loads(tools or b"[]"))


def conversation_key(request: ModelRequest) -> str:
    """Identifies the state of a conversation without its system prompt, which may contain the time."""
    spoken = [message for message in request.messages if not message.startswith(b'{"role":"system"')]
    return sha256(b"\n".join(spoken)).hexdigest()[:12]


def stream_reply(reply: ModelReply) -> Iterator[ModelStreamItem]:
    """A complete reply, streamed as other models do."""
    for start in range(0, len(reply.text), _PIECE):
        yield ModelTextDelta(reply.text[start : start + _PIECE])
    yield reply


def estimate_usage(request: ModelRequest, reply: ModelReply) -> TokenUsage:
    """An estimate of four bytes per token."""
    taken = sum(map(len, request.messages)) + len(request.tools)
    given = len(reply.text.encode()) + sum(len(call.arguments.encode()) for call in reply.tool_calls)
    return TokenUsage(taken // 4 + 1, given // 4 + 1)
