"""Programs that start another program or read a script: what they would start.

The programs are data, in `programs.toml`, with a few whose arguments have a language of their own here.
Each yields an `InnerProgram` (words) or the text of a script for a shell.
"""

import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeAlias

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "yash", "fish", "csh", "tcsh"}
)
MAX_ARGUMENTS = 200

_UNKNOWN = "\ue000"
# Some of the files of a directory.
_CHOSEN = f"*{_UNKNOWN}"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_ACTIONS = frozenset({"-x", "--exec", "-X", "--exec-batch"})
_FD_VALUES = frozenset(
    {"-d", "-t", "-e", "-E", "-S", "-c", "-o", "-j", "-g", "--max-depth", "--type", "--extension"}
)
_FIND_CHOOSING = re.compile(
    r"-(?:i?(?:name|path|wholename|regex)|user|group|[acm](?:time|min)|size|newer\w*)$"
)


@dataclass(frozen=True, slots=True)
class InnerProgram:
    """A program with its words, and the directory it starts in, if another."""

    words: tuple[str, ...]
    directory: str | None = None


# A script is its text.
Inner: TypeAlias = str | InnerProgram


@dataclass(frozen=True, slots=True)
class WrapperSpec:
    """Where a wrapper's arguments name the program: an entry of `programs.toml`."""

    subcommand: str = ""
    values: frozenset[str] = frozenset()
    scripts: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    skipped: int = 0
    takes_assignments: bool = False
    takes_script: bool = False
    takes_scripts: bool = False
    takes_program: bool = True

    def inner(self, words: Sequence[str]) -> Iterator[Inner]:
        rest, given = self._split(words)
        for option, value in given:
            if option in self.scripts and value:
                # `tar --checkpoint-action=exec=script`.
                yield value.removeprefix("exec=")
        directory = next((value for option, value in given if option in self.directories), None)
        if any(option in self.looks for option, _ in given):
            return
        if self.skipped and len(rest) > 1 and rest[0] in self.scripts:
            # `flock FILE -c SCRIPT`.
            yield rest[1]
        elif self.takes_scripts:
            yield from rest
        elif rest and self.takes_script:
            yield " ".join(rest)
        elif rest and self.takes_program:
            yield InnerProgram(rest, directory)

    def _split(self, words: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[str, str | None]]]:
        """The words from the program on, and the options before them with their values."""
        index, given = 1, list[tuple[str, str | None]]()
        while index < len(words):
            word = words[index]
            if word.startswith("-") and len(word) > 1 and word != "--":
                option, value = self._option(word)
                if option in self.values and value is None:
                    index += 1
                    value = "".join(words[index : index + 1])
                given.append((option, value))
            elif word == "--" or self._is_program(word):
                index += word == "--"
                break
            index += 1
        while self.takes_assignments and index < len(words) and _ASSIGNMENT.match(words[index]):
            index += 1
        rest = tuple(words[index + self.skipped :])
        return rest[rest[:1] == ("--",) :], given

    def _is_program(self, word: str) -> bool:
        is_assignment = self.takes_assignments and _ASSIGNMENT.match(word) is not None
        return self.takes_program and word != "-" and not is_assignment

    def _option(self, word: str) -> tuple[str, str | None]:
        """The option of a word that takes a value, and its value if that is within the word."""
        if word.startswith("--"):
            name, sign, value = word.partition("=")
            whole = next((each for each in self.values if each.startswith(name)), name)
            return whole, value if sign else None
        for index, letter in enumerate(word[1:], 2):
            if f"-{letter}" in self.values | self.looks:
                return f"-{letter}", word[index:] or None
        return word, None


def inner_commands(name: str, words: tuple[str, ...], stdin: str) -> Iterator[Inner]:
    """The commands that these words start. `name` is the program's without its directory."""
    if name in SHELLS:
        yield from _shell(words, stdin)
    elif name in _OWN:
        yield from _OWN[name](words, stdin)
    for spec in _specs().get(name, ()):
        if not spec.subcommand:
            yield from spec.inner(words)
        elif spec.subcommand in words[1:]:
            yield from spec.inner(words[words.index(spec.subcommand, 1) :])


def works_itself(name: str) -> bool:
    """Whether a program also does work of its own, as `tar -I` and `rsync -e` do."""
    return any(not spec.takes_program for spec in _specs().get(name, ()))


@lru_cache(maxsize=1)
def read_programs() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "programs.toml").read_text())


@lru_cache(maxsize=1)
def _specs() -> dict[str, list[WrapperSpec]]:
    found: dict[str, list[WrapperSpec]] = {}
    for entry in read_programs()["wrappers"]:
        names, *marks = entry.split()
        options = [mark for mark in marks if mark.startswith("-")]
        words = [mark for mark in marks if mark[0].isalpha() and mark != "NAME="]

        def ending(marker: str, options: list[str] = options) -> frozenset[str]:
            return frozenset(option[:-1] for option in options if option[-1] in marker)

        spec = WrapperSpec(
            subcommand="".join(words),
            values=ending(":$@"),
            scripts=ending("$"),
            directories=ending("@"),
            looks=ending("!"),
            skipped=sum(int(mark) for mark in marks if mark[0] == "+"),
            takes_assignments="NAME=" in marks,
            takes_script="*$" in marks,
            takes_scripts="**$" in marks,
            takes_program="." not in marks,
        )
        for name in names.split("|"):
            found.setdefault(name, []).append(spec)
    return found


