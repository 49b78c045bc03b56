"""Recorded conversations: normalise what was seen, and compare it with the file in tests/data/recorded.

`RECORD=1` writes the files anew; read their diff before you commit it. Ids, times, hashes, durations and
directories are replaced by names that are numbered in the order in which they appear.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "recorded"

# In this order: the longer forms first.
PATTERNS = (
    ("hash", re.compile(r"\b[0-9a-f]{64}\b")),
    ("id", re.compile(r"\b(?:s|t|q|r|c|undo|call|demo|scripted|task|ev)_[0-9a-f]{8,32}(?:_\d+)?\b")),
    ("id", re.compile(r"\b[0-9a-f]{12,32}\b")),
    ("worker", re.compile(r"\b[\w.-]+:\d+:[0-9a-f]{6}\b")),
    ("time", re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")),
)
# Fields whose value is a measurement, or belongs to this machine.
MEASURED = re.compile(
    r"(?:_us|_ms|latency|duration|_tokens|_bytes_free|^seconds|^time|^pid|^worker|^salt|^authority_digest)"
)
MACHINE = {"who", "sandbox", "opened_by"}


class Normalised:
    """The same id gets the same name everywhere in one recording."""

    def __init__(self, *directories: Path) -> None:
        self._directories = sorted((str(path) for path in directories), key=len, reverse=True)
        self._names: dict[str, str] = {}

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.value(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, key) for each in value]
        if MEASURED.search(key) and isinstance(value, int | float | str):
            return "<measured>"
        if key in MACHINE and isinstance(value, str) and value.startswith("local:"):
            return "local:<user>"
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        for number, directory in enumerate(self._directories):
            text = text.replace(directory, f"<directory {number}>")
        for kind, pattern in PATTERNS:
            text = pattern.sub(lambda found, kind=kind: self._named(kind, found[0]), text)
        return text

    def _named(self, kind: str, found: str) -> str:
        if kind in {"time", "worker", "hash"}:
            return f"<{kind}>"
        return self._names.setdefault(found, f"<{kind} {len(self._names) + 1}>")


def assert_as_recorded(name: str, seen: Any) -> None:
    path = FOLDER / f"{name}.json"
    text = json.dumps(seen, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if os.environ.get("RECORD"):
        path.write_text(text)
    recorded = path.read_text()
    assert json.loads(text) == json.loads(recorded), f"{path.name} differs; RECORD=1 writes it anew"
