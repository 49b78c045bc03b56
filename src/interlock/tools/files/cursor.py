"""Cursors: where a page ended, which call it belongs to, and the version of its source.

A cursor contains no names: a path could be secret, too long, or not encodable.
"""

import base64
import binascii
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import orjson

from interlock.core.errors import ErrorCode, ToolError

MAX_NUMBER = 2**53


def cursor_subject(*parts: object) -> str:
    """The call that a cursor belongs to; it cannot be used with other arguments."""
    # A path may contain bytes that are not characters.
    return sha256(ascii([str(part) for part in parts]).encode()).hexdigest()[:16]


def make_cursor(subject: str, version: str, position: Mapping[str, Any]) -> str:
    encoded = orjson.dumps([subject, version, dict(position)])
    return base64.urlsafe_b64encode(encoded).decode().rstrip("=")


def read_cursor(cursor: str, subject: str) -> tuple[str, dict[str, Any]]:
    """The version and position of a cursor that belongs to this call."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        content = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise _not_given_out() from None
    match content:
        case [str() as of, str() as version, dict() as position]:
            if of != subject:
                raise invalid_cursor("it belongs to a call with other arguments")
            return version, position
        case _:
            raise _not_given_out()


def number_in(position: Mapping[str, Any], name: str) -> int:
    value = position.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise _not_given_out()
    return value


def optional_number_in(position: Mapping[str, Any], name: str) -> int | None:
    return None if position.get(name) is None else number_in(position, name)


def text_in(position: Mapping[str, Any], name: str) -> str:
    value = position.get(name)
    if not isinstance(value, str):
        raise _not_given_out()
    return value


def stale_cursor(what: str, next_action: str = "Start again without a cursor.") -> ToolError:
    return ToolError(ErrorCode.STALE_CURSOR, f"{what} changed since the previous page", next_action)


def invalid_cursor(reason: str) -> ToolError:
    return ToolError(
        ErrorCode.INVALID_ARGS,
        f"cursor: {reason}",
        "Pass next_page_cursor unchanged, with the same other arguments, or omit it.",
    )


def _not_given_out() -> ToolError:
    return invalid_cursor("it is not a cursor of this tool")
