"""Messages in the form that chat endpoints share, each encoded once and kept so."""

from collections.abc import Sequence

import orjson

from interlock.models.provider import RequestedCall


def system_message(text: str) -> bytes:
    return orjson.dumps({"role": "system", "content": text})


def user_message(text: str) -> bytes:
    return orjson.dumps({"role": "user", "content": text})


def assistant_message(text: str, calls: Sequence[RequestedCall] = ()) -> bytes:
    message: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    elif not text:
        # Some endpoints refuse a message with neither.
        message["content"] = ""
    return orjson.dumps(message)


def tool_message(call_id: str, content: str) -> bytes:
    return orjson.dumps({"role": "tool", "tool_call_id": call_id, "content": content})
