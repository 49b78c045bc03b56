"""Makes untrusted text and values fit to be stored, encoded and shown."""

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

# A lone surrogate cannot be encoded, and PostgreSQL refuses the null character in a text.
_UNFIT = re.compile("[\ud800-\udfff\x00]")


def sanitize_text(text: str) -> str:
    """The text with characters that no store or encoding can hold replaced by U+FFFD."""
    return text if text.isascii() and "\x00" not in text else _UNFIT.sub("\ufffd", text)


def is_utf8(text: str) -> bool:
    """Whether a text of the system, such as a path, came from valid UTF-8. Others cannot be recorded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Beside line ends: the spaces of other scripts and of typography, and joiners of letters and emoji.
_KEPT_IN_TEXTS = "\n\t\u00a0\u2002\u2003\u2009\u202f\u3000\u200c\u200d"

MAX_DEPTH = 50
_LARGEST = 2**63 - 1
_LONGEST = 1000


def to_json_value(value: Any, depth: int = 0) -> Any:
    """The value as JSON; what JSON cannot represent becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, int) and -_LARGEST <= value <= _LARGEST:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth < MAX_DEPTH:
        if isinstance(value, Mapping):
            return {sanitize_text(str(key)): to_json_value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [to_json_value(item, depth + 1) for item in value]
    try:
        text = sanitize_text(repr(value))
    except RecursionError:
        return f"{type(value).__name__} (nested too deeply)"
    return text if len(text) <= _LONGEST else f"{type(value).__name__} ({len(text)} characters)"


# Tag characters: invisible on every screen, but read by models. Only a few flags consist of them.
_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]{1,6}\U000e007f"
# One or two of these join letters, choose their form or set a direction; a row of them can encode text.
_IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2064\u206a-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef"
)
_HIDDEN = re.compile(f"(?P<flag>{_FLAG})|[\U000e0000-\U000e007f]|[{_IGNORED}]{{3,}}")


def replace_hidden_characters(text: str, stand_in: str = "\ufffd") -> str:
    """The text with characters replaced that people cannot see but a model may read."""
    if text.isascii():
        return text
    return _HIDDEN.sub(lambda found: found["flag"] or stand_in * len(found[0]), text)


def safe_excerpt(text: str, max_chars: int) -> str:
    """An untrusted text for use in a message: whole or not at all, control characters escaped.

    Half a secret would not be recognised as one.
    """
    return (
        escape_control_characters(text) if len(text) <= max_chars else f"(a text of {len(text)} characters)"
    )


def escape_control_characters(text: str, *, lines: bool = False) -> str:
    """Escape control characters: stored text must not drive, or forge lines on, a reader's terminal."""
    kept = _KEPT_IN_TEXTS if lines else ""
    return "".join(
        character if character.isprintable() or character in kept else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# Format, control, private and unassigned characters, and line separators.
_UNSEEN = frozenset({"Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp"})
# Variation selectors, which can carry any text unseen.
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
# Letters that are invisible.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u034f\u2800")


def _is_invisible(character: str) -> bool:
    code = ord(character)
    return (
        unicodedata.category(character) in _UNSEEN
        or character in _BLANK
        or any(code in selectors for selectors in _SELECTORS)
    )


def has_hidden_characters(text: str) -> bool:
    """Whether a text has invisible characters besides line ends and tabs."""
    return any(_is_invisible(character) for character in text if character not in "\n\r\t")


def to_visible_line(text: str, max_chars: int) -> str:
    """One line of the visible text: it can neither hide words nor start lines of a prompt."""
    seen = "".join(" " if character in "\n\r\t" else character for character in text[: 4 * max_chars])
    seen = " ".join("".join(character for character in seen if not _is_invisible(character)).split())
    return seen if len(seen) <= max_chars else f"{seen[: max_chars - 1]}…"


def escape_invisible(text: str) -> str:
    """The text with every invisible character written as its number."""
    return "".join(_escaped(character) if _is_invisible(character) else character for character in text)
