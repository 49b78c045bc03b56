"""Patterns for the secrets that the process holds, in every form that programs print.

Each value has a few sequences of units: its characters, its bytes in hex, its base64. Between two units may
be what programs put there: line ends, columns, colours. The sequence gives three patterns: one for the
value, a short one for its beginning, and one for text that may still become it.
"""

import base64
import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from interlock.redaction.randomness import is_unlike_identifier, looks_random
from interlock.redaction.rule_loader import RedactionRule

# A shorter value would mask ordinary words; `interlock doctor` warns of such a secret instead.
MIN_SECRET_LENGTH = 6
# For a part that does not look random.
_MIN_PART_LENGTH = 8
# A shorter one is in tables and lists of any kind.
_LONG_NUMBER = 12
# So many units tell that a search for the value is worth while.
_TELLING = 6
# A longer value is searched for by so many units, and what continues them is masked with them.
_MAX_UNITS = 512
_NAMED_CONTROLS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a"}

# A line end, also in an escaped text.
_LINE_END = r"(?:\r?\n|\\+(?:r\\+)?n)"
# What a terminal does not show, and what UTF-16 has between characters.
_INVISIBLE = (
    r"\x1b\[[0-9;?]*[A-Za-z]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf|\xc2\xad"
    r"|\x00|\\+(?:x00|u0000|u200[b-f]|u00ad|ufeff|x1b\[[0-9;]*m|u001b\[[0-9;]*m)"
)
# The end of a line and what may precede the next one: a number, the sign of a diff or a quotation.
_NEXT_LINE = rf"(?:=|\\|\$)?{_LINE_END}[ \t]*(?:[0-9]+[:.|)\t -]?[ \t]*)?(?:[-+>|#*]+[ \t]*)?"
# The same in a dump: the column of characters behind a line, and the address before the next one.
_NEXT_ROW = (
    rf"(?:[ \t]{{2,}}[^\n]*|[ \t,|]*){_LINE_END}[ \t]*(?:[0-9a-fA-F]{{4,}}:?(?:[ \t]+|{_LINE_END}))?"
)
# Of these, what may be the end of a text that goes on.
_PARTIAL = r"""(?:[%=\\&$'"][%=\\&0-9A-Za-z#;'"]*\r?|\r|\x1b(?:\[[0-9;?]*)?)"""
_PARTIAL_ROW = (
    r"(?:(?:[ \t]{2,}[^\n]*|[ \t,:.;|_-]*)(?:\r?\n|[\r\\][rn\\]*)?"
    r"[ \t]*[0-9a-fA-Fx\\]*:?[ \t]*[0-9a-fA-Fx\\]*)"
)
# The rest of the last row, and its characters behind it.
_COLUMN = r"(?:(?:[ \t][0-9a-fA-F]+)*[ \t]{2,}[^\n]*)?"


@dataclass(frozen=True, slots=True)
class _Sequence:
    """One form of a value. `between` matches what may be between units, `partial` its beginnings.

    `more` is another unit of a value too long to be matched whole, `behind` is masked with it. A stream
    waits for the rest after `telling` units.
    """

    units: list[str]
    between: str
    partial: str
    more: str
    behind: str = ""
    telling: int = 4

    def pattern(self) -> str:
        rest = f"(?:{self.between}{self.more})*" if len(self.units) > _MAX_UNITS else ""
        return self.between.join(self.units[:_MAX_UNITS]) + rest + self.behind

    def beginning(self) -> str:
        return self.between.join(self.units[:_TELLING])

    def unfinished(self) -> str:
        """Matches text at whose end the value has begun."""
        telling = self.units[: self.telling]
        pattern = rf"{telling[-1]}(?s:.*)"
        for unit in reversed(telling[:-1]):
            pattern = rf"{unit}(?:{self.between})?(?:{self.partial}|{pattern})?"
        return pattern


