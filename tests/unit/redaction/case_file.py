"""Reads the cases: secrets in pieces, so that no scanner takes the file for a leak."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from interlock.redaction.redactor import Redactor

FOLDER = Path(__file__).parents[2] / "data" / "redaction"
# So many characters of a secret, one after the other, are a leak.
_RUN = 8


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    is_secret: bool
    is_soft: bool
    text: str
    hidden: tuple[str, ...]
    is_limit: bool = False

    def passes(self, shown: str) -> bool:
        if not self.is_secret:
            return shown == self.text
        return not any(run in shown for hidden in self.hidden for run in _runs(hidden))


@cache
def cases(file: str = "cases.jsonl") -> tuple[Case, ...]:
    # Not by splitlines: a value may hold a line end of Unicode's.
    rows = map(json.loads, (FOLDER / file).read_text("utf-8").strip().split("\n"))
    return tuple(_case(row) for row in rows if not row.get("meta"))


def fed(redactor: Redactor, *pieces: str) -> str:
    """All that a stream shows, which scans after each piece."""
    stream = redactor.stream()
    return "".join([*(stream.feed(piece) + stream.scan() for piece in pieces), stream.finish()])


def _case(row) -> Case:
    values = ["".join(pieces) for pieces in row["pieces"]]
    text = row["template"]
    for number, value in enumerate(values):
        text = text.replace(f"{{S{number}}}", value)
    hidden = [part for value in values for part in _hidden_in(value)]
    return Case(row["id"], row["secret"], row.get("soft", False), text, tuple(hidden), "limit" in row)


def _hidden_in(value: str) -> list[str]:
    """The lines of a private key between its first and its last; of anything else, all of it."""
    if "PRIVATE KEY" not in value:
        return [value]
    return [line for line in re.split(r"\n|\\n", value) if line.strip() and "PRIVATE KEY" not in line]


def _runs(hidden: str) -> list[str]:
    return [hidden[start : start + _RUN] for start in range(max(1, len(hidden) - _RUN + 1))]
