"""Encodes messages in the form that chat endpoints share. Each is encoded once and kept."""

import re
from collections.abc import Sequence
from hashlib import sha256

import orjson

from interlock.models.provider import RequestedCall

_UNFIT_FOR_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_LONGEST_ID = 40


def system_message(text: str) -> bytes:
    return orjson.dumps({"role": "system", "content": text})


def user_message(text: str) -> bytes:
    return orjson.dumps({"role": "user", "content": text})


def assistant_message(text: str, calls: Sequence[RequestedCall] = ()) -> bytes:
    # Blank text counts as none: some servers refuse the whole history for it.
    has_words = bool(text.strip())
    message: dict[str, object] = {"role": "assistant", "content": text if has_words else None}
    if calls:
        message["tool_calls"] = [
            {
                "id": encodable_call_id(call.call_id),
                "type": "function",
                "function": {
                    "name": encodable_tool_name(call.name),
                    "arguments": encodable_arguments(call.arguments),
                },
            }
            for call in calls
        ]
    elif not has_words:
        # Some endpoints refuse a message with neither.
        message["content"] = ""
    return orjson.dumps(message)


def tool_message(call_id: str, content: str) -> bytes:
    return orjson.dumps({"role": "tool", "tool_call_id": encodable_call_id(call_id), "content": content})


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
