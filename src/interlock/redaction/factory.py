"""Builds the redactor of this process from its own secrets and the configured rules."""

import os
from collections.abc import Collection
from pathlib import Path

from interlock.config.settings import Settings, load_settings
from interlock.config.settings_report import secrets_of, secrets_of_environment
from interlock.core.errors import ConfigurationError
from interlock.redaction.non_secrets import is_placeholder
from interlock.redaction.redactor import Redactor, check_examples
from interlock.redaction.rule_loader import (
    InvalidRules,
    RedactionRule,
    check_pattern,
    load_builtin_rules,
    load_rules,
    refuse_duplicate_ids,
)
from interlock.redaction.secret_names import is_secret_name

# Variables of every shell whose names only end like a secret's.
_FOLDERS = frozenset({"PWD", "OLDPWD"})
# A shorter value of another program's variable could be any word.
_MIN_VARIABLE = 8


def build_redactor(settings: Settings) -> Redactor:
    return Redactor(process_secrets(settings), configured_rules(settings))


def build_crash_redactor() -> Redactor:
    """For a crash message; the settings may be what was wrong."""
    try:
        return build_redactor(load_settings())
    except ConfigurationError:
        return Redactor([*secrets_of_environment(), *_surroundings()])


def process_secrets(settings: Settings) -> list[str]:
    """Every secret of this process: in its settings, and in its environment."""
    return [*secrets_of(settings), *_surroundings()]


def _surroundings() -> list[str]:
    return [value for name, value in os.environ.items() if _is_secret_variable(name, value)]


def _is_secret_variable(name: str, value: str) -> bool:
    if not is_secret_name(name) or name in _FOLDERS or len(value) < _MIN_VARIABLE:
        return False
    return not value.startswith(("/", "~", ".")) and not is_placeholder(os.fsencode(value))


def configured_rules(settings: Settings) -> tuple[RedactionRule, ...]:
    try:
        return select_rules(settings.redaction.rules, settings.redaction.off)
    except InvalidRules as error:
        raise ConfigurationError(f"REDACTION_RULES: {error}") from None


def select_rules(own: Path | None = None, off: Collection[str] = ()) -> tuple[RedactionRule, ...]:
    """The built-in rules and the operator's own, whose examples must hold or the start fails."""
    added = load_rules(own) if own else ()
    rules = (*load_builtin_rules(), *added)
    refuse_duplicate_ids(rules)
    for rule in added:
        check_pattern(rule)
        check_examples(rule)
    if unknown := set(off) - {rule.id for rule in rules}:
        raise InvalidRules(f"there is no rule {min(unknown)!r} to switch off")
    return tuple(rule for rule in rules if rule.id not in off)
