"""Detects a task that repeats itself: the same calls with the same results, and nothing new."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def fingerprint(value: Any) -> str:
    """The fingerprint of a JSON value, independent of key order; other values by their `repr`."""
    try:
        return _digest(b"json", orjson.dumps(value, default=repr, option=_CANONICAL))
    except orjson.JSONEncodeError:
        return _text_fingerprint(_safe_repr(value))


def arguments_fingerprint(arguments: str | Mapping[str, Any]) -> str:
    """The fingerprint of a call's arguments, the same for text and decoded form."""
    if not isinstance(arguments, str):
        return fingerprint(arguments)
    try:
        encoded = orjson.dumps(orjson.loads(arguments or "{}"), option=_CANONICAL)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _text_fingerprint(arguments)
    return _digest(b"json", encoded)


def call_fingerprint(tool_name: str, arguments: str, envelope: Mapping[str, Any]) -> str:
    """The fingerprint of a call and its result. `arguments` is the fingerprint of its arguments."""
    return _digest(
        b"call",
        tool_name.encode("utf-8", "surrogatepass"),
        arguments.encode(),
        fingerprint(envelope).encode(),
    )


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "nested too deeply to show"


def _text_fingerprint(text: str) -> str:
    return _digest(b"text", text.encode("utf-8", "surrogatepass"))


def _digest(*parts: bytes) -> str:
    return blake2b(b"\0".join(parts), digest_size=16).hexdigest()


class RepetitionDetector:
    """Counts how often each call repeated since the last new one.

    A call or result not seen before in this task is progress and resets the count, so that a test may run
    after every edit. Equal calls of one turn count once: the model had not seen the first result yet.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._times: dict[str, int] = {}
        self._counted_in: dict[str, int] = {}

    def step(self, turn: int, call: str) -> int:
        """How often this call gave this result so far; 0 if it was already counted in this turn."""
        if call not in self._seen:
            self._seen.add(call)
            self._times.clear()
        elif self._counted_in.get(call) == turn:
            return 0
        self._counted_in[call] = turn
        times = self._times[call] = self._times.get(call, 0) + 1
        return times
