"""Recognises code behind a name like password that is not its value: a type, a variable, a call."""

from interlock.redaction.candidate import SecretCandidate
from interlock.redaction.non_secrets import (
    CAMEL_WITH_ACRONYMS,
    CONSTANT,
    LONG_BASE64,
    PATH,
    SECRET_VARIABLE_NAME,
    SYNTAX,
    TYPE,
    URL,
    VERDICT,
)
from interlock.redaction.randomness import case_changes, has_odd_capitals


def is_path(value: bytes) -> bool:
    return PATH.fullmatch(value) is not None and not is_long_base64(value)


def is_long_base64(value: bytes) -> bool:
    """Base64 with slashes, unlike a path, by how often the case changes."""
    return LONG_BASE64.fullmatch(value) is not None and case_changes(value) * 3 >= len(value)


def is_type(value: bytes) -> bool:
    """`x25519.X25519PrivateKey`, or a constant of a module."""
    last = value.rpartition(b".")[2]
    is_type = CAMEL_WITH_ACRONYMS.fullmatch(last) is not None or CONSTANT.fullmatch(last) is not None
    return last[:1].isupper() and is_type


def is_type_in_quotes(value: bytes) -> bool:
    """`Token | None`, `contextvars.Token[str]`: a forward reference is written as a string."""
    return (b" | " in value or value.endswith(b"]")) and TYPE.fullmatch(value) is not None


def is_code(value: bytes, candidate: SecretCandidate) -> bool:
    """What only a program has behind a name: a call, a scope, a variable, or a test's verdict."""
    if candidate.is_called or (value.endswith(b"-") and candidate.follower == b">"):
        return True
    if any(pattern.fullmatch(value) for pattern in (SYNTAX, URL, SECRET_VARIABLE_NAME)):
        return True
    return VERDICT.search(candidate.context) is not None and not has_odd_capitals(value)
