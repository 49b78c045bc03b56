"""Private keys whose block is longer than the text at hand: where one has begun, the rest is secret.

To show an excerpt of a long text, look back for a block that is still open there, and put its first line
before the text given to the redactor.
"""

import re
import string

# Longer than the first line of any block.
LONGEST_OPENING = 128

_OPENING = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
# The characters that the rule for private keys accepts in one.
_MATERIAL = f'{string.ascii_letters}{string.digits}+/=:,.\\">|#*()- \t\n\r\f'.encode()


def open_block_header(text: str, end: int | None = None) -> str:
    """The first line of a block that is still open at the end of a text, or an empty text.

    The text behind `end` is read but not returned: the line may extend beyond it.
    """
    at = text.rfind("BEGIN ")
    found = _OPENING.search(text, max(0, at - 6), at + LONGEST_OPENING) if at >= 0 else None
    if found is None or not may_be_inside_block(text[found.end() :]):
        return ""
    return f"{found[0]}\n" if end is None or found.end() <= end else text[found.start() : end]


def may_be_inside_block(text: str) -> bool:
    """Whether a text could be the middle of a block."""
    return text.isascii() and "----" not in text and not text.encode().translate(None, _MATERIAL)
