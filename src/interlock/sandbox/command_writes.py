"""Which files a command would visibly write, move or remove."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from interlock.sandbox.shell_commands import Command

MAX_SOURCES = 100

# Folders for sure: what is copied to them keeps its name.
_FOLDERS = frozenset({"/", "/etc", "/root", "/usr/bin", "/bin"})
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_TO_THE_LAST = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
_TO_ALL = frozenset({"tee", "truncate", "touch", "sponge", "shred", "chmod", "chown", "chgrp", "setfacl"})
_REMOVING = frozenset({"rm", "unlink", "rmdir", "srm"})
_EDITS = re.compile(r"-(?![MmIeE])[a-zA-Z]*i|--in-place")
_IN_PLACE = frozenset({"sed", "perl", "gsed", "ruby"})
_NAMED_OUTPUT = {
    "curl": ("o", "output"),
    "wget": ("O", "output-document"),
    "sort": ("o", "output"),
    "gcc": ("o", "output"),
    "patch": ("o", "output"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """The arguments of a program: its options in one spelling each, and the other words."""

    letters: frozenset[str]
    longs: tuple[str, ...]
    operands: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Whether one of these options is given. A long one may be cut short, as GNU programs allow."""
        return any(
            name in self.letters if len(name) == 1 else any(name.startswith(each) for each in self.longs)
            for name in names
        )


@lru_cache(maxsize=256)
def line_of(words: tuple[str, ...]) -> Line:
    letters: set[str] = set()
    longs: list[str] = []
    operands: list[str] = []
    for index, word in enumerate(words[1:], 1):
        if word == "--":
            operands.extend(words[index + 1 :])
            break
        if word.startswith("--"):
            longs.append(word[2:].partition("=")[0] or word)
        elif word.startswith("-") and len(word) > 1:
            letters.update(word[1:])
        else:
            operands.append(word)
    return Line(frozenset(letters), tuple(longs), tuple(operands))


@dataclass(frozen=True, slots=True)
class Write:
    path: str
    is_removal: bool = False


WRITERS = _TO_THE_LAST | _TO_ALL | _REMOVING | _IN_PLACE | set(_NAMED_OUTPUT) | {"dd"}


def writes_of(command: Command, home: str) -> Iterator[Write]:
    for operator, target in command.redirects:
        if operator in _WRITING and not (operator == ">&" and (target.isdecimal() or target == "-")):
            yield Write(target)
    if not command.words:
        return
    name, line = command.name, line_of(command.words)
    if name in _TO_THE_LAST:
        yield from _copied(command, line, home)
    elif name in _TO_ALL or (name in _IN_PLACE and any(map(_EDITS.match, command.words[1:]))):
        yield from map(Write, line.operands)
    elif name in _REMOVING:
        yield from (Write(path, is_removal=True) for path in line.operands)
    elif name == "dd":
        yield from (Write(word[3:]) for word in command.words if word.startswith("of="))
    elif name in _NAMED_OUTPUT and (path := option_value(command.words, *_NAMED_OUTPUT[name])):
        yield Write(path)


def _copied(command: Command, line: Line, home: str) -> Iterator[Write]:
    has_folder = command.name not in {"rsync", "scp"}
    folder = option_value(command.words, "t", "target-directory") if has_folder else ""
    sources = line.operands if folder else line.operands[:-1]
    target = folder or (line.operands[-1] if len(line.operands) > 1 else "")
    if not has_folder and ":" in target:
        return
    if target:
        yield Write(target)
    is_folder = (
        bool(folder)
        or len(sources) > 1
        or target.endswith("/")
        or target.rpartition("/")[2] in {".", ".."}
        or target in _FOLDERS | {home, command.folder}
    )
    for source in sources[:MAX_SOURCES]:
        if is_folder:
            yield Write(f"{target}/{source.rstrip('/').rpartition('/')[2]}")
        if command.name == "mv" and source != target:
            yield Write(source, is_removal=True)


def option_value(words: tuple[str, ...], letter: str, long: str) -> str:
    """The value of an option in any of its spellings, or nothing."""
    for index, word in enumerate(words[1:], 1):
        following = words[index + 1] if index + 1 < len(words) else ""
        if word == f"--{long}":
            return following
        if word.startswith(f"--{long}="):
            return word.partition("=")[2]
        if word.startswith("-") and not word.startswith("--") and letter in word:
            return word.partition(letter)[2] or following
    return ""
