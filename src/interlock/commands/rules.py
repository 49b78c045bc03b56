"""A rule about commands: what it matches, why, and what to do instead. `judge.py` has them all."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from interlock.commands.critical_paths import (
    CriticalPathClassifier,
    PathClass,
    matches_everything,
    normalize_path,
)
from interlock.commands.expansion import is_known, unmarked
from interlock.commands.extraction import ExtractedCommand
from interlock.commands.file_writes import ParsedArguments, find_writes, option_value, parse_arguments
from interlock.commands.word_parser import PATTERN, SOME, UNKNOWN

MAX_PATTERN = 64

# Services without which the machine cannot be reached.
_CARRYING = frozenset({"init", "systemd", "sshd", "launchd", "dbus-daemon"})
_CARRYING_UNITS = re.compile(
    r"(?:ssh|sshd|dbus|dbus-broker|network|networking|NetworkManager|wpa_supplicant|systemd-.+)"
    r"(?:\.service|\.socket)?"
)
_ENDING_TARGETS = re.compile(
    r"(?:poweroff|reboot|halt|kexec|shutdown|rescue|emergency|runlevel[016])\.target"
)
# A pattern without any literal letter matches every process.
_SAYS_NOTHING = re.compile(r"(?:\[[^\]]*\]|\\[wWdDsSbB]|[.^$*+?|()])*")

_STOPPING_MESSAGE = re.compile(
    r"(?:org\.freedesktop\.\w+\.Manager\.)?"
    r"(?:Reboot|PowerOff|Halt|Suspend|Hibernate|HybridSleep|KExec|SoftReboot)(?:WithFlags)?"
)
_MOUNT_VALUES = re.compile(r"-[A-Za-z]*[otLUNO]|--(?:options|types|label|uuid|namespace|test-opts)")
_IPTABLES = frozenset("ADFINPRXZ")
_IP_OBJECTS = ("link", "address", "route", "rule")
NETWORK_PROGRAMS = (
    "ip",
    "ifconfig",
    "iptables",
    "ip6tables",
    "nft",
    "ufw",
    "nmcli",
    "rfkill",
    "route",
    "tc",
)
_NETWORK_WORDS = {
    "nmcli": frozenset({"off", "down", "delete", "del", "disconnect"}),
    "rfkill": frozenset({"block", "toggle"}),
    "route": frozenset({"add", "del", "flush"}),
    "tc": frozenset({"add", "del", "delete", "replace", "change"}),
}
_ROOT = frozenset({"0", "+0", "root"})
# Without one of these `machinectl` only shows or manages containers.
_SHELLS_OF_MACHINES = frozenset({"shell", "login"})
# Options by which a storage program stops what it manages, or makes it sleep or unwritable.
_STOPPING = {
    "mdadm": ("S", "stop", "f", "fail", "r", "remove"),
    "blockdev": ("setro", "setrw"),
    "hdparm": ("y", "Y", "trim-sector-ranges", "make-bad-sector", "write-sector", "repair-sector"),
    "fsfreeze": ("f", "freeze"),
}
_BOOT_ENTRIES = (*"aABcCdDnNoOt", "active", "delete-bootnum", "create", "bootnext", "bootorder", "timeout")

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
class CommandRule:
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
    # Naming many files of a directory, by a pattern or a search, counts as `recursive`.
    names_suffice: bool = False
    operand: PathClass | None = None
    # Only operands before the last are removed, or only the mount point counts.
    is_source: bool = False
    is_target: bool = False
    written: PathClass | None = None
    test: Callable[[ExtractedCommand, ParsedArguments], bool] | None = None

    @property
    def is_by_name(self) -> bool:
        """Whether the program alone decides: then it must be the system's, not a script of the project."""
        return self.operand is None and self.written is None

    def matches(self, command: ExtractedCommand, places: CriticalPathClassifier) -> bool:
        if self.programs and not self._is_program(command):
            return False
        line = parse_arguments(command.words)
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
            for write in find_writes(command, places.home)
        )

    def _is_program(self, command: ExtractedCommand) -> bool:
        if command.words[1:] in {("--help",), ("--version",)}:
            return False
        if self.is_by_name and (command.is_function or _is_local(command)):
            return False
        name = command.name
        if matches_everything(name):
            # A pattern for any program names none in particular.
            return False
        if PATTERN in name and len(name) <= MAX_PATTERN:
            return any(fnmatchcase(program, unmarked(name)) for program in self.programs)
        return any(fnmatchcase(name, program) for program in self.programs)

    def _has_options(self, command: ExtractedCommand, line: ParsedArguments) -> bool:
        if self.unless and line.has(*self.unless):
            return False
        is_recursive = command.is_recursive or (self.names_suffice and any(map(_names_many, line.operands)))
        return all(line.has(*group) or ("recursive" in group and is_recursive) for group in self.options)

    def _has_subcommand(self, line: ParsedArguments) -> bool:
        if self.subcommands and not set(line.operands[:3]) & set(self.subcommands):
            return False
        return not set(line.operands[1:2]) & set(self.not_subcommands)

    def _operands(self, command: ExtractedCommand, line: ParsedArguments) -> tuple[str, ...]:
        if self.is_source and not option_value(command.words, "t", "target-directory"):
            return line.operands[:-1]
        return _mounted_on(command.words) if self.is_target else line.operands


