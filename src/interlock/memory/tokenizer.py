"""Splits text into words, the same way for notes and for queries, so that both databases behave alike.

A word is folded: without case, accents, width and other differences of form. A name in code is split and
kept whole as well: `handleMessage` gives `handle`, `message` and `handlemessage`. Scripts without spaces
between words give overlapping pairs of characters, which serve as words.
"""

# ruff: noqa: RUF001 - letters and signs that look like others are what this is about

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

# By language; the last part of the file has no words, but characters and pairs.
*STOP_WORDS, STOP_GRAMS = (
    frozenset(part.partition("]")[2].split())
    for part in (Path(__file__).parent / "stop_words.txt").read_text("utf-8").split("\n[")[1:]
)

MAX_WORD_CHARS = 64
_MAX_CHUNK_CHARS = 200

# Marks that belong to the letter before them, which Python's \w leaves out.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0900-\u0963\u0971-\u0df3"
    "\u0e30-\u0e3a\u0e47-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ece\u0f18-\u0f39\u0f71-\u0f84\u0f90-\u0fbc"
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u109d"
    "\u17b4-\u17d3\u17dd\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\u3099\u309a\ufe20-\ufe2f"
)
# Marks that people often omit, and those that only join letters.
_LOOSE_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\ufe20-\ufe2f]+"
)
# Letters that no decomposition changes, and those that differ by habit alone.
_LETTERS = str.maketrans(
    {
        "ı": "i", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "th", "ħ": "h",
        "ŧ": "t", "ŋ": "n", "ə": "e", "ى": "ي", "ة": "ه", "ک": "ك", "ی": "ي", "ς": "σ", "ґ": "г",
    }
)  # fmt: skip

