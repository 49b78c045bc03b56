"""Cursors: where a page ended, which call it belongs to, and in which state its source was."""

import base64
import binascii
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import orjson

from interlock.infra.errors import ErrorCode, ToolError


def subject_of(*parts: object) -> str:
    """What a cursor belongs to; it cannot be used with other arguments."""
    return sha256(orjson.dumps([str(part) for part in parts])).hexdigest()[:16]


def make_cursor(subject: str, version: str, position: Mapping[str, Any]) -> str:
    encoded = orjson.dumps([subject, version, dict(position)])
    return base64.urlsafe_b64encode(encoded).decode().rstrip("=")


def read_cursor(cursor: str, subject: str) -> tuple[str, dict[str, Any]]:
    """The version and position of a cursor that belongs to this call."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        of, version, position = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, binascii.Error, orjson.JSONDecodeError):
        raise _invalid("it is not one that was given out") from None
    if not isinstance(position, dict) or not isinstance(version, str):
        raise _invalid("it is not one that was given out")
    if of != subject:
        raise _invalid("it belongs to a call with other arguments")
    return version, position


def number_in(position: Mapping[str, Any], name: str) -> int:
    value = position.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _invalid("it is not one that was given out")
    return value


def parts_in(position: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = position.get(name)
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise _invalid("it is not one that was given out")
    return tuple(value)


def stale_cursor(what: str) -> ToolError:
    return ToolError(
        ErrorCode.STALE_CURSOR,
        f"{what} changed since the page before",
        "Start again without a cursor.",
    )


def _invalid(reason: str) -> ToolError:
    return ToolError(
        ErrorCode.INVALID_ARGS,
        f"cursor: {reason}",
        "Use next_page_cursor as it was given, with the same other arguments, or leave it out.",
    )
