"""Reads the commands of a page: its fenced `sh` and `console` blocks, and what is noted before them.

A note is an HTML comment on the line before a block:

    <!-- not run: WHY -->         nobody runs it here
    <!-- exits: 3 -->             its last command ends with that code
    <!-- stays running -->        its last command is left running until the page ends
    <!-- typed: TEXT -->          what a person types when it asks
    <!-- in part -->              other lines may stand between those that are shown
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\s*$")
NOTE = re.compile(
    r"^ *<!-- (?P<what>not run|exits|stays running|typed|in part)(?:: (?P<text>.+?))? -->\s*$"
)
LANGUAGES = {"sh", "console"}
PROMPT = "you> "


@dataclass(frozen=True)
class Command:
    text: str
    shown: tuple[str, ...] = ()
    # What a person writes in a conversation.
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    lines: tuple[str, ...]
    notes: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[Command]:
        return (
            list(_commands(self.lines)) if self.language == "console" else [Command("\n".join(self.lines))]
        )


def blocks_of(path: Path, root: Path) -> list[Block]:
    return list(_blocks(str(path.relative_to(root)), path.read_text().splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    notes: dict[str, str] = {}
    opened: tuple[int, str, int] | None = None
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if opened is not None and fence and not fence["language"]:
            start, language, indent = opened
            inner = tuple(each[indent:] for each in lines[start : number - 1])
            if language in LANGUAGES:
                yield Block(page, start, language, inner, notes)
            opened, notes = None, {}
        elif opened is None and fence:
            opened = (number, fence["language"], len(fence["indent"]))
        elif opened is None and (note := NOTE.match(line)):
            notes = {**notes, note["what"]: note["text"] or ""}
        elif opened is None and line.strip():
            notes = {}


def _commands(lines: tuple[str, ...]) -> Iterator[Command]:
    text: list[str] = []
    shown: list[str] = []
    said: list[str] = []
    goes_on = False
    for line in lines:
        if line.startswith("$ "):
            if text:
                yield Command("\n".join(text), tuple(shown), tuple(said))
            text, shown, said = [line[2:]], [], []
        elif goes_on:
            text.append(line)
        elif line.startswith(PROMPT):
            said.append(line.removeprefix(PROMPT))
        else:
            shown.append(line)
        goes_on = (line.startswith("$ ") or goes_on) and _is_open("\n".join(text))
    if text:
        yield Command("\n".join(text), tuple(shown), tuple(said))


def _is_open(text: str) -> bool:
    """Whether a shell would wait for another line."""
    if text.rstrip().endswith(("\\", "|", "&&")):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False
