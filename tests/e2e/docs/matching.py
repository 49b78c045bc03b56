"""Whether a command printed what a page shows.

A line `…` stands for any lines, and `…` within a line for any text. Ids and hashes stand for whatever is in
their place, always the same one; times, durations and process ids for any. Columns may be of any width.
"""

import re

ID = r"\b(?:s|t|q|c|r|undo|call)_[0-9a-f]{12,16}\b"
HASH = r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b"
TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"
MEASURED = r"\b(?:latency_ms|first_piece_ms|pid|seconds|timeout_seconds)=[\d.]+"
STAMP = r"\d{8}T\d{6}Z"
TOKENS = re.compile(
    f"(?P<time>{TIME})|(?P<stamp>{STAMP})|(?P<id>{ID})|(?P<hash>{HASH})|(?P<measured>{MEASURED})|(?P<any>…)"
)
PATTERNS = {
    "time": TIME,
    "stamp": STAMP,
    "id": ID,
    "hash": r"[0-9a-f]{8,64}",
    "any": ".*",
}


class Names:
    """What the ids and hashes of a page are in this run."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def in_command(self, text: str) -> str:
        for shown, real in self._real.items():
            text = text.replace(shown, real)
        return text

    def pattern(self, line: str) -> tuple[re.Pattern[str], dict[str, str]]:
        """A pattern for the line, and which of its groups stands for which name of the page."""
        parts, groups, end = [], {}, 0
        line = _plain(line)
        for number, found in enumerate(TOKENS.finditer(line)):
            parts.append(re.escape(line[end : found.start()]))
            kind, text, end = str(found.lastgroup), found[0], found.end()
            if kind == "measured":
                parts.append(re.escape(text.split("=")[0]) + r"=[\d.]+")
            elif kind in {"id", "hash"} and text in self._real:
                parts.append(re.escape(self._real[text]))
            elif kind in {"id", "hash"}:
                groups[f"g{number}"] = text
                parts.append(f"(?P<g{number}>{PATTERNS[kind]})")
            else:
                parts.append(PATTERNS[kind])
        parts.append(re.escape(line[end:]))
        return re.compile("".join(parts)), groups

    def learn(self, found: re.Match[str], groups: dict[str, str]) -> None:
        for group, shown in groups.items():
            self._real.setdefault(shown, found[group])


def _plain(line: str) -> str:
    """Columns and rules are as wide as what stands in them."""
    line = re.sub("─+", "─", line.rstrip())
    return re.sub(r"(?<=\S) {2,}", "  ", line)


def difference(shown: list[str], printed: list[str], names: Names, *, in_part: bool = False) -> str | None:
    """What of the page was not printed; None if all of it was, in its order, and nothing else."""
    at, may_skip = 0, in_part
    for line in shown:
        if line.strip() == "…":
            may_skip = True
            continue
        pattern, groups = names.pattern(line)
        candidates = range(at, len(printed)) if may_skip else range(at, min(at + 1, len(printed)))
        for place in candidates:
            if found := pattern.fullmatch(_plain(printed[place])):
                names.learn(found, groups)
                at, may_skip = place + 1, in_part
                break
        else:
            near = printed[at] if at < len(printed) else "(the end)"
            return f"the page shows  {line!r}\nit printed      {near!r}"
    if at < len(printed) and not may_skip:
        return f"the page ends, and it printed more: {printed[at]!r}"
    return None
