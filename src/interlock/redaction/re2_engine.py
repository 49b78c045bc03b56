"""Patterns over bytes that take linear time on any input: no check hangs on a hostile value."""

from collections.abc import Callable
from functools import partial

import re2

# The spans of the first match in a text between two offsets; -1 if there is none.
Search = Callable[[bytes, int, int], list[tuple[int, int]]]
# The numbers of the patterns that match somewhere in a text.
Which = Callable[[bytes], list[int]]

# The memory for one pattern's automaton. With a quarter of it the patterns no longer fit and take hundreds
# of times as long; with more, a process that runs for days holds it for each of them.
_MEMORY = 16 * 1024 * 1024
# The same for a set of all rules, of which there are three. On code by many authors one fills that much;
# with two thirds of it, it is rebuilt again and again, and takes half as long again.
MEMORY_OF_A_SET = 24 * 1024 * 1024
# The same for the few patterns that combine many. Hostile text in a stream needs so much, and takes seven
# times as long with a quarter of it; ordinary text needs none of it.
_MEMORY_OF_MANY = 64 * 1024 * 1024


def options(*, catching: bool = False, memory: int = _MEMORY) -> "re2.Options":
    """Bytes are matched one by one: a character beyond ASCII is several, and cannot be in a class."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = not catching
    options.log_errors = False
    options.max_mem = memory
    return options


def compile_pattern(source: str) -> "re2._Regexp":
    """White space in the source is for readability; write `\\x20` for a space."""
    return re2.compile("".join(source.split()).encode(), options())


# The package's own wrapper classes take two thirds of the time of a search in a short text, such as a delta
# of a stream. So these two bypass them.


def make_search(source: str) -> Search:
    pattern = re2.compile(source.encode(), options(memory=_MEMORY_OF_MANY))
    return partial(pattern._regexp.Match, re2._Anchor.UNANCHORED)  # noqa: SLF001 - as said above


def make_set_matcher(patterns: "re2.Set") -> Which:
    patterns.Compile()
    return patterns._set.Match  # type: ignore[no-any-return]  # noqa: SLF001 - as said above
