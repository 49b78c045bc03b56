"""Maps errors of a model's server to one sentence and one class of fault."""

from typing import Any

import orjson

from interlock.core.text import escape_control_characters
from interlock.models.provider import ModelError, ModelFault

LONGEST_WAIT_SECONDS = 3600.0
HIDDEN = "***REDACTED***"
_LONGEST_TEXT = 300
_TOO_LONG = (
    "context_length",
    "maximum context",
    "context window",
    "context size",
    "too many tokens",
    "prompt is too long",
    "input is too long",
)
_NO_CREDIT = ("insufficient_quota", "insufficient balance", "insufficient credit", "your current quota")


def parse_error_body(body: bytes) -> Any:
    """The body of a refusal: its JSON document, or its text."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")
    return (said.get("error") or said) if isinstance(said, dict) else said


def error_text(error: Any, *secrets: str) -> str:
    """A server's error message, in one short line and without the keys that it may repeat."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error.get("error") or error
    if isinstance(error, str):
        text = error
    else:
        try:
            text = orjson.dumps(error).decode()
        except orjson.JSONEncodeError:
            text = ""
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN)
    return escape_control_characters(" ".join(text[:10_000].split())[:_LONGEST_TEXT])


def error_from_status(
    status: int, error: Any, *, where: str, secret: str = "", retry_after_seconds: float | None = None
) -> ModelError:
    """Map a status that is no success. `where` names the model and its address."""
    said = error_text(error, secret)
    signs = f"{said} {_code(error, 'code') or _code(error, 'type')}".lower()
    fault, what = _judged(status, signs, where)
    told = f"the model's server says: {said}" if said else "the model's server gives no reason"
    return ModelError(fault, f"{what}; {told}", retry_after_seconds=retry_after_seconds)


def _judged(status: int, signs: str, where: str) -> tuple[ModelFault, str]:
    if status in (401, 403):
        return ModelFault.auth, f"the model's server rejects the key ({status})"
    if status == 404:
        return ModelFault.not_found, f"there is no {where} (404)"
    if status == 402 or (status == 429 and any(sign in signs for sign in _NO_CREDIT)):
        return ModelFault.quota, f"the account at the model's server has no credit left ({status})"
    if status == 429:
        return ModelFault.rate_limited, "the model's server reports too many requests (429)"
    if status in (400, 413, 422) and any(sign in signs for sign in _TOO_LONG):
        return ModelFault.too_long, f"the conversation is too long for the model ({status})"
    if status >= 500 or status in (408, 409, 425):
        return ModelFault.server, f"the model's server failed ({status})"
    if 300 <= status < 400:
        return ModelFault.invalid_request, f"the model's server redirects the request ({status})"
    return ModelFault.invalid_request, f"the model's server rejects the request ({status})"


def error_from_stream(error: Any, secret: str) -> ModelError:
    """Map an error in the stream itself. Some servers give the status that it would have had."""
    code = _code(error, "code")
    status = int(code) if code.isdecimal() and len(code) == 3 else 0
    if status >= 400:
        return error_from_status(status, error, where="such model", secret=secret)
    said = error_text(error, secret)
    return ModelError(
        ModelFault.server, f"the model's server aborted the response: {said or 'it gives no reason'}"
    )


def _code(error: Any, key: str) -> str:
    """A word or a number. Anything else is no code, and could be nested without end."""
    code = error.get(key) if isinstance(error, dict) else None
    return str(code) if isinstance(code, str | int) else ""


def unreadable_reply_error(reason: str) -> ModelError:
    return ModelError(
        ModelFault.protocol, f"the model's server sent a response that cannot be parsed: {reason}"
    )


def parse_retry_after(header: str) -> float | None:
    """Seconds, as most servers write it; for a date our own backoff applies."""
    try:
        seconds = float(header)
    except ValueError:
        return None
    return min(seconds, LONGEST_WAIT_SECONDS) if seconds >= 0 else None
