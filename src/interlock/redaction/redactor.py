"""Replaces every known secret, in each form it may travel in, by one mark."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

MARK = "***REDACTED***"
_ESCAPE = re.compile("%[0-9A-F]{2}")

# A shorter value would blank out ordinary words; `interlock doctor` warns of such a secret instead.
MIN_SECRET_LENGTH = 6


@dataclass(frozen=True, slots=True)
class Redacted:
    """A value safe to show, and whether anything had to be taken out of it."""

    value: Any
    changed: bool


class Redactor:
    """Knows the secrets this process holds. Without any, it returns what it was given."""

    def __init__(self, known_values: Iterable[str] = ()) -> None:
        forms = {form for value in known_values for form in _forms_of(value)}
        # Longest first, so that a secret which contains another is replaced whole.
        ordered = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MARK, text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the secrets in a text begin and end, in order and apart from one another."""
        return [] if self._pattern is None else [found.span() for found in self._pattern.finditer(text)]

    def value(self, value: Any) -> Any:
        """The same structure with every string in it, keys included, made safe."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.value(item) for item in value)
        if isinstance(value, bytes):
            return self.text(value.decode("utf-8", "replace"))
        return value

    def checked(self, value: Any) -> Redacted:
        safe = self.value(value)
        return Redacted(safe, changed=safe != value)


def _forms_of(value: str) -> set[str]:
    if len(value) < MIN_SECRET_LENGTH:
        return set()
    raw = value.encode()
    escaped = {quote(value, safe=""), quote(value), quote_plus(value)}
    lower = {_ESCAPE.sub(lambda found: found[0].lower(), form) for form in escaped}
    forms = {value, *escaped, *lower, orjson.dumps(value)[1:-1].decode(), json.dumps(value)[1:-1]}
    # Inside a longer base64 text the value may start at any of three offsets, and the characters at
    # its edges mix with its neighbours: only those that depend on the value alone are matched.
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            start, end = -(-offset * 4 // 3), (offset + len(raw)) * 4 // 3
            forms.add(encode(b"\0" * offset + raw).decode()[start:end])
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}
