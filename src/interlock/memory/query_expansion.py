"""The other forms in which a word of a query may occur in the notes.

Inflected forms, longer words that begin or end with it, and, where no note has the word itself, words that
differ by one letter. Each form counts less the further it is from the query.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from interlock.db.driver import DbConnection
from interlock.memory.index_rows import with_placeholders
from interlock.memory.tokenizer import QueryWord, TokenKind, is_unspaced

COUNTS = "SELECT word, passages FROM memory_words WHERE folder_id = ? AND word IN ({places})"
BEGINNING = """
SELECT word, passages FROM memory_words
WHERE folder_id = ? AND word >= ? AND word < ? AND length(word) BETWEEN ? AND ? LIMIT ?
"""
ENDING = """
SELECT word, passages FROM memory_words
WHERE folder_id = ? AND backwards >= ? AND backwards < ? AND length(word) BETWEEN ? AND ? LIMIT ?
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


def find_query_terms(
    connection: DbConnection, folder_id: int, asked: Sequence[QueryWord]
) -> list[QueryTerm]:
    counts = _counts(connection, folder_id, [word.text for word in asked])
    return [_sought(connection, folder_id, word, counts.get(word.text, 0)) for word in asked]


def _sought(connection: DbConnection, folder_id: int, asked: QueryWord, exact: int) -> QueryTerm:
    word = asked.text
    forms = {word: (1.0, exact)} if exact else {}
    if asked.kind is not TokenKind.word or asked.weight < 1.0:
        return QueryTerm(asked, forms)
    found = {form: (worth, count) for form, worth, count in _similar_terms(connection, folder_id, word)}
    corrected = None
    if not exact and not any(worth >= _PLURAL for worth, _ in found.values()):
        near = _near(connection, folder_id, word)
        corrected = max(near, key=lambda form: near[form], default=None)
        for form, count in near.items():
            if found.get(form, (0.0, 0))[0] < _TYPO:
                found[form] = (_TYPO, count)
    best = sorted(found.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
    forms.update(item for item in best[:MAX_FORMS] if item[0] != word)
    return QueryTerm(asked, forms, corrected)


def _counts(connection: DbConnection, folder_id: int, words: Sequence[str]) -> dict[str, int]:
    if not words:
        return {}
    rows = connection.query(with_placeholders(COUNTS, len(words)), (folder_id, *words))
    return {str(word): int(count) for word, count in rows}


def _similar_terms(connection: DbConnection, folder_id: int, word: str) -> list[tuple[str, float, int]]:
    """Forms that share all of the word or most of its beginning, and words that end with it."""
    kin: list[tuple[str, float, int]] = []
    if is_unspaced(word):
        for form, count in _beginning(connection, folder_id, word, len(word), len(word) + 4):
            kin.append((form, _BEGINS, count))
        return kin
    if len(word) < 3 or not any(map(str.isalpha, word)):
        return kin
    stem = word[: max(3, min(len(word), _shared_needed(len(word))))]
    for form, count in _beginning(connection, folder_id, stem, len(stem), _LONGEST):
        if (worth := similarity(word, form)) > 0:
            kin.append((form, worth, count))
    if len(word) >= _MIN_TAIL_LENGTH:
        for form, count in _ending(connection, folder_id, word, len(word) + 1, _LONGEST):
            kin.append((form, _ENDS, count))
    if word.endswith("ies"):
        kin += [(f, _PLURAL, c) for f, c in _counts(connection, folder_id, [f"{word[:-3]}y"]).items()]
    elif word.endswith("y"):
        kin += [(f, _PLURAL, c) for f, c in _counts(connection, folder_id, [f"{word[:-1]}ies"]).items()]
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


def _near(connection: DbConnection, folder_id: int, word: str) -> dict[str, int]:
    """Words that differ by one letter: added, omitted or replaced, or by two that are swapped.

    In every case the first or the last letters, up to just before the middle, are the same.
    """
    if len(word) < _MIN_TYPO_LENGTH or is_unspaced(word) or word.isdigit():
        return {}
    half = (len(word) - 1) // 2
    bounds = (len(word) - 1, len(word) + 1)
    candidates = {
        **dict(_beginning(connection, folder_id, word[:half], *bounds)),
        **dict(_ending(connection, folder_id, word[-half:], *bounds)),
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
    connection: DbConnection, folder_id: int, start: str, shortest: int, longest: int
) -> Iterable[tuple[str, int]]:
    return _range(connection, BEGINNING, folder_id, start, shortest, longest)


def _ending(
    connection: DbConnection, folder_id: int, end: str, shortest: int, longest: int
) -> Iterable[tuple[str, int]]:
    return _range(connection, ENDING, folder_id, end[::-1], shortest, longest)


def _range(
    connection: DbConnection, sql: str, folder_id: int, start: str, shortest: int, longest: int
) -> Iterable[tuple[str, int]]:
    bounds = (folder_id, start, start + _LAST, shortest, longest, MAX_LOOKED_AT)
    return [(str(word), int(count)) for word, count in connection.query(sql, bounds)]
