"""Decodes candidates: a user and a password, a URL with one, the header of a token, a key."""

import base64
import binascii
import re

from interlock.redaction.candidate import SecretCandidate
from interlock.redaction.non_secrets import URL_WITH_PASSWORD, is_placeholder


def basic_credentials(candidate: SecretCandidate) -> bool:
    """Whether it decodes to user:password."""
    value = candidate.value.translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    try:
        return (
            re.fullmatch(r"[\w.@+\\-]*:.+", decoded.decode()) is not None and decoded.decode().isprintable()
        )
    except UnicodeDecodeError:
        return False


def url_in_base64(candidate: SecretCandidate) -> bool:
    """Whether it decodes to a URL with a password."""
    value = candidate.value.rstrip(b"=")
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    found = URL_WITH_PASSWORD.match(decoded)
    return found is not None and not is_placeholder(found[0][:-1].rpartition(b":")[2])


def web_token(candidate: SecretCandidate) -> bool:
    """Three parts or five, or a header that decodes to an object with an algorithm."""
    parts = [part for part in candidate.value.split(b".") if part]
    if len(parts) >= 3:
        return True
    try:
        header = base64.urlsafe_b64decode(parts[0] + b"=" * (-len(parts[0]) % 4))
    except (binascii.Error, ValueError):
        return False
    return b'"alg"' in header


def key_block(candidate: SecretCandidate) -> bool:
    """Whether it contains key material, not only a mention of how such a block begins."""
    return re.search(rb"[A-Za-z0-9+/]{20,}", candidate.value) is not None
