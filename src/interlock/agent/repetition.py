"""Finds a task that goes round in circles: the same calls with the same results, and nothing new."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def fingerprint(value: Any) -> str:
    """Of a JSON value, however its keys were ordered; of what JSON cannot say, by its `repr`."""
    try:
        return _digest(b"json", orjson.dumps(value, default=repr, option=_CANONICAL))
    except orjson.JSONEncodeError:
        return _text_fingerprint(_told(value))


def arguments_fingerprint(arguments: str | Mapping[str, Any]) -> str:
    """Of a call's arguments, as the model wrote them or decoded: both are the same."""
    if not isinstance(arguments, str):
        return fingerprint(arguments)
    try:
        encoded = orjson.dumps(orjson.loads(arguments or "{}"), option=_CANONICAL)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _text_fingerprint(arguments)
    return _digest(b"json", encoded)


def call_fingerprint(tool_name: str, arguments: str, envelope: Mapping[str, Any]) -> str:
    """Of a call and what the model was given for it. `arguments` is the fingerprint of its arguments."""
    return _digest(
        b"call",
        tool_name.encode("utf-8", "surrogatepass"),
        arguments.encode(),
        fingerprint(envelope).encode(),
    )


def _told(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "nested too deeply to show"


def _text_fingerprint(text: str) -> str:
    return _digest(b"text", text.encode("utf-8", "surrogatepass"))


def _digest(*parts: bytes) -> str:
    return blake2b(b"\0".join(parts), digest_size=16).hexdigest()


class RepetitionDetector:
    """How often each call repeated itself since the last one that was new.

    Whatever was never seen before in this task is progress and begins the count anew, so that a test may
    run after every edit. Equal calls of one turn count once: the model had not seen the first result yet.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._times: dict[str, int] = {}
        self._counted_in: dict[str, int] = {}

    def step(self, turn: int, call: str) -> int:
        """How often this call gave this result by now; 0 where it was counted in this turn already."""
        if call not in self._seen:
            self._seen.add(call)
            self._times.clear()
        elif self._counted_in.get(call) == turn:
            return 0
        self._counted_in[call] = turn
        times = self._times[call] = self._times.get(call, 0) + 1
        return times
