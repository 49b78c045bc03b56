"""Names whose values are secret, in structures: a field called password, a variable called API_TOKEN."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import re2

from interlock.redaction.candidate import SecretCandidate
from interlock.redaction.checks import assigned_value
from interlock.redaction.non_secrets import is_placeholder
from interlock.redaction.re2_engine import options
from interlock.redaction.rule_loader import secret_name_pattern

_MAX_NAME = 128
# A pair of fields, as in a container's environment: {"name": "DB_PASSWORD", "value": "…"}.
_NAME_FIELDS = ("name", "Name", "key", "Key", "variable", "field")
_NAMING = frozenset(_NAME_FIELDS)
_VALUE_FIELDS = frozenset(
    {"value", "Value", "default", "secretValue", "secret_value", "plainText", "plain_text"}
)
_NUMERIC = ("password", "passwd", "passcode", "pwd", "pin")


def is_secret_item(name: str, item: Any) -> bool:
    """Whether the value under this name is masked whole."""
    if not is_secret_name(name) or not isinstance(item, str | int | list | tuple) or isinstance(item, bool):
        return False
    if isinstance(item, int):
        return name.lower().endswith(_NUMERIC)
    if isinstance(item, str):
        return _is_secret_text(name, item)
    return bool(item) and all(isinstance(each, str) and _is_secret_text(name, each) for each in item)


def field_names(value: Mapping[Any, Any]) -> Callable[[Any], Any] | None:
    """A function for a field's name, where another field gives it; None if each is named by its key."""
    if _NAMING.isdisjoint(value):
        return None
    for field in _NAME_FIELDS:
        name = value.get(field)
        if isinstance(name, str) and is_secret_name(name):
            return lambda key: name if key in _VALUE_FIELDS else key
    return None


def is_secret_flag(before: Any, item: Any) -> bool:
    """Whether one argument of a command marks the next one as secret: `--password`."""
    if not isinstance(before, str) or not isinstance(item, str) or before[:1] != "-" or item[:1] == "-":
        return False
    name = before.lstrip("-")
    return not name.startswith("no-") and is_secret_item(name, item)


def _is_secret_text(name: str, text: str) -> bool:
    value = text.strip().encode("utf-8", "surrogatepass")
    if not value or is_placeholder(value):
        return False
    data = f'"{name}": "'.encode("utf-8", "surrogatepass")
    return assigned_value(SecretCandidate(data + value, 0, len(data), len(data) + len(value)))


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a name marks its value as secret."""
    if not name or len(name) > _MAX_NAME:
        return False
    return _pattern().search(name.encode("utf-8", "surrogatepass")) is not None


@lru_cache(maxsize=1)
def _pattern() -> "re2._Regexp":
    return re2.compile(f"(?:{secret_name_pattern()})\\z".encode(), options())