def _shell(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:
    is_code, index = False, 1
    while index < len(words) and words[index][:1] in {"-", "+"} and words[index] != "-":
        word = words[index]
        index += 1
        if word == "--":
            break
        if word.startswith("--"):
            index += word in {"--rcfile", "--init-file"}
        else:
            is_code = is_code or "c" in word[1:]
            index += word[-1] in "oO"
    rest = words[index:]
    if is_code and rest:
        yield rest[0]
    elif not is_code and stdin != _UNKNOWN and (not rest or rest[0] in _STDIN or "-s" in words[:index]):
        yield stdin


def _source(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:
    if words[1:2] and words[1] in _STDIN and stdin != _UNKNOWN:
        yield stdin


def _timed(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:  # noqa: ARG001
    """`at` and `batch` run their input."""
    if stdin != _UNKNOWN:
        yield stdin


def _trap(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:  # noqa: ARG001
    """`trap 'command' EXIT`. One word alone would be the signal."""
    action, *signals = words[2:] if words[1:2] == ("--",) else words[1:] or ("",)
    if signals:
        yield action


def _coproc(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:  # noqa: ARG001
    """`coproc command`, and `coproc NAME { command; }`."""
    yield InnerProgram(words[3:] if words[2:3] == ("{",) else words[1:])


def _xargs(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:
    spec = _specs()["xargs-options"][0]
    for each in spec.inner(words):
        if isinstance(each, InnerProgram):
            before = words[: len(words) - len(each.words)]
            mark = _mark(before)
            by_line = bool(mark) or any(
                re.match("-[a-zA-Z]*[0d]|--null|--delimiter", word) for word in before
            )
            given = _records(stdin, by_line=by_line)
            yield InnerProgram(_filled(each.words, mark, given) if mark else (*each.words, *given))


def _mark(words: tuple[str, ...]) -> str:
    """What `xargs` replaces by its input, if anything."""
    for index, word in enumerate(words):
        if word in {"-i", "--replace"}:
            return "{}"
        if word.startswith("-I"):
            return word[2:] or "".join(words[index + 1 : index + 2])
    return ""


def _records(text: str, *, by_line: bool) -> list[str]:
    if by_line:
        return [line for line in text.splitlines() if line][:MAX_ARGUMENTS]
    with suppress(ValueError):
        return shlex.split(text)[:MAX_ARGUMENTS]
    return text.split()[:MAX_ARGUMENTS]


def _parallel(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:
    cut = next((at for at, word in enumerate(words) if re.fullmatch(":::[:+]?", word)), len(words))
    given = [word for word in words[cut + 1 :] if not word.startswith(":::")] or stdin.split()
    for each in _specs()["parallel-options"][0].inner(words[:cut]):
        if isinstance(each, InnerProgram):
            template = each.words if any("{}" in word for word in each.words) else (*each.words, "{}")
            yield " ".join(_filled(template, "{}", [" ".join(given[:MAX_ARGUMENTS])]))


def _filled(template: Sequence[str], mark: str, values: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    single = values[0] if len(values) == 1 else _UNKNOWN
    for word in template[:MAX_ARGUMENTS]:
        if word == mark:
            found += values
        else:
            found.append(word.replace(mark, single, 1))
    return tuple(found)


def found_files(name: str, words: tuple[str, ...]) -> list[str]:
    """Patterns for the files that `find` or `fd` finds."""
    starts, chooses = _find_starts(words) if name == "find" else _fd_starts(words)
    # Only some files below: not the directory itself, except of `/`, where any file may be the system's.
    return [
        f"{each.rstrip('/')}/{_CHOSEN if chooses and each != '/' else '*'}"
        for each in starts[:MAX_ARGUMENTS] or ["."]
    ]


def _find_starts(words: tuple[str, ...]) -> tuple[Sequence[str], bool]:
    index = 1
    while index < len(words) and re.match(r"-[HLP]$|-[DO]", words[index]):
        index += 1
    end = index
    while end < len(words) and not re.match(r"[-(!),]", words[end]):
        end += 1
    chooses = any(
        _FIND_CHOOSING.match(w) and words[at + 1 : at + 2] != ("*",) for at, w in enumerate(words)
    )
    return words[index:end], chooses


def _fd_starts(words: tuple[str, ...]) -> tuple[Sequence[str], bool]:
    operands = [
        w for at, w in enumerate(words[1:]) if not w.startswith("-") and words[at] not in _FD_VALUES
    ]
    return operands[1:], bool(operands) and operands[0] not in {"", ".", "*", "^", ".*"}


def _find(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:  # noqa: ARG001
    """`find X -delete` removes X, and the `{}` of `-exec` stands for everything in X."""
    below = found_files("find", words)
    index = 1
    while index < len(words):
        if words[index] == "-delete":
            yield InnerProgram(("rm", "-r", "--", *below))
        elif words[index] in _FIND_ACTIONS:
            end = next((at for at in range(index + 1, len(words)) if words[at] in {";", "+"}), len(words))
            yield InnerProgram(_filled(words[index + 1 : end], "{}", below))
            index = end
        index += 1


def _fd(words: tuple[str, ...], stdin: str) -> Iterator[Inner]:  # noqa: ARG001
    """`fd pattern directory… -x program`, and `-X`, which take all the rest."""
    cut = next((at for at, word in enumerate(words) if word in _FD_ACTIONS), len(words))
    if template := tuple(word for word in words[cut + 1 :] if word != ";"):
        template = template if any("{}" in word for word in template) else (*template, "{}")
        yield InnerProgram(_filled(template, "{}", found_files("fd", words[:cut])))


_OWN = {
    "find": _find,
    "fd": _fd,
    "fdfind": _fd,
    "xargs": _xargs,
    "parallel": _parallel,
    "trap": _trap,
    "coproc": _coproc,
    "source": _source,
    ".": _source,
    "at": _timed,
    "batch": _timed,
}
