"""Ranks passages, and by them notes. One function for both databases, so that both answer alike."""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from interlock.memory.query_expansion import QueryTerm

# BM25: how soon more of a word stops to count, and how much a passage's length lowers its score.
_SATURATION, _LENGTH_WEIGHT, _USUAL_WORDS = 1.2, 0.5, 100
_HEAD_WEIGHT = 2.0
_ADJACENT_WITHIN = 3
_ADJACENT_BONUS = 0.3
_COVERAGE_FLOOR = 0.35
_OTHER_PASSAGES = 0.5
_RECENT_BONUS, _RECENT_DAYS = 0.04, 180


@dataclass(frozen=True, slots=True)
class PassageCandidate:
    """A passage that has at least one of the words."""

    id: int
    note_id: int
    head_words: list[str]
    words: list[str]
    day: str | None


@dataclass(frozen=True, slots=True)
class RankedNote:
    """A note, with its best passage first, then others that match."""

    note_id: int
    score: float
    passage_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Scored:
    candidate: PassageCandidate
    score: float
    # The score of each term, in the query's order; zero where it is missing.
    parts: tuple[float, ...]


class PassageRanker:
    """The weights of the terms of one query, and the scores of passages by them."""

    def __init__(self, sought: Sequence[QueryTerm], passages: int, today: date) -> None:
        self._today = today
        self._worth: dict[str, list[tuple[int, float]]] = {}
        self._full = [0.0] * len(sought)
        for number, word in enumerate(sought):
            own = word.forms.get(word.asked.text, (0.0, 0))[1]
            for form, (worth, count) in word.forms.items():
                # Another form never counts more than the word itself, however rare it is.
                value = word.asked.weight * worth * rarity(max(count, own), passages)
                self._worth.setdefault(form, []).append((number, value))
                self._full[number] = max(self._full[number], value)
        self._words = frozenset(self._worth)

    def notes(self, candidates: Sequence[PassageCandidate]) -> list[RankedNote]:
        """The notes of these passages, best first."""
        by_note: dict[int, list[_Scored]] = {}
        for candidate in candidates:
            by_note.setdefault(candidate.note_id, []).append(self._scored(candidate))
        ranked = [self._note(note_id, scored) for note_id, scored in by_note.items()]
        return sorted(ranked, key=lambda note: (-note.score, note.note_id))

    def _note(self, note_id: int, scored: list[_Scored]) -> RankedNote:
        scored.sort(key=lambda one: (-one.score, one.candidate.id))
        best = scored[0]
        # Terms that only other passages of the same note have still count for the note.
        elsewhere = sum(
            max(0.0, max(one.parts[number] for one in scored) - best.parts[number])
            for number in range(len(self._full))
        )
        score = best.score + _OTHER_PASSAGES * elsewhere
        return RankedNote(note_id, score, tuple(one.candidate.id for one in scored if one.score > 0))

    def _scored(self, candidate: PassageCandidate) -> _Scored:
        frequency = {word: float(candidate.words.count(word)) for word in self._words & {*candidate.words}}
        places = self._places(candidate.words, frequency)
        for word in self._words.intersection(candidate.head_words):
            frequency[word] = frequency.get(word, 0.0) + _HEAD_WEIGHT
        length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * len(candidate.words) / _USUAL_WORDS
        parts = [0.0] * len(self._full)
        for word, count in frequency.items():
            saturated = count * (_SATURATION + 1) / (count + _SATURATION * length)
            for number, value in self._worth[word]:
                parts[number] = max(parts[number], value * saturated)
        score = sum(parts) * self._coverage(parts) + self._adjacency(places)
        return _Scored(candidate, score * (1 + self._recency(candidate.day)), tuple(parts))

    def _places(self, words: Sequence[str], present: Container[str]) -> list[tuple[int, int]]:
        """The positions of query terms in the passage, each with its number in the query."""
        return [
            (place, number)
            for place, word in enumerate(words)
            if word in present
            for number, _ in self._worth[word]
        ]

    def _coverage(self, parts: Sequence[float]) -> float:
        """The share of the query that is covered, by the weight of its terms."""
        full = sum(self._full)
        there = sum(min(part, most) for part, most in zip(parts, self._full, strict=True))
        return _COVERAGE_FLOOR + (1 - _COVERAGE_FLOOR) * (there / full if full else 0.0)

    def _adjacency(self, places: Sequence[tuple[int, int]]) -> float:
        """A bonus where consecutive query terms are near each other in the passage."""
        pairs: set[tuple[int, int]] = set()
        for (place, number), (next_place, next_number) in pairwise(places):
            if number < next_number <= number + 2 and 0 < next_place - place <= _ADJACENT_WITHIN:
                pairs.add((number, next_number))
        return _ADJACENT_BONUS * sum(min(self._full[one], self._full[two]) for one, two in pairs)

    def _recency(self, day: str | None) -> float:
        if day is None:
            return 0.0
        try:
            age = (self._today - date.fromisoformat(day)).days
        except ValueError:
            return 0.0
        return _RECENT_BONUS * math.exp(-max(0, age) / _RECENT_DAYS)


def rarity(count: int, passages: int) -> float:
    """The weight of a word that occurs in so many of all passages."""
    return math.log(1 + (passages - count + 0.5) / (count + 0.5)) if passages >= count else 0.01
