"""What the redactor of this process knows: its own secrets, and the rules that hold here."""

import os
from collections.abc import Collection
from pathlib import Path

from interlock.config.describe import secrets_of, secrets_of_environment
from interlock.config.settings import Settings, load_settings
from interlock.infra.errors import ConfigurationError
from interlock.redaction.harmless import is_placeholder
from interlock.redaction.names import is_secret_name
from interlock.redaction.redactor import Redactor
from interlock.redaction.rulebook import (
    BadRules,
    Rule,
    built_in_rules,
    check_pattern,
    load_rules,
    refuse_doubles,
)
from interlock.redaction.scanner import check_examples

# Variables of every shell whose names only end like a secret's.
_FOLDERS = frozenset({"PWD", "OLDPWD"})
# A shorter value of somebody else's variable could be any word.
_MIN_VARIABLE = 8


def redactor_for(settings: Settings) -> Redactor:
    return Redactor(secrets_held(settings), rules_for(settings))


def redactor_for_faults() -> Redactor:
    """For the last words of a process; its settings may be what was wrong."""
    try:
        return redactor_for(load_settings())
    except ConfigurationError:
        return Redactor([*secrets_of_environment(), *_surroundings()])


def secrets_held(settings: Settings) -> list[str]:
    """Every secret of this process: in its settings, and in its environment whosever it is."""
    return [*secrets_of(settings), *_surroundings()]


def _surroundings() -> list[str]:
    return [value for name, value in os.environ.items() if _is_secret_variable(name, value)]


def _is_secret_variable(name: str, value: str) -> bool:
    if not is_secret_name(name) or name in _FOLDERS or len(value) < _MIN_VARIABLE:
        return False
    return not value.startswith(("/", "~", ".")) and not is_placeholder(os.fsencode(value))


def rules_for(settings: Settings) -> tuple[Rule, ...]:
    try:
        return choose_rules(settings.redaction.rules, settings.redaction.off)
    except BadRules as error:
        raise ConfigurationError(f"REDACTION_RULES: {error}") from None


def choose_rules(own: Path | None = None, off: Collection[str] = ()) -> tuple[Rule, ...]:
    """The built-in ones and an operator's own, which do what their examples say or nothing starts."""
    added = load_rules(own) if own else ()
    rules = (*built_in_rules(), *added)
    refuse_doubles(rules)
    for rule in added:
        check_pattern(rule)
        check_examples(rule)
    if unknown := set(off) - {rule.id for rule in rules}:
        raise BadRules(f"there is no rule {min(unknown)!r} to switch off")
    return tuple(rule for rule in rules if rule.id not in off)
