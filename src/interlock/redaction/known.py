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

_TO_A_SHELL = re.compile(r"[ !\"#$&'()*,;<>?\[\\\]^`{|}~]")
_PERCENT = re.compile("%[0-9A-F]{2}")
# What base64 programs put into a line.
_LINE_LENGTHS = (64, 76)
_LINE_END = r"[\r\n]{0,2}"
_SIGN = r"[A-Za-z0-9+/_=\-]"
# Longer than a line.
_TELLING = 80
# A longer value is not looked for with a NUL behind every character.
_MAX_WIDE = 96


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
    forms = {value, *escaped, *lower, raw.hex(), raw.hex().upper(), *_quoted_forms(value)}
    forms.add(quote(quote(value, safe="", errors="replace"), safe=""))
    # As Python writes it, in the text of an exception for one.
    forms |= {repr(value)[1:-1], ascii(value)[1:-1], repr(raw)[2:-1]}
    for quoted in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        forms |= {quoted, json.dumps(quoted)[1:-1], quoted.replace("/", "\\/")}
    # As names of hosts and files end up. In a single word that would blank out the word itself.
    if not value.isalpha():
        forms |= {value.lower(), value.upper()}
    forms |= _in_base64(raw) | _wide_forms(value)
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def _quoted_forms(value: str) -> set[str]:
    """As shells, SQL, tables, HTML and XML write signs that mean something to them."""
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
    """As UTF-16, which Windows' programs write: read as UTF-8, in hex and in base64."""
    if not value.isascii():
        wide = value.encode("utf-16-le", "surrogatepass")
        return {wide.hex(), wide.hex().upper(), *_in_base64(wide)}
    # What the two orders of bytes have in common.
    spaced = "\0".join(value)
    wide = spaced.encode()
    forms = {wide.hex(), wide.hex().upper(), *_in_base64(wide)}
    if len(value) <= _MAX_WIDE:
        forms |= {spaced, json.dumps(spaced)[1:-1], repr(spaced)[1:-1]}
    return forms


def _escaped(form: str) -> str:
    """A long base64 text may be broken into lines anywhere, since nobody knows what stands before it."""
    signs = [re.escape(sign) if sign.isascii() else sign for sign in form]
    if len(form) < min(_LINE_LENGTHS) // 2 or not re.fullmatch(r"[A-Za-z0-9+/_=-]+", form):
        return "".join(signs)
    broken = _LINE_END.join(signs[:_TELLING])
    if len(form) <= _TELLING:
        return broken
    # Its beginning tells it from everything else, and automata that know all of it take seconds to make.
    # So the rest of the word goes with it; and of the words on the next lines, where it goes over lines.
    return f"{''.join(signs[:_TELLING])}{_SIGN}*|{broken}(?:{_LINE_END}{_SIGN})*"