def rules_for_values(values: Iterable[str]) -> tuple[RedactionRule, ...]:
    """Rules for each value, which match it in every form."""
    known = sorted({value for value in values if len(value) >= MIN_SECRET_LENGTH})
    return tuple(
        RedactionRule(
            id=f"known-{number}-{form}",
            what="a secret of this process",
            pattern=sequence.pattern(),
            loose=sequence.beginning(),
            unfinished=sequence.unfinished(),
        )
        for number, value in enumerate(known)
        for form, sequence in enumerate(_sequences(value))
    )


def _sequences(value: str) -> Iterator[_Sequence]:
    raw = value.encode("utf-8", "surrogatepass")
    yield _text(value)
    if not _is_common(value):
        yield _text(value[::-1])
    for part in _path_forms(value):
        yield _text(part)
    yield _bytes_in_hex(raw)
    if not value.isdigit() or not _is_common(value):
        yield _columns(raw)
    for size in (2, 4):
        for offset in range(size):
            yield _words(raw, size, offset)
    wide = "\0".join(value).encode() if value.isascii() else value.encode("utf-16-le", "surrogatepass")
    if not value.isascii():
        yield _bytes_in_hex(wide)
    for each in (raw, wide):
        for offset in range(3):
            yield _base64(each, offset)
    for offset in range(5):
        yield _base32(raw, offset)


def _text(value: str) -> _Sequence:
    """Characters, each as itself or escaped. What may be any word or number: not broken into lines."""
    between = f"(?:{_INVISIBLE})*" if _is_common(value) else f"(?:{_INVISIBLE}|{_NEXT_LINE})*"
    units = [_character(character, any_case=not value.isalpha()) for character in value]
    return _Sequence(units, between, _PARTIAL, more=r"""[^\s"'<>]""", telling=8)


def _is_common(value: str) -> bool:
    """Whether parts of it may be anywhere: a single word, a short number."""
    return value.isalpha() or (value.isdigit() and len(value) < _LONG_NUMBER)


