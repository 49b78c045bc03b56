"""A part of a text that may be a secret, with its context."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from interlock.redaction.non_secrets import CALLABLE

# Checks see this much before a match, so that a stream need not keep more.
LOOKS_BACK = 256

# Escape sequences for colours.
_ESCAPE = b"\x1b"
_COLOUR = re.compile(rb"\x1b\[[0-9;]*[mK]")


@dataclass(frozen=True, slots=True)
class SecretCandidate:
    """`start` is where the match begins, `begin` and `end` enclose the possible secret."""

    text: bytes
    start: int
    begin: int
    end: int

    @property
    def value(self) -> bytes:
        return self.text[self.begin : self.end]

    @property
    def context(self) -> bytes:
        """The text before the value: the match up to it, and the rest of the line before the match."""
        line = self.before.rpartition(b"\n")[2] + self.said
        return _COLOUR.sub(b"", line) if _ESCAPE in line else line

    @property
    def before(self) -> bytes:
        """The text before the match, up to `LOOKS_BACK` bytes."""
        return self.text[max(0, self.start - LOOKS_BACK) : self.start]

    @property
    def said(self) -> bytes:
        """The part of the match before the value."""
        return self.text[self.start : self.begin]

    @property
    def follower(self) -> bytes:
        return self.text[self.end : self.end + 1]

    @property
    def is_called(self) -> bool:
        """Code: `get_token(`. A value that is no callable name has a remark behind it."""
        return self.follower in (b"(", b"[", b"{") and CALLABLE.fullmatch(self.value) is not None


Check = Callable[[SecretCandidate], bool]
