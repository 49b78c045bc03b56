"""Private keys whose block is longer than what is looked at: where one has begun, what follows is secret.

Whoever shows a piece from the middle of a long text looks back for a block that is still open there, and
puts its first line before what the redactor is given.
"""

import re
import string

# Longer than the first line of any block.
LONGEST_OPENING = 128

_OPENING = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
# What the rule for private keys takes for a part of one.
_MATERIAL = f'{string.ascii_letters}{string.digits}+/=:,.\\">|#*()- \t\n\r\f'.encode()


def open_block_header(text: str, end: int | None = None) -> str:
    """The first line of a block that is still open where a text ends, or nothing.

    What lies behind `end` is looked at, and is not said again: the line may go beyond it.
    """
    at = text.rfind("BEGIN ")
    found = _OPENING.search(text, max(0, at - 6), at + LONGEST_OPENING) if at >= 0 else None
    if found is None or not may_be_inside_block(text[found.end() :]):
        return ""
    return f"{found[0]}\n" if end is None or found.end() <= end else text[found.start() : end]


def may_be_inside_block(text: str) -> bool:
    """Whether a text could be the middle of a block."""
    return text.isascii() and "----" not in text and not text.encode().translate(None, _MATERIAL)
