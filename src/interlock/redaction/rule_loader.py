"""Redaction rules: patterns of secrets, as data with examples, and how they are loaded and checked."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]  # the only way to know a pattern's least length
from types import MappingProxyType
from typing import Any

import re2

from interlock.redaction.candidate import Check
from interlock.redaction.checks import CHECKS
from interlock.redaction.prepared_rules import FOLDER, load_documents
from interlock.redaction.re2_engine import options

# A rule with shorter matches would mask ordinary words.
MIN_MATCH_LENGTH = 4
MAX_RULES = 1000

SHARED = "fragments.toml"
# One file for each family of rules.
WRITTEN = (
    "names.toml",
    "prose.toml",
    "commands.toml",
    "web.toml",
    "code.toml",
    "keys.toml",
    "vendors.toml",
)

_REPEATED = re.compile(r"[^\x00-\x7f](?=[?*+{])")
_REFERENCE = re.compile(r"\(\?&([a-z_]+)\)")
_FIELDS = frozenset({"id", "what", "pattern", "check", "after", "must", "must_not"})
_WIDE_CLASS = re.compile(r"(?<!\\)\[[^\]]*[^\x00-\x7f][^\]]*\]")
# What a pattern's own characters are; `\x1b` begins a terminal's colour.
_ESCAPED, _CLASS = re.compile(r"\\(?:[^sSWDnrtfvx]|x1b)"), re.compile(r"\[(?!\^)[^\]]*\]")
_IN_A_LINE, _ACROSS_LINES = (
    re.compile(r"\[\^[^\]]*\\[ns][^\]]*\]"),
    re.compile(r"\[\^|\\[nrsvfxWD]|\(\?\w*s|\n"),
)
_OPEN = re.compile(r"[^!-~]|\.|\[\^|\\")


class InvalidRules(ValueError):
    """What is wrong with a file of rules, in one line."""


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """Groups of the pattern capture the secret in a match; without any, all of it is secret.

    `after` must be found in the line before the match. In examples that `must` match, all middle pieces are
    masked.
    """

    id: str
    what: str
    pattern: str
    check: Check | None = None
    after: str | None = None
    must: tuple[tuple[str, ...], ...] = ()
    must_not: tuple[str, ...] = ()
    # What every match begins with, for streams; without it, a match may begin anywhere in a line.
    begins: str = ""
    # A looser pattern that matches wherever this one does; one for text that could still become a match.
    loose: str = ""
    unfinished: str = ""


@cache
def load_builtin_rules() -> tuple[RedactionRule, ...]:
    """The built-in rules without their examples."""
    documents = load_documents()
    shared = documents[SHARED]["fragments"]
    return tuple(rule for name in WRITTEN for rule in _rules_of(documents[name], name, shared))


def load_rule_sources(*names: str) -> tuple[RedactionRule, ...]:
    """The built-in rules with their examples, of all files or of some."""
    shared = tomllib.loads((FOLDER / SHARED).read_text("utf-8"))["fragments"]
    return tuple(
        rule
        for name in names or WRITTEN
        for rule in parse_rules((FOLDER / name).read_text("utf-8"), name, shared)
    )


@cache
def secret_name_pattern() -> str:
    """The pattern for the end of a secret's name, as the rules have it."""
    shared = load_documents()[SHARED]["fragments"]
    return f"(?i:{shared['word']}{shared['ending']})"


