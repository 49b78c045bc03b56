"""Front matter: lines `key: value` between two lines `---`. Every fault has its line.

There is no nesting: a dotted key takes one line, as with `interlock settings set`. Indentation means
nothing, and a value's type follows from its key, never from its form.
"""

import re
from dataclasses import dataclass

from interlock.agent.regular_files import InvalidFile

FENCE = "---"

_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCKS = frozenset({"|", ">", "|-", ">-", "|+", ">+"})


@dataclass(frozen=True, slots=True)
class FrontMatterFault:
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class FrontMatterEntry:
    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class FrontMatterDocument:
    entries: tuple[FrontMatterEntry, ...]
    body: str
    body_line: int
    faults: tuple[FrontMatterFault, ...]


def parse_front_matter(text: str) -> FrontMatterDocument:
    """Parse the entries with all their faults, and the text below; `InvalidFile` without front matter."""
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        raise InvalidFile(
            f"has no front matter: the first line must be {FENCE}, and a second {FENCE} must end it"
        )
    end = next((number for number in range(1, len(lines)) if lines[number].rstrip() == FENCE), None)
    if end is None:
        raise InvalidFile(f"has front matter without an end: a second line {FENCE} is missing")
    entries: dict[str, FrontMatterEntry] = {}
    faults: list[FrontMatterFault] = []
    for number in range(1, end):
        read = _line(lines[number], number + 1)
        if isinstance(read, FrontMatterFault):
            faults.append(read)
        elif read is not None and read.key in entries:
            first = entries[read.key].line
            faults.append(
                FrontMatterFault(read.line, f"{read.key} occurs twice; the first is on line {first}")
            )
        elif read is not None:
            entries[read.key] = read
    return FrontMatterDocument(tuple(entries.values()), "\n".join(lines[end + 1 :]), end + 2, tuple(faults))


def _line(text: str, number: int) -> FrontMatterEntry | FrontMatterFault | None:
    if not text.strip() or text.lstrip().startswith("#"):
        return None
    if text[0] in " \t" or text.startswith("- "):
        return FrontMatterFault(
            number, "nested keys are not supported; use dots, as in tools.fs.enabled: false"
        )
    found = _ENTRY.fullmatch(text.rstrip())
    if found is None:
        return FrontMatterFault(number, "this line is not of the form key: value")
    key, value = found[1], (found[2] or "").strip()
    if value in _BLOCKS:
        return FrontMatterFault(
            number, f"{key} must be on one line; put longer text below the front matter"
        )
    quote = value[:1]
    if quote in {'"', "'"}:
        if len(value) < 2 or value[-1] != quote or quote in value[1:-1]:
            return FrontMatterFault(number, f"the quotes around the value of {key} do not match")
        value = value[1:-1]
    return FrontMatterEntry(key, value, number)
