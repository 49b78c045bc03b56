"""The other forms in which a word of a query may occur in the notes.

Inflected forms, longer words that begin or end with it, and, where no note has the word itself, words that
differ by one letter. Each form counts less the further it is from the query.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from interlock.db.driver import DbConnection
from interlock.memory.index import BACKWARDS
from interlock.memory.tokenizer import QueryWord, TokenKind, is_unspaced

COUNT = "SELECT doc FROM vocabulary WHERE term = ?"
RANGE = """
SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ? LIMIT ?
"""

MAX_LOOKED_AT = 3000
MAX_FORMS = 12

_LAST = "\U0010ffff"
_MIN_TYPO_LENGTH = 4
_MIN_KIN_LENGTH = 4
_MIN_TAIL_LENGTH = 5
_LONGEST = 64

_PLURAL, _INFLECTED, _BEGINS, _ENDS, _TYPO = 0.9, 0.6, 0.45, 0.4, 0.7


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A word of a query with its forms in the notes: the weight of each, and its number of passages."""

    asked: QueryWord
    forms: dict[str, tuple[float, int]] = field(default_factory=dict)
    # The word that replaced a mistyped one.
    corrected: str | None = None

    @property
    def passages(self) -> int:
        """An upper bound of the passages that have any of its forms."""
        return sum(count for _, count in self.forms.values())


def find_query_terms(connection: DbConnection, asked: Sequence[QueryWord]) -> list[QueryTerm]:
    return [_find_term(connection, word) for word in asked]


def _find_term(connection: DbConnection, asked: QueryWord) -> QueryTerm:
    word = asked.text
    exact = _count(connection, word)
    forms = {word: (1.0, exact)} if exact else {}
    if asked.kind is not TokenKind.word or asked.weight < 1.0:
        return QueryTerm(asked, forms)
    found = {form: (worth, count) for form, worth, count in _similar_terms(connection, word)}
    corrected = None
    if not exact and not any(worth >= _PLURAL for worth, _ in found.values()):
        near = _near(connection, word)
        corrected = max(near, key=lambda form: near[form], default=None)
        for form, count in near.items():
            if found.get(form, (0.0, 0))[0] < _TYPO:
                found[form] = (_TYPO, count)
    best = sorted(found.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
    forms.update(item for item in best[:MAX_FORMS] if item[0] != word)
    return QueryTerm(asked, forms, corrected)


def _count(connection: DbConnection, word: str) -> int:
    """The number of passages that have a word."""
    rows = connection.query(COUNT, (word,))
    return int(rows[0][0]) if rows else 0


def _similar_terms(connection: DbConnection, word: str) -> list[tuple[str, float, int]]:
    """Forms that share all of the word or most of its beginning, and words that end with it."""
    kin: list[tuple[str, float, int]] = []
    if is_unspaced(word):
        for form, count in _beginning(connection, word, len(word), len(word) + 4):
            kin.append((form, _BEGINS, count))
        return kin
    if len(word) < 3 or not any(map(str.isalpha, word)):
        return kin
    stem = word[: max(3, min(len(word), _shared_needed(len(word))))]
    for form, count in _beginning(connection, stem, len(stem), _LONGEST):
        if (worth := similarity(word, form)) > 0:
            kin.append((form, worth, count))
    if len(word) >= _MIN_TAIL_LENGTH:
        for form, count in _ending(connection, word, len(word) + 1, _LONGEST):
            kin.append((form, _ENDS, count))
    other = f"{word[:-3]}y" if word.endswith("ies") else f"{word[:-1]}ies" if word.endswith("y") else ""
    if other and (count := _count(connection, other)):
        kin.append((other, _PLURAL, count))
    return kin


def _shared_needed(length: int) -> int:
    """How many letters of a word's beginning a form of it must have."""
    return length if length <= _MIN_KIN_LENGTH else max(_MIN_KIN_LENGTH, (length * 3 + 4) // 5)


def similarity(word: str, form: str) -> float:
    """How much a hit on `form` counts for `word`; zero if they are unrelated."""
    shared = 0
    for one, other in zip(word, form, strict=False):
        if one != other:
            break
        shared += 1
    rest, more = len(word) - shared, len(form) - shared
    if rest == 0 and more == 0:
        return 1.0
    if (word[shared:], form[shared:]) in _PLURALS and shared >= 3:
        return _PLURAL
    if shared < _shared_needed(len(word)):
        return 0.0
    if rest == 0:
        return _INFLECTED if more <= 3 and shared >= _MIN_KIN_LENGTH else _BEGINS if shared >= 3 else 0.0
    if rest <= 3 and more <= 4 and shared >= max(_shared_needed(len(form)), rest + more):
        return _INFLECTED - 0.05 * rest
    return 0.0


_PLURALS = {(a, b) for ending in ("s", "es", "n", "en", "e") for a, b in ((ending, ""), ("", ending))}


def _near(connection: DbConnection, word: str) -> dict[str, int]:
    """Words that differ by one letter: added, omitted or replaced, or by two that are swapped.

    In every case the first or the last letters, up to just before the middle, are the same.
    """
    if len(word) < _MIN_TYPO_LENGTH or is_unspaced(word) or word.isdigit():
        return {}
    half = (len(word) - 1) // 2
    bounds = (len(word) - 1, len(word) + 1)
    candidates = {
        **dict(_beginning(connection, word[:half], *bounds)),
        **dict(_ending(connection, word[-half:], *bounds)),
    }
    return {form: count for form, count in candidates.items() if is_one_letter_off(word, form)}


def is_one_letter_off(word: str, other: str) -> bool:
    if abs(len(word) - len(other)) > 1 or word == other:
        return False
    start = 0
    for one, two in zip(word, other, strict=False):
        if one != two:
            break
        start += 1
    one, two = word[start:], other[start:]
    if len(one) == len(two):
        swapped = one[:2] == two[1::-1] and one[2:] == two[2:]
        return one[1:] == two[1:] or swapped
    return one[1:] == two if len(one) > len(two) else one == two[1:]


def _beginning(
    connection: DbConnection, start: str, shortest: int, longest: int
) -> Iterable[tuple[str, int]]:
    bounds = (start, start + _LAST, shortest, longest, MAX_LOOKED_AT)
    return [(str(word), int(count)) for word, count in connection.query(RANGE, bounds)]


def _ending(connection: DbConnection, end: str, shortest: int, longest: int) -> Iterable[tuple[str, int]]:
    found = _beginning(connection, BACKWARDS + end[::-1], shortest + 1, longest + 1)
    return [(word[:0:-1], count) for word, count in found]
