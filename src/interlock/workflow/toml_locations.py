"""Finds the lines of tables and keys in a TOML file.

For error messages only: `tomllib`, which has no line numbers, reads the content. The text is scanned in one
pass, however it is written.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

# A string in three quotes may end with two more, which belong to it.
_PIECE = re.compile(
    r"""
    (?P<text>\"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*+\"{3,5} | '{3}(?:[^']|'{1,2}(?!'))*+'{3,5}
        | "(?:[^"\\\n]|\\.)*+" | '[^'\n]*+')
    | (?P<word>[^\s"'\[\]{}=.,\#]++)
    | (?P<sign>[\[\]{}=.,])
    | (?P<end>\n)
    | \#[^\n]*+
    """,
    re.DOTALL | re.VERBOSE,
)
_FAULT_LINE = re.compile(r"\(at line (\d+), column \d+\)")

# No workflow key has as many parts. `tomllib` takes minutes for a key of some thousands.
MAX_PARTS = 20

TomlPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str | None
    text: str
    line: int

    @property
    def depth(self) -> int:
        """The change of nesting depth by this token."""
        if self.kind != "sign":
            return 0
        return (self.text in "[{") - (self.text in "]}")


class TomlLocations:
    """The lines of a file by path. Tables of a list count from 0: `("edges", 2, "to")`."""

    def __init__(self, text: str) -> None:
        self._lines: dict[TomlPath, int] = {}
        self._scan(text)

    def line(self, *place: str | int) -> int:
        """The line of a path, or of its nearest known parent."""
        while place:
            if place in self._lines:
                return self._lines[place]
            place = place[:-1]
        return 1

    def _scan(self, text: str) -> None:
        table: TomlPath = ()
        counted: Counter[TomlPath] = Counter()
        for pieces in _statements(text):
            if pieces[0].text == "[":
                table = _path(pieces)
                if pieces[1].text == "[":
                    counted[table] += 1
                    table = (*table, counted[table] - 1)
                self._lines.setdefault(table, pieces[0].line)
                continue
            key = list(takewhile(lambda piece: piece.text != "=", pieces))
            place = (*table, *_path(key))
            self._lines.setdefault(place, pieces[0].line)
            self._scan_list(place, pieces[len(key) + 1 :])

    def _scan_list(self, place: TomlPath, value: Sequence[_Piece]) -> None:
        """Scan the tables of an inline list, `[{…}, {…}]`."""
        if not value or value[0].text != "[":
            return
        depth, number = 0, 0
        for piece in value:
            if depth == 1 and piece.depth > 0:
                self._lines.setdefault((*place, number), piece.line)
                number += 1
            depth += piece.depth


def _statements(text: str) -> Iterator[list[_Piece]]:
    """Each table header, and each key with its value, which may span lines."""
    found: list[_Piece] = []
    depth, line = 0, 1
    for match in _PIECE.finditer(text):
        piece = _Piece(match.lastgroup, match[0], line)
        line += piece.text.count("\n")
        if piece.kind == "end":
            if found and depth == 0:
                yield found
                found = []
        elif piece.kind is not None:
            found.append(piece)
            depth += piece.depth
    if found:
        yield found


def _path(pieces: Sequence[_Piece]) -> TomlPath:
    names = {"text": slice(1, -1), "word": slice(None)}
    return tuple(piece.text[names[piece.kind]] for piece in pieces if piece.kind in names)


def find_overlong_key(text: str) -> int | None:
    """The line of a key with too many dots, in a text that need not be TOML."""
    dots, line = 0, 1
    for match in _PIECE.finditer(text):
        if match[0] == ".":
            dots += 1
        elif match.lastgroup not in {"text", "word"}:
            dots = 0
        if dots >= MAX_PARTS:
            return line
        line += match[0].count("\n")
    return None


def locate_toml_error(error: tomllib.TOMLDecodeError, text: str) -> tuple[int, str]:
    """The line of a TOML error, and its message."""
    found = _FAULT_LINE.search(str(error))
    line = int(found[1]) if found else text.count("\n") + 1
    return line, _FAULT_LINE.sub("", str(error)).replace("(at end of document)", "").strip()
