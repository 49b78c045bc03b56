"""A text with a head: lines `key: value` between two lines `---`. Every fault has its line.

The form is that of front matter elsewhere, without nesting: a name with dots says it on one line, as
`interlock settings set` does. So there is nothing to get wrong about indentation, and a value is what the
key says it is, never what it looks like.
"""

import re

from interlock.agent.plain_files import Unfit
from interlock.infra.records import dataclass

FENCE = "---"

_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCKS = frozenset({"|", ">", "|-", ">-", "|+", ">+"})


@dataclass(frozen=True, slots=True)
class Fault:
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class HeadedText:
    entries: tuple[Entry, ...]
    body: str
    body_line: int
    faults: tuple[Fault, ...]


def parse(text: str) -> HeadedText:
    """The head's entries with all their faults, and what stands below; `Unfit` where there is no head."""
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        raise Unfit(
            f"has no front matter: the first line must be {FENCE}, and a second {FENCE} must end it"
        )
    end = next((number for number in range(1, len(lines)) if lines[number].rstrip() == FENCE), None)
    if end is None:
        raise Unfit(f"has front matter without an end: a second line {FENCE} is missing")
    entries: dict[str, Entry] = {}
    faults: list[Fault] = []
    for number in range(1, end):
        read = _line(lines[number], number + 1)
        if isinstance(read, Fault):
            faults.append(read)
        elif read is not None and read.key in entries:
            first = entries[read.key].line
            faults.append(Fault(read.line, f"{read.key} occurs twice; the first is on line {first}"))
        elif read is not None:
            entries[read.key] = read
    return HeadedText(tuple(entries.values()), "\n".join(lines[end + 1 :]), end + 2, tuple(faults))


def _line(text: str, number: int) -> Entry | Fault | None:
    if not text.strip() or text.lstrip().startswith("#"):
        return None
    if text[0] in " \t" or text.startswith("- "):
        return Fault(number, "nested keys are not supported; use dots, as in tools.fs.enabled: false")
    found = _ENTRY.fullmatch(text.rstrip())
    if found is None:
        return Fault(number, "this line is not of the form key: value")
    key, value = found[1], (found[2] or "").strip()
    if value in _BLOCKS:
        return Fault(number, f"{key} must be on one line; put longer text below the front matter")
    quote = value[:1]
    if quote in {'"', "'"}:
        if len(value) < 2 or value[-1] != quote or quote in value[1:-1]:
            return Fault(number, f"the quotes around the value of {key} do not match")
        value = value[1:-1]
    return Entry(key, value, number)
