"""Judges shell commands: the strictest decision of all rules about any command in the text.

It is advice in addition to the sandbox: what the rules do not see, the kernel confines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.commands.parse import UNKNOWN, SimpleCommand, UnreadableCommand
from interlock.commands.parse_process import parse
from interlock.commands.rules import (
    CommandRule,
    Decision,
    Situation,
    builtin_rules,
    find_writes,
    load_rules,
    normalize_path,
    parse_prefix,
)
from interlock.core.text import escape_control_characters
from interlock.sandbox.protected import ProtectedName, fold_name, parse_protected_names

SHOWN = 160

_WRITE_A_SCRIPT = "Write it as a script file with write_file, and run that file."


@dataclass(frozen=True, slots=True)
class RefusedCommand:
    """Which rule refused which part of a command, why, and the nearest allowed way."""

    rule: str
    subcommand: str
    message: str
    next_action: str
    decision: Decision = Decision.deny


class CommandJudge:
    """The built-in rules, with the operator's own, denylist and protected names, for one home directory.

    `rule_files` are (name, text) of the operator's files.
    """

    def __init__(
        self,
        denylist: Sequence[str],
        protected_names: tuple[str, ...],
        home: object,
        rule_files: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._home = str(home)
        self._protected = parse_protected_names(protected_names)
        self._prefixes = tuple(map(parse_prefix, denylist))
        operators = (rule for name, text in rule_files for rule in load_rules(text, name))
        denied = (
            _rule(
                f"TOOL_BASH_DENYLIST: {each.text}",
                f"the operator denies {each.text!r}",
                "Use a different approach, or tell the user that this command is denied.",
                prefix=(each,),
            )
            for each in self._prefixes
            if not each.fault
        )
        self._rules = (*builtin_rules(), *operators, *denied)

    @property
    def unmatchable_entries(self) -> tuple[tuple[str, str], ...]:
        """Entries of the denylist that can never match, and why."""
        return tuple((each.text, each.fault) for each in self._prefixes if each.fault)

    def judge(
        self,
        command: str,
        directory: object,
        *,
        mode: str = "",
        agent: str = "",
        unknown: Decision = Decision.allow,
    ) -> RefusedCommand | None:
        """Why a command is refused, or None. `unknown` decides about commands that no rule matches."""
        try:
            commands = parse(command, self._home, str(directory))
        except UnreadableCommand as error:
            shown = _shown(command)
            return RefusedCommand(
                "unreadable", shown, f"the command cannot be judged: {error}", _WRITE_A_SCRIPT
            )
        situation = Situation(self._home, str(directory), str(directory), mode, agent)
        found = [
            refusal
            for each in commands
            if (refusal := self._judge_one(each, situation, unknown)) is not None
        ]
        return max(found, key=lambda refusal: refusal.decision.rank, default=None)

    def _judge_one(
        self, command: SimpleCommand, situation: Situation, unknown: Decision
    ) -> RefusedCommand | None:
        there = replace(situation, directory=command.directory)
        matching = (rule for rule in self._rules if _is_about(rule, command, there))
        strictest = max(matching, key=lambda rule: rule.decision.rank, default=None)
        if strictest is not None and strictest.decision is not Decision.allow:
            return _refused(strictest, command)
        if self._protected and (protected := self._protected_by(command)) is not None:
            name = escape_control_characters(protected.name)
            reason = f"it writes to {name}, and a program may run what is written there"
            instead = "Tell the user what to change; they can do it themselves."
            return _refused(_rule("protected-name", reason, instead), command)
        if strictest is None and unknown is not Decision.allow and not command.is_wrapper:
            instead = "Use a command that the rules allow, or tell the user what is needed."
            return _refused(
                _rule("shell.unknown", "no rule allows this command", instead, decision=unknown), command
            )
        return None

    def _protected_by(self, command: SimpleCommand) -> ProtectedName | None:
        for write in find_writes(command, self._home):
            # If the start of a path is unknown, its end still identifies it.
            path = normalize_path(write.path, command.directory)
            if path is None:
                path = normalize_path(write.path.lstrip(UNKNOWN), "/") or ()
            spelled = tuple(map(fold_name, path))
            for name in self._protected:
                # Removing a whole repository is the person's decision; replacing it is not.
                if name.covers(spelled) and (not write.is_removal or name.anywhere.matches_whole(spelled)):
                    return name
        return None


def _is_about(rule: CommandRule, command: SimpleCommand, situation: Situation) -> bool:
    # A variable set for a program may make it run something else.
    is_off = rule.decision is Decision.allow and command.has_assignments
    return not is_off and rule.matches(command, situation) and rule.is_in_scope(situation)


def _rule(name: str, reason: str, instead: str, **others: Any) -> CommandRule:
    """A rule that is in no file."""
    given: dict[str, Any] = {"decision": Decision.deny} | others
    return CommandRule.model_construct(name=name, reason=reason, instead=instead, **given)


def _refused(rule: CommandRule, command: SimpleCommand) -> RefusedCommand:
    shown = _shown(command.source or " ".join(command.words))
    label = escape_control_characters(rule.label)
    why = escape_control_characters(rule.reason)
    if rule.decision is Decision.ask:
        why += "; it needs an approval, and approvals cannot be given yet"
    instead = escape_control_characters(rule.instead)
    return RefusedCommand(rule.name, shown, f"{shown}: {why} ({label})", instead, rule.decision)


def _shown(text: str) -> str:
    shown = escape_control_characters(text.replace(UNKNOWN, "…"))
    return shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 1]}…"