def _names_many(word: str) -> bool:
    name = word.rstrip("/").rpartition("/")[2]
    return SOME in name or PATTERN in name or matches_everything(word)


def _is_local(command: ExtractedCommand) -> bool:
    """Whether the program's path is outside the system directories, or starts with unknown text."""
    if "/" not in command.program:
        return command.program.startswith(UNKNOWN)
    path = normalize_path(command.program, command.folder)
    return path is None or (
        path[:-1] not in _PROGRAM_FOLDERS and is_known(command.program.rpartition("/")[0])
    )


def _mounted_on(words: tuple[str, ...]) -> tuple[str, ...]:
    """The last operand that is not an option's value, unless it is a usual mount point."""
    operands = [
        word
        for before, word in pairwise(words)
        if not word.startswith("-") and not _MOUNT_VALUES.fullmatch(before)
    ]
    return tuple(word for word in operands[-1:] if not word.startswith(("/mnt", "/media")))


# -- tests that need more than options and operands --


def signals_everything(command: ExtractedCommand, line: ParsedArguments) -> bool:  # noqa: ARG001
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


def signals_system(command: ExtractedCommand, line: ParsedArguments) -> bool:
    user = option_value(command.words, "u", "euid") or option_value(command.words, "U", "uid")
    users = {"root", "0", "+0"}
    if user in users or option_value(command.words, "u", "user") in users:
        return True
    if _CARRYING & set(line.operands):
        return True
    by_pattern = command.name == "pkill" or (command.name == "killall" and line.has("r", "regexp"))
    names_user = line.has("u", "U", "euid", "uid", "user")
    return (
        by_pattern
        and not names_user
        and any(_SAYS_NOTHING.fullmatch(unmarked(word)) for word in line.operands)
    )


def stops_services(command: ExtractedCommand, line: ParsedArguments) -> bool:
    """A unit that carries the machine is stopped, or a target is started that ends it."""
    verbs, units = line.operands[:1], line.operands[1:]
    if command.name != "systemctl":
        verbs, units = units[:1], verbs
    if {"stop", "disable", "mask", "kill"} & set(verbs):
        return any(
            _CARRYING_UNITS.fullmatch(unit) or fnmatchcase("sshd.service", unmarked(unit)[:MAX_PATTERN])
            for unit in units
        )
    return verbs in {("start",), ("set-default",)} and any(map(_ENDING_TARGETS.fullmatch, units))


def changes_kernel(command: ExtractedCommand, line: ParsedArguments) -> bool:
    if command.name != "sysctl":
        return bool(line.operands)
    return line.has("w", "write", "p", "load", "system") or any("=" in word for word in line.operands)


