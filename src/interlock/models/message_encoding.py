"""Encodes messages in the form that chat endpoints share."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, assert_never

import orjson

from interlock.models.provider import (
    AssistantMessage,
    ChatMessage,
    RequestedCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

_UNFIT_FOR_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_LONGEST_ID = 40


def encode_message(message: ChatMessage, reasoning: Mapping[str, object] | None = None) -> bytes:
    """`reasoning`: the fields in which an endpoint wants an assistant's reasoning back."""
    match message:
        case SystemMessage(text):
            return orjson.dumps({"role": "system", "content": text})
        case UserMessage(text):
            return orjson.dumps({"role": "user", "content": text})
        case AssistantMessage():
            return orjson.dumps(_assistant_fields(message) | dict(reasoning or {}))
        case ToolMessage(call_id, text):
            return orjson.dumps(
                {"role": "tool", "tool_call_id": encodable_call_id(call_id), "content": text}
            )
        case _:
            assert_never(message)


def _assistant_fields(message: AssistantMessage) -> dict[str, Any]:
    # Blank text counts as none: some servers refuse the whole history for it.
    has_words = bool(message.text.strip())
    if not message.calls:
        # Some endpoints refuse a message with neither text nor calls.
        return {"role": "assistant", "content": message.text if has_words else ""}
    return {
        "role": "assistant",
        "content": message.text if has_words else None,
        "tool_calls": [_call_fields(call) for call in message.calls],
    }


def _call_fields(call: RequestedCall) -> dict[str, Any]:
    function = {"name": encodable_tool_name(call.name), "arguments": encodable_arguments(call.arguments)}
    return {"id": encodable_call_id(call.call_id), "type": "function", "function": function}


def encodable_call_id(call_id: str) -> str:
    """Shorten an id that other servers would refuse: a session may continue with another model."""
    return call_id if len(call_id) <= _LONGEST_ID else f"call_{sha256(call_id.encode()).hexdigest()[:24]}"


def encodable_tool_name(name: str) -> str:
    """Servers refuse a history with an invalid function name."""
    return _UNFIT_FOR_A_NAME.sub("_", name)[:_LONGEST_NAME] or "_"


def encodable_arguments(arguments: str) -> str:
    """Likewise, arguments that are no JSON object are quoted in one, so that the model sees its fault."""
    try:
        if isinstance(orjson.loads(arguments), dict):
            return arguments
    except orjson.JSONDecodeError:
        pass
    return orjson.dumps({"unreadable_arguments": arguments}).decode() if arguments.strip() else "{}"
