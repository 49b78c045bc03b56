"""The forms that a secret which the process holds may travel in."""

import base64
import html
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from interlock.redaction.rulebook import Rule

# A shorter value would blank out ordinary words; `interlock doctor` warns of such a secret instead.
MIN_SECRET_LENGTH = 6

_PERCENT = re.compile("%[0-9A-F]{2}")
# What base64 programs put into a line.
_LINE_LENGTHS = (64, 76)


def rules_for(values: Iterable[str]) -> tuple[Rule, ...]:
    """A rule for each value, which matches it in every form."""
    return tuple(
        Rule(id=f"known-{number}", what="a secret of this process", pattern=_pattern(value))
        for number, value in enumerate(
            sorted({value for value in values if len(value) >= MIN_SECRET_LENGTH})
        )
    )


def _pattern(value: str) -> str:
    forms = sorted(forms_of(value), key=len, reverse=True)
    return "|".join(_escaped(form) for form in forms)


def forms_of(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    escaped = {quote(value, safe="", errors="replace"), quote(value, errors="replace")}
    escaped.add(quote_plus(value, errors="replace"))
    lower = {_PERCENT.sub(lambda found: found[0].lower(), form) for form in escaped}
    forms = {value, *escaped, *lower, raw.hex(), raw.hex().upper(), html.escape(value)}
    # As Python writes it, in the text of an exception for one.
    forms |= {repr(value)[1:-1], ascii(value)[1:-1], repr(raw)[2:-1]}
    for quoted in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        forms |= {quoted, json.dumps(quoted)[1:-1], quoted.replace("/", "\\/")}
    # Inside a longer base64 text the value may start at any of three offsets, and the characters at
    # its edges mix with its neighbours: only those that depend on the value alone are matched.
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            start, end = -(-offset * 4 // 3), (offset + len(raw)) * 4 // 3
            forms.add(encode(b"\0" * offset + raw).decode()[start:end])
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def _escaped(form: str) -> str:
    """A long base64 text may be broken into lines anywhere, since nobody knows what stands before it."""
    signs = [re.escape(sign) if sign.isascii() else sign for sign in form]
    if len(form) >= min(_LINE_LENGTHS) // 2 and re.fullmatch(r"[A-Za-z0-9+/_=-]+", form):
        return r"[\r\n]{0,2}".join(signs)
    return "".join(signs)