def changes_network(command: ExtractedCommand, line: ParsedArguments) -> bool:
    """What only shows the state of the network passes."""
    first, following = "".join(line.operands[:1]), line.operands[1:]
    match command.name:
        case "ip":
            is_known = bool(first) and any(each.startswith(first) for each in _IP_OBJECTS)
            return is_known and bool({"del", "delete", "flush", "down"} & set(following))
        case "ifconfig":
            return "down" in following
        case "iptables" | "ip6tables":
            return bool(_IPTABLES & line.letters) or line.has(
                "flush", "append", "delete", "insert", "policy"
            )
        case "nft":
            changes = first in {"add", "create", "delete", "destroy", "flush", "insert", "replace", "reset"}
            return (changes or line.has("f", "file")) and not line.has("c", "check")
        case name if name in _NETWORK_WORDS:
            return bool(_NETWORK_WORDS[name] & set(line.operands))
        case "ufw":
            return bool(first) and first not in {"status", "show", "version", "app", "help"}
        case _:
            return not line.has("t", "test")


def detaches_storage(command: ExtractedCommand, line: ParsedArguments) -> bool:
    match command.name:
        case "dmsetup":
            return bool({"remove", "remove_all", "wipe_table", "suspend"} & set(line.operands[:1]))
        case "vgchange" | "lvchange":
            return option_value(command.words, "a", "activate").startswith("n")
        case name:
            return line.has(*_STOPPING[name])


def changes_boot(command: ExtractedCommand, line: ParsedArguments) -> bool:
    match command.name:
        case "efibootmgr":
            return line.has(*_BOOT_ENTRIES)
        case "flashrom":
            return line.has("w", "write", "E", "erase")
        case _:
            return True


def requests_shutdown(command: ExtractedCommand, line: ParsedArguments) -> bool:  # noqa: ARG001
    """A message to the manager of sessions or services that stops the machine."""
    return any(map(_STOPPING_MESSAGE.fullmatch, command.words[1:]))


def suspends_machine(command: ExtractedCommand, line: ParsedArguments) -> bool:  # noqa: ARG001
    """`rtcwake` sends the machine to sleep, except in the modes that only set or show its clock."""
    return option_value(command.words, "m", "mode") not in {"no", "on", "disable", "show"}


def stops_system(command: ExtractedCommand, line: ParsedArguments) -> bool:  # noqa: ARG001
    return bool({"0", "1", "6", "s", "S", "single"} & set(line.operands))


def sets_user_id(command: ExtractedCommand, line: ParsedArguments) -> bool:
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


def becomes_root(command: ExtractedCommand, line: ParsedArguments) -> bool:
    if command.name == "machinectl":
        return bool(_SHELLS_OF_MACHINES & set(line.operands[:1]))
    return any(option_value(command.words, "", each) in _ROOT for each in ("reuid", "ruid", "euid"))


def changes_accounts(command: ExtractedCommand, line: ParsedArguments) -> bool:
    """What only shows or checks something passes."""
    match command.name:
        case "passwd":
            return not (line.has("S", "status") and line.letters <= {"S", "a"})
        case "chage":
            return not line.has("l", "list")
        case "visudo":
            return not line.has("c", "check")
        case _:
            return True


def moves_to_trash(command: ExtractedCommand, line: ParsedArguments) -> bool:
    return command.name != "gio" or bool({"trash", "remove"} & set(line.operands[:1]))


def removes_packed(command: ExtractedCommand, line: ParsedArguments) -> bool:
    match command.name:
        case "tar" | "bsdtar":
            return line.has("remove-files")
        case "zip":
            return line.has("m", "move")
        case _:
            return "-sdel" in command.words


def redirects_to_all(command: ExtractedCommand, line: ParsedArguments) -> bool:  # noqa: ARG001
    return any(matches_everything(target) for operator, target in command.redirects if operator != "<")


def changes_jobs(command: ExtractedCommand, line: ParsedArguments) -> bool:  # noqa: ARG001
    """All but `-l`: without arguments it takes the jobs from its input."""
    return not line.has("l")


def deletes_elsewhere(command: ExtractedCommand, line: ParsedArguments) -> bool:  # noqa: ARG001
    return any(word.startswith("--del") for word in command.words)
