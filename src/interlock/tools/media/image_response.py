"""Parses an endpoint's response: the image, its URL, or the reason for a refusal."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any

import orjson

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import escape_control_characters, sanitize_text
from interlock.redaction.redactor import Redactor

# Besides the image: the revised prompt and token counts.
MAX_WRAPPING_BYTES = 1024 * 1024
MAX_REASON_CHARS = 300
MAX_REVISED_CHARS = 2000
# A longer text is not looked at: where it would be cut, there could be half a secret.
MAX_LOOKED_AT_CHARS = 16_384

NOT_REPEATED = "It may have been charged, so it is not retried: ask the user before you try again."

_SECONDS = re.compile("[0-9]{1,6}")
_DATE = re.compile("[A-Za-z]{3}, [A-Za-z0-9: -]{10,30} GMT")

_BLOCKED_CODES = frozenset({"content_policy_violation", "moderation_blocked", "content_filter"})
_BLOCKED = ("the endpoint rejected the content of the prompt{reason}", "Change the prompt.")

_NOT_ACCEPTED = (
    "the endpoint rejected the request{reason}",
    "Change the prompt or the aspect_ratio, or tell the user.",
)
_NOT_ALLOWED = (
    "the endpoint does not permit this for the account{reason}",
    "Tell the user: the account may lack the permission or the credit for this model.",
)
_REDIRECTED = (
    "the endpoint answered with a redirect ({status}), which is not followed",
    "Tell the user: IMAGE_BASE_URL must be the final address, without redirects.",
)
_FAILED = ("the endpoint failed (status {status}){reason}", NOT_REPEATED)
_STRANGE = ("the endpoint returned status {status} instead of an image{reason}", NOT_REPEATED)

_STATUSES = {
    400: _NOT_ACCEPTED,
    # The message may contain part of the key.
    401: (
        "the endpoint rejected the API key",
        "Tell the user: IMAGE_API_KEY (or OPENAI_API_KEY) is wrong where Interlock was started.",
    ),
    402: _NOT_ALLOWED,
    403: _NOT_ALLOWED,
    404: (
        "the endpoint does not know the URL or the model {model}{reason}",
        "Tell the user: IMAGE_BASE_URL or IMAGE_MODEL is wrong where Interlock was started.",
    ),
    413: _NOT_ACCEPTED,
    422: _NOT_ACCEPTED,
    429: (
        "the endpoint accepts no more requests now{waiting}{reason}",
        "Do not call it again immediately. Tell the user if it persists: the quota may be exhausted.",
    ),
}


@dataclass(frozen=True, slots=True)
class ImageResponse:
    """Either the bytes of the image, or the address where it waits."""

    image: bytes
    address: str
    revised_prompt: str


@dataclass(slots=True)
class ImageResponseReader:
    """Reads responses for one model, up to one limit. What it quotes is short, and redacted first."""

    model: str
    max_image_bytes: int
    redactor: Redactor
    # Whether something quoted contained a secret.
    redacted: bool = False

    @property
    def max_bytes(self) -> int:
        """Of the whole answer. Base64 takes four characters for three bytes."""
        return self.max_image_bytes * 4 // 3 + MAX_WRAPPING_BYTES

    def read(self, body: bytes) -> ImageResponse:
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise no_image_error("its response is not valid JSON") from None
        data = document.get("data") if isinstance(document, dict) else None
        first = data[0] if isinstance(data, list) and data else None
        encoded, address, revised = (
            _text_at(first, name) for name in ("b64_json", "url", "revised_prompt")
        )
        if address.startswith("data:"):
            encoded, address = address, ""
        if not encoded and not address:
            reason, _ = self._reason_of(document)
            raise no_image_error(f"its response contains no image{reason}", redacted=self.redacted)
        image = self._decoded(encoded) if encoded else b""
        return ImageResponse(image, "" if image else address, self._short(revised, MAX_REVISED_CHARS))

    def refusal(self, status: int, body: bytes, retry_after: str) -> ToolError:
        """The error for an unsuccessful status: what is wrong, and who can fix it."""
        try:
            reason, code = self._reason_of(orjson.loads(body))
        except orjson.JSONDecodeError:
            reason, code = "", ""
        if code in _BLOCKED_CODES:
            message, step = _BLOCKED
        elif status in _STATUSES:
            message, step = _STATUSES[status]
        elif 300 <= status < 400:
            message, step = _REDIRECTED
        else:
            message, step = _FAILED if status >= 500 else _STRANGE
        told = message.format(
            status=status,
            reason=reason,
            model=escape_control_characters(self.model),
            waiting=_waiting(retry_after),
        )
        message = f"no image was generated: {told}"
        # Not every sentence quotes the endpoint.
        redacted = self.redacted and reason in told
        return ToolError(ErrorCode.EXECUTION_ERROR, message, step, redacted=redacted)

    def _decoded(self, encoded: str) -> bytes:
        if encoded.startswith("data:"):
            head, _, encoded = encoded.partition(",")
            if not head.endswith(";base64"):
                raise no_image_error("it is not in base64")
        try:
            image = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise no_image_error("it is not valid base64") from None
        if len(image) > self.max_image_bytes:
            raise too_large_error(self.max_image_bytes)
        if not image:
            raise no_image_error("it is empty")
        return image

    def _reason_of(self, document: Any) -> tuple[str, str]:
        """The endpoint's own words, to be put behind a sentence, and its code."""
        error = document.get("error") if isinstance(document, dict) else None
        message = error if isinstance(error, str) else _text_at(error, "message")
        short = self._short(message, MAX_REASON_CHARS)
        return f": {short}" if short else "", _text_at(error, "code")

    def _short(self, text: str, max_chars: int) -> str:
        """Secrets go first and the cut comes second, so that no half of one is left."""
        if len(text) > MAX_LOOKED_AT_CHARS:
            return f"({len(text)} characters, too many to show)"
        clean = escape_control_characters(" ".join(sanitize_text(text).split()))
        line = self.redactor.text(clean)
        self.redacted = self.redacted or line != clean
        return line if len(line) <= max_chars else f"{line[:max_chars]}…"


def no_image_error(reason: str, *, redacted: bool = False) -> ToolError:
    """The endpoint took the request, and what it gave is of no use."""
    message = f"the endpoint returned no usable image: {reason}"
    return ToolError(ErrorCode.EXECUTION_ERROR, message, NOT_REPEATED, redacted=redacted)


def too_large_error(max_image_bytes: int) -> ToolError:
    return ToolError(
        ErrorCode.LIMIT_EXCEEDED,
        f"the image is larger than {max_image_bytes} bytes (tools.image.max_bytes, "
        "IMAGE_MAX_BYTES); it was not written",
        "A .jpg or .webp is smaller; the user can raise the limit. " + NOT_REPEATED,
    )


def _text_at(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _waiting(retry_after: str) -> str:
    """Seconds or a date, as the header may give it; anything else is passed over."""
    if _SECONDS.fullmatch(retry_after):
        return f" (it asks to wait {retry_after} seconds)"
    return f" (it asks to wait until {retry_after})" if _DATE.fullmatch(retry_after) else ""
