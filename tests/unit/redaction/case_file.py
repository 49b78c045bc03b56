"""Reads the cases: secrets in pieces, so that no scanner takes the file for a leak."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from interlock.redaction.redactor import Redactor

FILE = Path(__file__).parents[2] / "data" / "redaction" / "cases.jsonl"
# So many characters of a secret, one after the other, are a leak.
_RUN = 8


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    is_secret: bool
    is_soft: bool
    text: str
    hidden: tuple[str, ...]

    def passes(self, shown: str) -> bool:
        if not self.is_secret:
            return shown == self.text
        return not any(run in shown for hidden in self.hidden for run in _runs(hidden))


@cache
def cases() -> tuple[Case, ...]:
    rows = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    return tuple(_case(row) for row in rows if not row.get("meta"))


def fed(redactor: Redactor, *pieces: str) -> str:
    stream = redactor.stream()
    return "".join([*map(stream.feed, pieces), stream.finish()])


def _case(row) -> Case:
    values = ["".join(pieces) for pieces in row["pieces"]]
    text = row["template"]
    for number, value in enumerate(values):
        text = text.replace(f"{{S{number}}}", value)
    if row["format"] == "pem":
        values = [line for line in values[0].split("\n")[1:-1] if line]
    return Case(row["id"], row["secret"], row.get("soft", False), text, tuple(values))


def _runs(hidden: str) -> list[str]:
    return [hidden[start : start + _RUN] for start in range(max(1, len(hidden) - _RUN + 1))]
