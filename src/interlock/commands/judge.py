"""Judges shell commands: refuses what is plainly destructive, or denied by the operator.

It parses a command as a shell would and judges every program in it. It is advice in addition to the
sandbox: what it cannot see is left to the sandbox, and ordinary work is never refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from interlock.commands.critical_paths import CriticalPathClassifier, normalize_path
from interlock.commands.denylist import DenylistEntry, parse_denylist_entry
from interlock.commands.destructive_command_rules import BUILTIN_RULES
from interlock.commands.expansion import unmarked
from interlock.commands.extraction import ExtractedCommand, extract_commands
from interlock.commands.file_writes import WRITERS, find_writes
from interlock.commands.rules import CommandRule
from interlock.commands.word_parser import UNKNOWN
from interlock.core.errors import ConfigurationError
from interlock.core.text import escape_control_characters
from interlock.sandbox.protected import ProtectedName, fold_name, parse_protected_names

SHOWN = 160
MAX_CRUDE_COMMANDS = 500
MAX_CRUDE_WORDS = 20

_EXAMPLE_HOME, _EXAMPLE_FOLDER = "/home/ann", "/home/ann/ws"
_PIECES = re.compile(r"[\n;&|(){}`]+|\$\(")
_QUOTES = re.compile(r"[\"'\\]")
_TARGET = re.compile(r">+\|?\s*([^\s;&|<>()]+)")
_PATTERNED = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class RefusedCommand:
    """Which rule refused which part of a command, why, and the nearest allowed way."""

    rule: str
    subcommand: str
    message: str
    next_action: str


class CommandJudge:
    """Judges commands for one home directory, with the operator's denylist and protected names."""

    def __init__(self, denylist: Sequence[str], protected_names: tuple[str, ...], home: Path | str) -> None:
        self._rules = load_checked_rules()
        self._entries = tuple(parse_denylist_entry(text) for text in denylist)
        self._protected = parse_protected_names(protected_names)
        self._home = str(home)

    @property
    def unmatchable_entries(self) -> tuple[tuple[str, str], ...]:
        """Entries of the denylist that can never match, and why."""
        return tuple((entry.text, entry.fault) for entry in self._entries if entry.fault)

    def judge(self, command: str, working_folder: Path | str) -> RefusedCommand | None:
        folder = str(working_folder)
        places = CriticalPathClassifier(self._home, folder)
        seen = extract_commands(command, self._home, folder)
        for found in seen.commands:
            if refusal := self._judged(found, places):
                return refusal
        for text, inside in seen.unread:
            for found in self._crude_commands(text, inside):
                if refusal := self._judged(found, places):
                    return refusal
        return None

    def _judged(self, command: ExtractedCommand, places: CriticalPathClassifier) -> RefusedCommand | None:
        for rule in self._rules.about(command):
            if rule.matches(command, places):
                return _refused(rule.name, command, rule.why, rule.instead)
        for entry in self._entries:
            if entry.matches(command):
                return _denied(entry, command)
        if self._protected and (protection := self._protected_by(command)):
            return _refused(
                "protected-name",
                command,
                f"it writes to {escape_control_characters(protection.name)}, and a program may run "
                "what is written there",
                "Tell the user what to change; they can do it themselves.",
            )
        return None

    def _protected_by(self, command: ExtractedCommand) -> ProtectedName | None:
        for write in find_writes(command, self._home):
            # If the start of a path is unknown, its end still identifies it.
            path = (
                normalize_path(write.path, command.folder)
                or normalize_path(write.path.lstrip(UNKNOWN), "/")
                or ()
            )
            spelled = tuple(fold_name(unmarked(part)) for part in path)
            for rule in self._protected:
                # Removing a whole repository is the person's decision; replacing it is not.
                if rule.covers(spelled) and (not write.is_removal or rule.anywhere.matches_whole(spelled)):
                    return rule
        return None

    def _crude_commands(self, text: str, folder: str) -> Iterator[ExtractedCommand]:
        """Commands of an unparsable text, split at everything that might separate commands.

        Every word that names a program of a rule is taken as one, so that a rule that might apply does.
        """
        count = 0
        for piece in _PIECES.split(text):
            words = _QUOTES.sub(" ", piece.replace(UNKNOWN, "")).split()
            redirects = tuple((">", target) for target in _TARGET.findall(_QUOTES.sub("", piece)))
            if redirects:
                yield ExtractedCommand((), redirects, folder, piece.strip())
            for index, word in enumerate(words):
                if count < MAX_CRUDE_COMMANDS and self._names_program(word):
                    count += 1
                    arguments = tuple(words[index : index + MAX_CRUDE_WORDS])
                    yield ExtractedCommand(arguments, (), folder, " ".join(arguments))

    def _names_program(self, word: str) -> bool:
        name = word.rpartition("/")[2]
        return (
            self._rules.knows(name)
            or name in WRITERS
            or any(name == entry.program.rpartition("/")[2] for entry in self._entries)
        )


class CommandRuleSet:
    """The rules by program: most programs have none."""

    def __init__(self, rules: Sequence[CommandRule]) -> None:
        self._all = tuple(rules)
        self._any = tuple(rule for rule in rules if not rule.programs)
        named: dict[str, list[CommandRule]] = {}
        for rule in rules:
            for program in rule.programs:
                named.setdefault(program, []).append(rule)
        self._patterns = tuple(
            rule for name, found in named.items() if _PATTERNED & set(name) for rule in found
        )
        self._prefixes = tuple(name.rstrip("*") for name in named if _PATTERNED & set(name))
        self._named = {name: tuple(found) for name, found in named.items()}

    def about(self, command: ExtractedCommand) -> Sequence[CommandRule]:
        name = command.name
        if _PATTERNED & set(name):
            return self._all
        named = self._named.get(name, ())
        if name.startswith(self._prefixes):
            named = (*named, *self._patterns)
        return (*named, *self._any) if command.redirects or name in WRITERS else named

    def knows(self, name: str) -> bool:
        return name in self._named or name.startswith(self._prefixes)


@lru_cache(maxsize=1)
def load_checked_rules() -> CommandRuleSet:
    """The built-in rules. A rule that misjudges its own examples prevents the start."""
    check_examples(BUILTIN_RULES)
    return CommandRuleSet(BUILTIN_RULES)


def check_examples(rules: Sequence[CommandRule]) -> None:
    places = CriticalPathClassifier(_EXAMPLE_HOME, _EXAMPLE_FOLDER)
    for rule in rules:
        for is_refused, examples in ((True, rule.refused), (False, rule.allowed)):
            for example in examples:
                seen = extract_commands(example, _EXAMPLE_HOME, _EXAMPLE_FOLDER)
                matched = any(rule.matches(command, places) for command in seen.commands)
                if matched is not is_refused or seen.unread:
                    expected = "match" if is_refused else "not match"
                    raise ConfigurationError(
                        f"the command rule {rule.name} is wrong: it should {expected} {example!r}"
                    )


def _denied(entry: DenylistEntry, command: ExtractedCommand) -> RefusedCommand:
    return _refused(
        f"TOOL_BASH_DENYLIST: {entry.text}",
        command,
        f"the operator denies {escape_control_characters(entry.text)!r}",
        "Use a different approach, or tell the user that this command is denied.",
    )


def _refused(rule: str, command: ExtractedCommand, why: str, instead: str) -> RefusedCommand:
    shown = escape_control_characters(unmarked(command.source))
    shown = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 1]}…"
    return RefusedCommand(rule, shown, f"{shown}: {why} (rule {escape_control_characters(rule)})", instead)
