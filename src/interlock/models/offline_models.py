"""What the models without a server share: the demo and scripts."""

from collections.abc import Iterator
from hashlib import sha256

import orjson

from interlock.core.token_usage import TokenUsage
from interlock.models.message_encoding import encode_message
from interlock.models.provider import (
    ChatMessage,
    ModelReply,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    SystemMessage,
)

_PIECE = 12


def offered_tool_names(tools: bytes) -> frozenset[str]:
    return frozenset(tool["function"]["name"] for tool in orjson.loads(tools or b"[]"))


def conversation_key(request: ModelRequest) -> str:
    """Identifies the state of a conversation without its system prompt, which may contain the time."""
    spoken = [message for message in request.messages if not isinstance(message, SystemMessage)]
    return sha256(b"\n".join(map(_encoded, spoken))).hexdigest()[:12]


def stream_reply(reply: ModelReply) -> Iterator[ModelStreamItem]:
    """A complete reply, streamed as other models do."""
    for start in range(0, len(reply.text), _PIECE):
        yield ModelTextDelta(reply.text[start : start + _PIECE])
    yield reply


def estimate_usage(request: ModelRequest, reply: ModelReply) -> TokenUsage:
    """An estimate of four bytes per token."""
    taken = sum(len(_encoded(message)) for message in request.messages) + len(request.tools)
    given = len(reply.text.encode()) + sum(len(call.arguments.encode()) for call in reply.tool_calls)
    return TokenUsage(taken // 4 + 1, given // 4 + 1)


def _encoded(message: ChatMessage) -> bytes:
    known: bytes | None = message.encodings.get("chat")
    if known is None:
        known = message.encodings["chat"] = encode_message(message)
    return known
