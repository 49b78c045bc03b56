"""Patterns for the secrets that the process holds, in every encoding."""

import base64
import html
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from interlock.core.text import escape_control_characters
from interlock.redaction.randomness import is_unlike_identifier, looks_random
from interlock.redaction.rule_loader import RedactionRule

# A shorter value would mask ordinary words; `interlock doctor` warns of such a secret instead.
MIN_SECRET_LENGTH = 6
# For a part that does not look random.
_MIN_PART_LENGTH = 8

_TO_A_SHELL = re.compile(r"[ !\"#$&'()*,;<>?\[\\\]^`{|}~]")
_PERCENT = re.compile("%[0-9A-F]{2}")
# Line lengths of base64 programs.
_LINE_LENGTHS = (64, 76)
_LINE_END = r"[\r\n]{0,2}"
_SIGN = r"[A-Za-z0-9+/_=\-]"
# Longer than a line.
_TELLING = 80
# A longer value is not searched for with a NUL behind every character.
_MAX_WIDE = 96


def rules_for_values(values: Iterable[str]) -> tuple[RedactionRule, ...]:
    """A rule for each value, which matches it in every form."""
    return tuple(
        RedactionRule(id=f"known-{number}", what="a secret of this process", pattern=_pattern(value))
        for number, value in enumerate(
            sorted({value for value in values if len(value) >= MIN_SECRET_LENGTH})
        )
    )


def _pattern(value: str) -> str:
    forms = sorted(encoded_forms(value), key=len, reverse=True)
    return "|".join(_escaped(form) for form in forms)


def encoded_forms(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    escaped = {quote(value, safe="", errors="replace"), quote(value, errors="replace")}
    escaped.add(quote_plus(value, errors="replace"))
    lower = {_PERCENT.sub(lambda found: found[0].lower(), form) for form in escaped}
    forms = {value, *escaped, *lower, raw.hex(), raw.hex().upper(), *_quoted_forms(value)}
    forms.add(quote(quote(value, safe="", errors="replace"), safe=""))
    forms |= {repr(raw)[2:-1], *_written_forms(value)}
    for part in _path_forms(value):
        forms |= _written_forms(part)
    # As host and file names appear. For a single word that would mask the word itself.
    if not value.isalpha():
        forms |= {value.lower(), value.upper()}
    forms |= _in_base64(raw) | _wide_forms(value)
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def _written_forms(value: str) -> set[str]:
    """Verbatim, in Python's repr (in an exception), with our own escapes, and in JSON."""
    forms = {value, repr(value)[1:-1], ascii(value)[1:-1], escape_control_characters(value)}
    for quoted in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        forms |= {quoted, json.dumps(quoted)[1:-1], quoted.replace("/", "\\/")}
    return forms


def _path_forms(value: str) -> set[str]:
    """The forms of a value with slashes that is used as a path: resolved, and split at them.

    A part that could occur in any text is left out: a short one, a single word, and all but the random
    parts of a URL.
    """
    if "/" not in value:
        return set()
    parts = [part for part in value.split("/") if part]
    return {"/".join(parts), *(part for part in parts if _is_distinctive(part, is_of_url="://" in value))}


def _is_distinctive(part: str, *, is_of_url: bool) -> bool:
    raw = part.encode("utf-8", "surrogatepass")
    if len(part) >= MIN_SECRET_LENGTH and (
        looks_random(raw, MIN_SECRET_LENGTH) or is_unlike_identifier(raw)
    ):
        return True
    return len(part) >= _MIN_PART_LENGTH and not part.isalpha() and not is_of_url


def _quoted_forms(value: str) -> set[str]:
    """As shells, SQL, CSV, HTML and XML escape special characters."""
    signs = html.escape(value, quote=False)
    return {
        *(value.replace("'", inside) for inside in ("'\\''", "'\"'\"'", "''")),
        value.replace('"', '""'),
        _TO_A_SHELL.sub(r"\\\g<0>", value),
        signs,
        *(
            signs.replace('"', double).replace("'", single)
            for double in ("&quot;", "&#34;")
            for single in ("&#x27;", "&#39;", "&apos;", "'")
        ),
    }


def _in_base64(raw: bytes) -> set[str]:
    """Inside a longer base64 text the value may start at any of three offsets.

    The characters at its edges mix with its neighbours: only those that depend on the value alone are
    matched.
    """
    return {
        encode(b"\0" * offset + raw).decode()[-(-offset * 4 // 3) : (offset + len(raw)) * 4 // 3]
        for encode in (base64.b64encode, base64.urlsafe_b64encode)
        for offset in range(3)
    }


def _wide_forms(value: str) -> set[str]:
    """As UTF-16, which Windows programs write: read as UTF-8, in hex and in base64."""
    if not value.isascii():
        wide = value.encode("utf-16-le", "surrogatepass")
        return {wide.hex(), wide.hex().upper(), *_in_base64(wide)}
    # The part that both byte orders have in common.
    spaced = "\0".join(value)
    wide = spaced.encode()
    forms = {wide.hex(), wide.hex().upper(), *_in_base64(wide)}
    if len(value) <= _MAX_WIDE:
        forms |= {spaced, json.dumps(spaced)[1:-1], repr(spaced)[1:-1]}
    return forms


def _escaped(form: str) -> str:
    """Escape a form. A long base64 text may be broken into lines anywhere: its offset is unknown."""
    signs = [re.escape(sign) if sign.isascii() else sign for sign in form]
    if len(form) < min(_LINE_LENGTHS) // 2 or not re.fullmatch(r"[A-Za-z0-9+/_=-]+", form):
        return "".join(signs)
    broken = _LINE_END.join(signs[:_TELLING])
    if len(form) <= _TELLING:
        return broken
    # The beginning identifies it, and automata for all of it take seconds to build. So the rest of the word
    # is masked with it; and the words on the next lines, where it is broken into lines.
    return f"{''.join(signs[:_TELLING])}{_SIGN}*|{broken}(?:{_LINE_END}{_SIGN})*"