def _character(character: str, *, any_case: bool) -> str:
    raw = character.encode("utf-8", "surrogatepass")
    hexes = [f"{byte:02x}" for byte in raw]
    units = character.encode("utf-16-be", "surrogatepass")
    code = ord(character)
    escapes = [
        "".join(f"%(?:25)?{each}" for each in hexes),
        "".join(f"={each}" for each in hexes),
        "".join(rf"\\+x{each}" for each in hexes),
        "".join(rf"\\+0?{byte:03o}" for byte in raw),
        "".join(rf"\\+u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)),
        rf"\\+u0{{0,3}}{code:05x}|\\+u\{{0*{code:x}\}}",
        rf"&(?:amp;)?#(?:0*{code}|x0*{code:x});",
    ]
    if code < 0x100:
        escapes.append(rf"\\+x{code:02x}")
    spellings = {character, character.lower(), character.upper()} if any_case else {character}
    forms = [*map(_literal, sorted(spellings)), f"(?i:{'|'.join(escapes)})", *_quoted(character)]
    return f"(?:{'|'.join(forms)})"


def _quoted(character: str) -> list[str]:
    """As shells, SQL, CSV, JSON, HTML and forms write a character that is special there."""
    match character:
        case "'":
            return [r"'\\+''", """'"'"'""", "''", "&apos;"]
        case '"':
            return ['""', "&quot;"]
        case " ":
            return [r"\+"]
        case control if control in _NAMED_CONTROLS:
            return [rf"\\+{_NAMED_CONTROLS[control]}"]
        case "<" | ">" | "&":
            return [html.escape(character)]
    return []


def _literal(text: str) -> str:
    return "".join(map(_literal_character, text))


def _literal_character(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    raw = character.encode("utf-8", "surrogatepass")
    literal = "".join(rf"\x{byte:02x}" for byte in raw)
    # Escaped, and escaped again where one text is written inside another.
    return rf"\\*{literal}" if character.isascii() and character.isprintable() else literal


def _bytes_in_hex(raw: bytes) -> _Sequence:
    units = [_in_hex(byte) for byte in raw]
    apart = rf"(?:[ \t:,.;_-]{{0,3}}(?:0[xX]|\\+x)?|{_NEXT_ROW}(?:0[xX])?)"
    # UTF-16 has a zero beside each byte.
    between = f"{apart}(?:00{apart})?"
    return _Sequence(units, between, _PARTIAL_ROW, more="[0-9a-fA-F]{2}", behind=_COLUMN, telling=3)


def _columns(raw: bytes) -> _Sequence:
    """Bytes with space between them: as characters, or as octal or decimal numbers."""
    units = [f"(?:{_in_column(byte)}|0{{0,2}}{byte}|0?{byte:03o})" for byte in raw]
    between = rf"(?:[ \t]{{1,4}}|,[ \t]*|{_NEXT_ROW})"
    return _Sequence(
        units, between, _PARTIAL_ROW, more="[0-9]{2,3}", behind=r"(?:[ \t]{2,}[>|][^\n]*)?", telling=3
    )


def _in_column(byte: int) -> str:
    character = chr(byte)
    if byte < 0x80 and character.isprintable():
        return _literal(character)
    return rf"\\{_NAMED_CONTROLS[character]}" if character in _NAMED_CONTROLS else rf"\x{byte:02x}"


def _words(raw: bytes, size: int, offset: int) -> _Sequence:
    """Numbers of several bytes, the last byte first; what is beside the value is unknown."""
    padded = [None] * offset + list(raw) + [None] * (-(offset + len(raw)) % size)
    units = []
    for at in range(0, len(padded), size):
        word = padded[at : at + size]
        unit = "".join("[0-9a-fA-F]{2}" if byte is None else _in_hex(byte) for byte in reversed(word))
        if size == 2:
            low, high = word
            octal = "[0-7]{6}" if low is None or high is None else f"{high * 256 + low:06o}"
            unit = f"(?:{unit}|{octal})"
        units.append(unit)
    between = rf"(?:[ \t]{{1,3}}|{_NEXT_ROW})"
    return _Sequence(units, between, _PARTIAL_ROW, "[0-9a-fA-F]{4,8}", _COLUMN, telling=2)


def _in_hex(byte: int) -> str:
    return "".join(digit if digit.isdigit() else f"[{digit}{digit.upper()}]" for digit in f"{byte:02x}")


def _base64(raw: bytes, offset: int) -> _Sequence:
    """Inside a longer base64 text the value may start at any of three offsets.

    The characters at its edges mix with its neighbours: only those that depend on the value alone are
    matched.
    """
    encoded = base64.b64encode(b"\0" * offset + raw).decode()
    own = encoded[-(-offset * 4 // 3) : (offset + len(raw)) * 4 // 3]
    signs = {"+": r"(?:\+|-|%2[bB])", "/": r"(?:\\*/|_|%2[fF])"}
    return _wrapped([signs.get(sign, sign) for sign in own])


def _base32(raw: bytes, offset: int) -> _Sequence:
    encoded = base64.b32encode(b"\0" * offset + raw).decode()
    own = encoded[-(-offset * 8 // 5) : (offset + len(raw)) * 8 // 5]
    return _wrapped([f"[{sign}{sign.lower()}]" if sign.isalpha() else sign for sign in own])


def _wrapped(units: list[str]) -> _Sequence:
    between = f"(?:{_INVISIBLE}|{_NEXT_LINE})*"
    return _Sequence(units, between, _PARTIAL, more=r"[A-Za-z0-9+/_=-]")


def _path_forms(value: str) -> set[str]:
    """The forms of a value with slashes that is used as a path: resolved, and split at them.

    A part that could occur in any text is left out: a short one, a single word, and all but the random
    parts of a URL.
    """
    if "/" not in value:
        return set()
    parts = [part for part in value.split("/") if part]
    forms = {"/".join(parts), *(part for part in parts if _is_distinctive(part, is_of_url="://" in value))}
    return {form for form in forms - {value} if len(form) >= MIN_SECRET_LENGTH}


def _is_distinctive(part: str, *, is_of_url: bool) -> bool:
    raw = part.encode("utf-8", "surrogatepass")
    if len(part) >= MIN_SECRET_LENGTH and (
        looks_random(raw, MIN_SECRET_LENGTH) or is_unlike_identifier(raw)
    ):
        return True
    return len(part) >= _MIN_PART_LENGTH and not part.isalpha() and not is_of_url
