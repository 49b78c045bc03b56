"""Where in a TOML file things stand: which line a table or a key begins on.

Only to tell people: what the file means is read by `tomllib`, which knows no lines.
"""

import re
import tomllib
from collections import Counter

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"))*)\s*=""")
_FAULT_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_LONG_QUOTES = ('"""', "'''")
# Texts and comments are passed over; what is left to see are brackets and ends of lines.
_PIECE = re.compile(
    r"""
    (?P<text>\"{3}(?:[^\\]|\\.)*?\"{3} | '{3}.*?'{3} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*' | \#[^\n]*)
    | (?P<sign>[\[\]{}])
    """,
    re.DOTALL | re.VERBOSE,
)

Place = tuple[str | int, ...]


class Places:
    """A list of tables counts its tables from 0: `("edges", 2, "to")`."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Place, int] = {}
        self._scan(text)

    def line(self, *place: str | int) -> int:
        """Of the nearest thing around it that has one."""
        while place:
            if place in self._lines:
                return self._lines[place]
            place = place[:-1]
        return 1

    def _scan(self, text: str) -> None:
        table: Place = ()
        counted: Counter[Place] = Counter()
        open_quotes, start, passed = "", 0, 0
        for number, line in enumerate(text.split("\n"), 1):
            begin, start = start, start + len(line) + 1
            if begin < passed:
                continue
            if open_quotes:
                open_quotes = "" if open_quotes in line else open_quotes
            elif header := _HEADER.fullmatch(line):
                table = _path(header[2])
                if header[1] == "[[":
                    counted[table] += 1
                    table = (*table, counted[table] - 1)
                self._lines.setdefault(table, number)
            elif key := _KEY.match(line):
                place, rest = (*table, *_path(key[1])), line[key.end() :]
                self._lines.setdefault(place, number)
                if rest.lstrip().startswith("["):
                    passed = self._scan_list(place, text, begin + key.end())
                else:
                    open_quotes = next((mark for mark in _LONG_QUOTES if rest.count(mark) == 1), "")

    def _scan_list(self, place: Place, text: str, start: int) -> int:
        """The tables of a list that is written out, `[{…}, {…}]`. Where the list ends."""
        depth, counted, line, looked = 0, 0, text.count("\n", 0, start) + 1, start
        for piece in _PIECE.finditer(text, start):
            if piece["sign"] is None:
                continue
            if piece["sign"] in "[{":
                line, looked = line + text.count("\n", looked, piece.start()), piece.start()
                if depth == 1:
                    self._lines.setdefault((*place, counted), line)
                    counted += 1
                depth += 1
            else:
                depth -= 1
            if depth == 0:
                return piece.end()
        return start


def _path(text: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


def fault_line(error: tomllib.TOMLDecodeError, text: str) -> tuple[int, str]:
    """The line of a file that is no TOML, and what is wrong there."""
    found = _FAULT_LINE.search(str(error))
    line = int(found[1]) if found else text.count("\n") + 1
    return line, _FAULT_LINE.sub("", str(error)).replace("(at end of document)", "").strip()
