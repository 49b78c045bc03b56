"""The frames of the WebSocket protocol, and their errors. docs/protocol.md describes them.

All frames that the server sends are built here. A frame is encoded once, without the `id`, which differs
between sockets; each socket prepends its own.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from interlock.core.errors import InterlockError, StoreFull, UserError, unwrap_audit_error
from interlock.core.text import safe_excerpt, to_json_value
from interlock.feed.frames import ErrorData, FeedItemType
from interlock.models.provider import ModelError

RequestId = str | int | None

MAX_ID_CHARS = 128
MAX_SHOWN_CHARS = 80
# A text with fewer brackets cannot be nested too deeply.
MIN_BRACKETS_TO_CHECK = 100
# Without the path of the store, which the error's own message contains.
STORE_IS_FULL = "the disk of the store is full, so nothing was saved; free space, then try again"


RESPONSE: Final = "response"
SESSION_CHANGED: Final = "session_changed"
FrameType = FeedItemType | Literal["response", "session_changed"]


class GatewayErrorCode(StrEnum):
    """The error codes of this layer. Errors of lower layers, and failed tasks, have their own."""

    PARSE_ERROR = "PARSE_ERROR"
    METHOD_NOT_FOUND = "METHOD_NOT_FOUND"
    INVALID_PARAMS = "INVALID_PARAMS"
    RATE_LIMITED = "RATE_LIMITED"
    REVOKED = "REVOKED"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class CloseReason(StrEnum):
    """Why the server closes a socket; the value is the close code."""

    too_fast = "1008"
    too_slow = "1013"
    stopping = "1012"
    revoked = "4401"

    @property
    def number(self) -> int:
        return int(self.value)


class MethodParams(BaseModel):
    """The parameters of a method. Unknown fields are rejected, and values are not converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NoParams(MethodParams):
    pass


class RequestError(Exception):
    """A request failed; the message is sent to the client."""

    def __init__(self, code: str, message: str, request_id: RequestId = None) -> None:
        super().__init__(message)
        self.code = code
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    id: RequestId
    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Frame:
    """One encoded frame. `task_id` is the task it belongs to, which determines its request id."""

    body: str
    task_id: str | None = None
    # The frame with a null id, which most sockets receive.
    plain: str = field(default="")
    _wire: bytes = field(default=b"", init=False, repr=False)

    @property
    def wire(self) -> bytes:
        """The plain frame as WebSocket bytes, the same for every socket: built once, on first use."""
        if not self._wire:
            self._wire = _text_frame(self.plain.encode())
        return self._wire

    def with_id(self, request_id: RequestId) -> str:
        if request_id is None:
            return self.plain
        return f'{{"id":{orjson.dumps(request_id).decode()},{self.body}'


def _text_frame(payload: bytes) -> bytes:
    """RFC 6455, 5.2: one whole text frame, unmasked."""
    size = len(payload)
    if size < 126:
        return b"\x81%c%b" % (size, payload)
    if size < 65_536:
        return b"\x81\x7e%b%b" % (size.to_bytes(2, "big"), payload)
    return b"\x81\x7f%b%b" % (size.to_bytes(8, "big"), payload)


def make_frame(
    kind: FrameType,
    data: Any,
    *,
    session_id: str | None = None,
    seq: int | None = None,
    task_id: str | None = None,
) -> Frame:
    shell = {"type": kind, "session_id": session_id, "seq": seq, "task_id": task_id, "data": data}
    try:
        body = orjson.dumps(shell).decode()[1:]
    except orjson.JSONEncodeError:
        # Nested too deeply, or a number out of range: encode it as text from there on.
        body = orjson.dumps(to_json_value(shell)).decode()[1:]
    return Frame(body, task_id, f'{{"id":null,{body}')


def parse_request(text: str | bytes) -> GatewayRequest:
    """Parse a request; a `RequestError` describes what is wrong with it."""
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise RequestError(GatewayErrorCode.PARSE_ERROR, "the frame is not JSON") from None
    if _is_nested_too_deeply(text, given):
        raise RequestError(GatewayErrorCode.PARSE_ERROR, "the frame is nested too deeply")
    if not isinstance(given, dict):
        raise RequestError(GatewayErrorCode.PARSE_ERROR, "the frame is not an object")
    request_id = _read_id(given.get("id"))
    method, params = given.get("method"), given.get("params")
    if given.get("type") != "request" or not isinstance(method, str):
        raise RequestError(
            GatewayErrorCode.PARSE_ERROR,
            ('a frame must be {"type": "request", "id", "method", "params"}'),
            request_id,
        )
    if params is not None and not isinstance(params, dict):
        raise RequestError(GatewayErrorCode.INVALID_PARAMS, "params must be an object", request_id)
    return GatewayRequest(request_id, method, params or {})


def _is_nested_too_deeply(text: str | bytes, given: Any) -> bool:
    """Whether orjson cannot encode the value again: it decodes deeper nesting than it encodes."""
    written = text.encode() if isinstance(text, str) else text
    if written.count(b"[") + written.count(b"{") < MIN_BRACKETS_TO_CHECK:
        return False
    try:
        orjson.dumps(given)
    except orjson.JSONEncodeError:
        return True
    return False


def _read_id(given: Any) -> RequestId:
    if isinstance(given, bool) or not isinstance(given, str | int | None):
        raise RequestError(GatewayErrorCode.PARSE_ERROR, "id must be a string or a number")
    if isinstance(given, str) and len(given) > MAX_ID_CHARS:
        raise RequestError(GatewayErrorCode.PARSE_ERROR, f"id can have at most {MAX_ID_CHARS} characters")
    return given


def parse_params(model: type[MethodParams], given: dict[str, Any], request_id: RequestId) -> MethodParams:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        faults = [
            f"{safe_excerpt('.'.join(str(step) for step in each['loc']), MAX_SHOWN_CHARS)}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise RequestError(GatewayErrorCode.INVALID_PARAMS, "; ".join(faults[:5]), request_id) from None


def error_frame(code: str, message: str) -> Frame:
    data: ErrorData = {"code": code, "message": message}
    return make_frame(FeedItemType.error, data)


def public_error(error: Exception) -> tuple[str, str] | None:
    """The code and message for the client; None for an internal error."""
    if isinstance(error, RequestError):
        return error.code, str(error)
    if isinstance(error, UserError | ModelError):
        return _code_of(error), str(error)
    if isinstance(unwrap_audit_error(error), StoreFull):
        return StoreFull.code, STORE_IS_FULL
    return None


def _code_of(error: InterlockError) -> str:
    # For a client, bad usage of a command is an invalid request.
    return GatewayErrorCode.INVALID_PARAMS.value if error.code == "BAD_USAGE" else error.code
