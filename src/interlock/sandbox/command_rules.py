"""A rule about commands: what it matches, why, and what to do instead. `command_list.py` has them all."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from interlock.sandbox.command_places import Place, Places, names_everything, resolved
from interlock.sandbox.command_writes import Line, line_of, option_value, writes_of
from interlock.sandbox.shell_commands import Command
from interlock.sandbox.shell_values import is_known, unmarked
from interlock.sandbox.shell_words import PATTERN

MAX_PATTERN = 64

_PROGRAM_FOLDERS = frozenset(
    {
        ("bin",),
        ("sbin",),
        ("usr", "bin"),
        ("usr", "sbin"),
        ("usr", "local", "bin"),
        ("usr", "local", "sbin"),
    }
)


@dataclass(frozen=True, slots=True)
class Rule:
    """Everything that is given must hold. Examples are judged when the rules are loaded."""

    name: str
    why: str
    instead: str
    refused: tuple[str, ...]
    allowed: tuple[str, ...]
    # The program; none means any. A name may be a pattern.
    programs: tuple[str, ...] = ()
    # Of each group one option must be given, in any spelling; `recursive` is also what `find` does.
    options: tuple[tuple[str, ...], ...] = ()
    # With one of these options it is harmless.
    unless: tuple[str, ...] = ()
    # The first operand must be one of these, or none of those.
    subcommands: tuple[str, ...] = ()
    not_subcommands: tuple[str, ...] = ()
    # To name everything in a folder is as good as `recursive`.
    names_suffice: bool = False
    operand: Place | None = None
    # Only what stands before the last operand is taken away.
    is_source: bool = False
    written: Place | None = None
    test: Callable[[Command, Line], bool] | None = None

    @property
    def is_by_name(self) -> bool:
        """Whether the program alone decides: then it must be the system's, not a script of the project."""
        return self.operand is None and self.written is None

    def matches(self, command: Command, places: Places) -> bool:
        if self.programs and not self._is_program(command):
            return False
        line = line_of(command.words)
        if not self._has_options(command, line) or not self._has_subcommand(line):
            return False
        if self.test is not None and not self.test(command, line):
            return False
        if self.operand is not None and not any(
            places.holds(self.operand, word, command.folder) for word in self._operands(command, line)
        ):
            return False
        return self.written is None or any(
            places.holds(self.written, write.path, command.folder)
            for write in writes_of(command, places.home)
        )

    def _is_program(self, command: Command) -> bool:
        if command.words[1:] in {("--help",), ("--version",)}:
            return False
        if self.is_by_name and _is_local(command):
            return False
        name = command.name
        if names_everything(name):
            # One program after another, whatever they are.
            return False
        if PATTERN in name and len(name) <= MAX_PATTERN:
            return any(fnmatchcase(program, unmarked(name)) for program in self.programs)
        return any(fnmatchcase(name, program) for program in self.programs)

    def _has_options(self, command: Command, line: Line) -> bool:
        if self.unless and line.has(*self.unless):
            return False
        is_recursive = command.is_recursive or (
            self.names_suffice and any(map(names_everything, line.operands))
        )
        return all(line.has(*group) or ("recursive" in group and is_recursive) for group in self.options)

    def _has_subcommand(self, line: Line) -> bool:
        if self.subcommands and not set(line.operands[:3]) & set(self.subcommands):
            return False
        return not set(line.operands[1:2]) & set(self.not_subcommands)

    def _operands(self, command: Command, line: Line) -> tuple[str, ...]:
        if self.is_source and not option_value(command.words, "t", "target-directory"):
            return line.operands[:-1]
        return line.operands


def _is_local(command: Command) -> bool:
    """A program that is named by a path outside the system's folders."""
    if "/" not in command.program:
        return False
    path = resolved(command.program, command.folder)
    return path is None or (
        path[:-1] not in _PROGRAM_FOLDERS and is_known(command.program.rpartition("/")[0])
    )


# -- tests that need more than options and operands --


def signals_everything(command: Command, line: Line) -> bool:  # noqa: ARG001
    """`kill` of every process (-1) or of the first one, with any signal but the harmless 0."""
    words = list(command.words[1:])
    signal = "TERM"
    if words and words[0] in {"-s", "-n"}:
        signal, words = (words[1] if len(words) > 1 else ""), words[2:]
    elif words and words[0].startswith("-") and words[0] != "--":
        signal, words = words[0][1:], words[1:]
        if not words:
            return signal == "1"
    if signal in {"l", "L", "0"}:
        return False
    return bool({"-1", "1"} & set(words))


def signals_system(command: Command, line: Line) -> bool:
    user = option_value(command.words, "u", "euid") or option_value(command.words, "U", "uid")
    users = {"root", "0", "+0"}
    if user in users or option_value(command.words, "u", "user") in users:
        return True
    return bool({"init", "systemd", "sshd", "launchd", "dbus-daemon"} & set(line.operands))


def stops_system(command: Command, line: Line) -> bool:  # noqa: ARG001
    return bool({"0", "1", "6", "s", "S", "single"} & set(line.operands))


def sets_user_id(command: Command, line: Line) -> bool:
    """A mode that lets a file run as its owner: `u+s`, `+s`, `4755`."""
    mode = (
        option_value(command.words, "m", "mode") if command.name != "chmod" else "".join(line.operands[:1])
    )
    digits = mode.lstrip("0=")
    if digits.isdecimal():
        return len(digits) == 4 and digits[0] in "4567"
    return any(
        "s" in change.partition(sign)[2] and not change.startswith("g")
        for change in mode.split(",")
        for sign in "+="
        if sign in change and not change.startswith("o")
    )


def changes_jobs(command: Command, line: Line) -> bool:
    return not line.has("l") and bool(len(command.words) > 1 or command.stdin)


def deletes_elsewhere(command: Command, line: Line) -> bool:  # noqa: ARG001
    return any(word.startswith("--del") for word in command.words)
