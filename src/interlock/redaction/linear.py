"""Patterns over bytes that take linear time on any input: no check hangs on a value that somebody chose."""

import re2

_MEMORY = 64 * 1024 * 1024


def options(*, catching: bool = False) -> "re2.Options":
    """Bytes are matched as they are: a character beyond ASCII is several, and cannot be in a class."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = not catching
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


def compiled(source: str) -> "re2._Regexp":
    """White space in the source is only there for the eye; a space that is meant is written `\\x20`."""
    return re2.compile("".join(source.split()).encode(), options())