def load_rules(path: Path) -> tuple[RedactionRule, ...]:
    """An operator's file of rules."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRules(f"{path} cannot be read: {error}") from None
    return parse_rules(text, str(path))


def parse_rules(
    text: str, where: str, shared: Mapping[str, str] = MappingProxyType({})
) -> tuple[RedactionRule, ...]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRules(f"{where} is not TOML: {error}") from None
    return _rules_of(document, where, shared)


def _rules_of(document: dict[str, Any], where: str, shared: Mapping[str, str]) -> tuple[RedactionRule, ...]:
    if unknown := document.keys() - {"begins", "fragments", "rule"}:
        raise InvalidRules(f"{where} has {min(unknown)!r}, which is neither rule nor fragments")
    fragments, entries = document.get("fragments", {}), document.get("rule", [])
    if not isinstance(fragments, dict) or not all(isinstance(value, str) for value in fragments.values()):
        raise InvalidRules(f"{where}: fragments must map names to texts")
    if not isinstance(entries, list) or len(entries) > MAX_RULES:
        raise InvalidRules(f"{where}: rules must be a list of at most {MAX_RULES} tables, written [[rule]]")
    begins = document.get("begins", "")
    if not isinstance(begins, str):
        raise InvalidRules(f"{where}: begins must be a text")
    fragments = {**shared, **fragments}
    begins = _expanded(begins, fragments, where)
    return tuple(
        _rule(entry, begins, fragments, f"{where}, rule {number}")
        for number, entry in enumerate(entries, 1)
    )


def refuse_duplicate_ids(rules: Iterable[RedactionRule]) -> None:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise InvalidRules(f"there are two rules with the id {rule.id!r}")
        seen.add(rule.id)


def _rule(entry: Any, begins: str, fragments: Mapping[str, str], where: str) -> RedactionRule:
    if not isinstance(entry, dict):
        raise InvalidRules(f"{where} is not a table")
    identity = entry.get("id")
    if not isinstance(identity, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", identity):
        raise InvalidRules(f"{where}: id must be a short name of lower-case letters, digits and dashes")
    where = f"{where} ({identity})"
    if unknown := entry.keys() - _FIELDS:
        raise InvalidRules(f"{where}: {min(unknown)!r} is not a field of a rule")
    for field in ("what", "pattern", "check", "after"):
        if not isinstance(entry.get(field, ""), str):
            raise InvalidRules(f"{where}: {field} must be a text")
    if not entry.get("pattern"):
        raise InvalidRules(f"{where} has no pattern")
    check = entry.get("check")
    if check is not None and check not in CHECKS:
        raise InvalidRules(f"{where}: there is no check {check!r}, only {', '.join(sorted(CHECKS))}")
    return RedactionRule(
        id=identity,
        what=entry.get("what", identity),
        pattern=_expanded(entry["pattern"], fragments, where),
        check=CHECKS[check] if check else None,
        after=_expanded(entry["after"], fragments, where) if entry.get("after") else None,
        begins=begins,
        must=tuple(_pieces(example, where) for example in _examples(entry, "must", where)),
        must_not=tuple("".join(_pieces(example, where)) for example in _examples(entry, "must_not", where)),
    )


def check_pattern(rule: RedactionRule) -> None:
    """Refuse a pattern that would have another meaning for bytes, or that matches too little."""
    for pattern in filter(None, (rule.pattern, rule.after, rule.begins)):
        if _WIDE_CLASS.search(pattern):
            raise InvalidRules(
                f"rule {rule.id}: a class can contain only ASCII characters; use alternatives for others"
            )
    try:
        re2.compile(rule.pattern.encode(), options())
        re2.compile((rule.begins or "").encode(), options())
        least, _ = _parser.parse(rule.pattern).getwidth()
    except (re2.error, re.error, OverflowError) as error:
        raise InvalidRules(f"rule {rule.id}: {engine_reason(error)}") from None
    if least < MIN_MATCH_LENGTH:
        raise InvalidRules(f"rule {rule.id}: a match must have at least {MIN_MATCH_LENGTH} characters")
    if not rule.must:
        raise InvalidRules(f"rule {rule.id} has no example that it must match")


def engine_reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def is_closed(pattern: str) -> bool:
    """Whether all that a pattern matches is surely one run of ASCII characters without white space."""
    plain = _ESCAPED.sub("_", pattern)
    plain = _CLASS.sub(lambda found: found[0].replace(".", "_"), plain)
    return _OPEN.search(plain) is None


def any_beginning(pattern: str) -> str:
    """What a match may begin with if nothing is known of it: any word of the last line or lines."""
    is_of_a_line = _ACROSS_LINES.search(_IN_A_LINE.sub("_", pattern)) is None
    return r"[^\s][^\n]*\z" if is_of_a_line else r"[^\s]"


def _examples(entry: Mapping[str, Any], field: str, where: str) -> list[Any]:
    examples = entry.get(field, [])
    if not isinstance(examples, list):
        raise InvalidRules(f"{where}: {field} must be a list of examples")
    return examples


def _pieces(example: Any, where: str) -> tuple[str, ...]:
    pieces = [example] if isinstance(example, str) else example
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise InvalidRules(f"{where}: an example must be a text, or a list of its parts")
    return tuple(pieces)


def _expanded(pattern: str, fragments: Mapping[str, str], where: str) -> str:
    def fragment(found: re.Match[str]) -> str:
        if found[1] not in fragments:
            raise InvalidRules(f"{where}: there is no fragment {found[1]!r}")
        return f"(?:{fragments[found[1]]})"

    # A character beyond ASCII is several bytes: repeated, it is a group.
    return _REPEATED.sub(r"(?:\g<0>)", _REFERENCE.sub(fragment, pattern))
