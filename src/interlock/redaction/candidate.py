"""A piece of a text that may be a secret, and what stands around it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from interlock.redaction.non_secrets import CALLABLE

# So much before a match is looked at, so that a stream need not keep more.
LOOKS_BACK = 256

# What a terminal is told about colours.
_ESCAPE = b"\x1b"
_COLOUR = re.compile(rb"\x1b\[[0-9;]*[mK]")


@dataclass(frozen=True, slots=True)
class SecretCandidate:
    """`start` is where the match begins, `begin` and `end` hold what may be secret."""

    text: bytes
    start: int
    begin: int
    end: int

    @property
    def value(self) -> bytes:
        return self.text[self.begin : self.end]

    @property
    def context(self) -> bytes:
        """What stands before the value in the match, with the rest of the name that it begins in."""
        line = self.before.rpartition(b"\n")[2] + self.said
        return _COLOUR.sub(b"", line) if _ESCAPE in line else line

    @property
    def before(self) -> bytes:
        """What stands before the match, as far as it may be looked at."""
        return self.text[max(0, self.start - LOOKS_BACK) : self.start]

    @property
    def said(self) -> bytes:
        """What stands before the value in the match."""
        return self.text[self.start : self.begin]

    @property
    def follower(self) -> bytes:
        return self.text[self.end : self.end + 1]

    @property
    def is_called(self) -> bool:
        """Code: `get_token(`. What no function is called like has a remark behind it."""
        return self.follower in (b"(", b"[", b"{") and CALLABLE.fullmatch(self.value) is not None


Check = Callable[[SecretCandidate], bool]