_W = rf"\w{_MARKS}"
_SIGNS = r"(?:\+\+|\#)?"
_CHUNK = re.compile(rf"[{_W}]+(?:[-./:\\@'’‐‑·&+][{_W}]+)*{_SIGNS}")
_ASCII_CHUNK = re.compile(rf"[a-zA-Z0-9_]+(?:[-./:\\@'&+][a-zA-Z0-9_]+)*{_SIGNS}")
_NAME_ENDS = re.compile(r"[./:\\@&+]+")
_PART_ENDS = re.compile(r"[-_'’‐‑·]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_WORD = re.compile(rf"[^{_W}]+|_+")
_SIGNED = {"c++": "cplusplus", "c#": "csharp", "f#": "fsharp"}

_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"
_SOUTH_EAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f\ua9e0-\ua9ff"
_RUN = re.compile(
    rf"(?P<east>[{_HAN}{_HIRAGANA}{_KATAKANA}]+)|(?P<hangul>[{_HANGUL}]+)|(?P<south>[{_SOUTH_EAST}]+)"
    rf"|(?P<other>[^{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}{_SOUTH_EAST}]+)"
)
_KATAKANA_WORD = re.compile(rf"[{_KATAKANA}]{{3,}}")
_KANA_ONLY = re.compile(rf"[{_HIRAGANA}]+")
_UNSPACED = re.compile(f"[{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}{_SOUTH_EAST}]")
_CLUSTER = re.compile(rf".[{_MARKS}]*", re.DOTALL)


class TokenKind(Enum):
    """What a word was made of: it determines the weight of a hit, and which other forms to look for."""

    word = "word"
    pair = "pair"
    character = "character"


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A part of a text between spaces or punctuation, and its words."""

    start: int
    end: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query. `weight` is how much it contributes."""

    text: str
    kind: TokenKind
    weight: float


def split_chunks(text: str) -> Iterator[TextChunk]:
    """The parts of a text in order, without those that have no word."""
    for found in _chunk_pattern(text).finditer(text):
        start, end = found.span()
        for at in range(start, end, _MAX_CHUNK_CHARS):
            stop = min(end, at + _MAX_CHUNK_CHARS)
            if words := _plain_words(text[at:stop]):
                yield TextChunk(at, stop, words)


def tokenize(text: str) -> list[str]:
    """All words of a text, as they are indexed."""
    found: list[str] = []
    for chunk in _chunk_pattern(text).findall(text):
        if len(chunk) <= _MAX_CHUNK_CHARS:
            found += _plain_words(chunk)
        else:
            for piece in _pieces(chunk):
                found += _plain_words(piece)
    return found


def query_words(text: str, limit: int) -> list[QueryWord]:
    """The words of a query, each once, in order. Stop words have little weight."""
    found: dict[str, TokenKind] = {}
    for chunk in _pieces(text):
        for word, kind in _words_of(chunk):
            found.setdefault(word, kind)
        if len(found) >= limit:
            break
    common = _common_among(found)
    asked = [
        QueryWord(word, kind, _weight(word, kind, common)) for word, kind in list(found.items())[:limit]
    ]
    if all(word.weight < _SAYS_SOMETHING for word in asked):
        return [QueryWord(word.text, word.kind, 1.0) for word in asked]
    return asked


def _pieces(text: str) -> Iterator[str]:
    for chunk in _chunk_pattern(text).findall(text):
        if len(chunk) <= _MAX_CHUNK_CHARS:
            yield chunk
            continue
        # A chunk longer than any word is processed in parts, so that it costs no more.
        for at in range(0, len(chunk), _MAX_CHUNK_CHARS):
            yield chunk[at : at + _MAX_CHUNK_CHARS]


def _chunk_pattern(text: str) -> re.Pattern[str]:
    return _ASCII_CHUNK if text.isascii() else _CHUNK


_SAYS_SOMETHING = 0.2


def _common_among(words: Iterable[str]) -> frozenset[str]:
    """The stop words of the language that most of these are in; one alone proves no language."""
    hits = [common.intersection(words) for common in STOP_WORDS]
    most = max(map(len, hits))
    return frozenset().union(*(found for found in hits if len(found) == most)) if most > 1 else frozenset()


def _weight(word: str, kind: TokenKind, common: frozenset[str]) -> float:
    if kind is TokenKind.word:
        return 0.08 if word in common else 1.0
    if kind is TokenKind.character:
        return 0.1 if word in STOP_GRAMS or _KANA_ONLY.fullmatch(word) else 0.25
    if word in STOP_GRAMS:
        return 0.08
    if any(character in STOP_GRAMS for character in word):
        return 0.3
    return 0.25 if _KANA_ONLY.fullmatch(word) else 0.8


def fold(text: str) -> str:
    """The text without differences of form: case, accents, width, ligatures."""
    if text.isascii():
        return text.lower()
    taken_apart = _LOOSE_MARKS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", taken_apart.casefold().translate(_LETTERS))


def is_unspaced(word: str) -> bool:
    """Whether it is written in a script that does not, or not always, put spaces between words."""
    return _UNSPACED.match(word) is not None


@lru_cache(maxsize=65536)
def _plain_words(chunk: str) -> tuple[str, ...]:
    return tuple(word for word, _ in _words_of(chunk))


@lru_cache(maxsize=4096)
def _words_of(chunk: str) -> tuple[tuple[str, TokenKind], ...]:
    """The words of one chunk, each with its kind."""
    if chunk[-1] in "+#":
        if (signed := _SIGNED.get(chunk.lower())) is not None:
            return ((chunk[0].lower(), TokenKind.word), (signed, TokenKind.word))
        chunk = chunk.rstrip("+#")
    found: list[tuple[str, TokenKind]] = []
    names = [name for name in _NAME_ENDS.split(chunk) if name]
    for name in names:
        parts = [folded for part in _PART_ENDS.split(name) if (folded := _clean(part))]
        is_compound = len(parts) > 1
        for part in parts:
            if not (is_compound and len(part) == 1 and part.isascii() and part.isalpha()):
                found.extend(_runs(part))
        if is_compound:
            found.extend(_whole("".join(parts)))
    if len(names) > 1:
        found.extend(_whole("".join(map(_clean, names))))
    return tuple(found)


def _clean(part: str) -> str:
    return _NO_WORD.sub("", fold(part))


def _whole(joined: str) -> list[tuple[str, TokenKind]]:
    """A name of several parts as one word, unless its script has no spaces."""
    if len(joined) > MAX_WORD_CHARS or _UNSPACED.search(joined):
        return []
    return [(joined, TokenKind.word)]


def _runs(part: str) -> Iterator[tuple[str, TokenKind]]:
    """Split a part by scripts: 第3章 has three runs."""
    for run in _RUN.finditer(part):
        text = run[0]
        if run.lastgroup == "other":
            yield text[:MAX_WORD_CHARS], TokenKind.word
            continue
        characters = _CLUSTER.findall(text)
        if run.lastgroup == "hangul" or len(characters) == 1:
            is_all = run.lastgroup == "hangul" or len(text) == len(part)
            yield text[:MAX_WORD_CHARS], TokenKind.word if is_all else TokenKind.character
        else:
            yield from ((word[0], TokenKind.word) for word in _KATAKANA_WORD.finditer(text))
        if len(characters) > 1:
            yield from _pairs(characters, with_single=run.lastgroup != "south")


def _pairs(characters: list[str], *, with_single: bool) -> Iterator[tuple[str, TokenKind]]:
    for number, character in enumerate(characters):
        if with_single:
            yield character, TokenKind.character
        if number + 1 < len(characters):
            yield character + characters[number + 1], TokenKind.pair
