"""Names of foreign tools, and texts of servers without invisible characters."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

SERVER_ID = re.compile(r"[a-z0-9-]{1,20}")
MAX_NAME_CHARS = 64
# A longer one is not a name; nothing of it is kept.
MAX_FOREIGN_NAME_CHARS = 256
_HASH_CHARS = 10
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
# Format, control, private and unassigned characters, and line separators.
_UNSEEN = frozenset({"Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp"})
# Variation selectors, which can carry any text unseen.
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
# Letters that are invisible.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u034f\u2800")


def exposed_name(server: str, tool: str) -> str:
    """`server__tool`. A name that does not fit keeps its beginning and gets a hash of all of it."""
    whole = f"{server}__{tool}"
    fitting = _UNFIT.sub("_", whole)
    if fitting == whole and tool and len(whole) <= MAX_NAME_CHARS:
        return whole
    digest = sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{fitting[: MAX_NAME_CHARS - _HASH_CHARS - 1]}_{digest}"


def clashing_names(server: str, tools: Iterable[str], taken: Iterable[str] = ()) -> frozenset[str]:
    """The tools whose exposed name another one has as well: they cannot be distinguished."""
    names = {tool: exposed_name(server, tool) for tool in set(tools)}
    counted, others = Counter(names.values()), set(taken)
    return frozenset(tool for tool, name in names.items() if counted[name] > 1 or name in others)


def is_invisible(character: str) -> bool:
    code = ord(character)
    return (
        unicodedata.category(character) in _UNSEEN
        or character in _BLANK
        or any(code in selectors for selectors in _SELECTORS)
    )


def has_hidden_characters(text: str) -> bool:
    """Whether a text has invisible characters besides line ends and tabs."""
    return any(is_invisible(character) for character in text if character not in "\n\r\t")


def to_visible_line(text: str, max_chars: int) -> str:
    """One line of the visible text: it can neither hide words nor start lines of a prompt."""
    seen = "".join(" " if character in "\n\r\t" else character for character in text[: 4 * max_chars])
    seen = " ".join("".join(character for character in seen if not is_invisible(character)).split())
    return seen if len(seen) <= max_chars else f"{seen[: max_chars - 1]}…"
