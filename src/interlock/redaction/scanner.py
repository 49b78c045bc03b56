"""Finds the secrets in bytes, by all rules at once and in linear time.

A set of patterns determines in one pass which rules may match; only those are then searched for. The sets
count no further than to three (`loosened`), which keeps them small and fast.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import re2

from interlock.redaction.candidate import LOOKS_BACK, Check, SecretCandidate
from interlock.redaction.re2_engine import (
    MEMORY_OF_A_SET,
    Search,
    Which,
    make_search,
    make_set_matcher,
    options,
)
from interlock.redaction.rule_loader import (
    InvalidRules,
    RedactionRule,
    any_beginning,
    engine_reason,
    is_closed,
)

# A rejected candidate is searched again for matches inside it, unless that would take long.
_MAX_REJECTED = 256
# A long text is scanned in blocks of whole words, so that a rule that may match in one is not searched
# for in all. The end of a match that begins in a block is expected within so many bytes behind it.
_BLOCK, _MAX_BLOCK = 16 * 1024, 256 * 1024
_BEYOND, _MAX_BEYOND = 1024, 64 * 1024
_WORD_END = re.compile(rb"[ \n]")
# In a stream, text waits behind the beginning of a possible match: for so many bytes and line ends.
_WAITING_BYTES, _WAITING_LINES = 512, 4
# A known value waits longer, since a dump of it is long.
_WAITING_KNOWN = 4096
# The longest word that begins a match and has characters beyond ASCII.
_LONGEST_BEGINNING = 24
# Characters that a pattern without a beginning may match (`is_closed`).
_CLOSED_RUN = re.compile(rb"[^\s\x80-\xff]*")
# A set's automaton has a state for every combination of partial matches. Patterns with many words are so
# often in the middle of one that they have a set of their own.
_MANY_WORDS = 350
_COUNTED = 3
_COUNT = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(,?)(\d*)\}")
_NOWHERE = (-1, -1)


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """A match from `start` to `stop`, with the secret in it from `begin` to `end`.

    If `begin` is `end`, it is a rejected candidate, and `stop` is where the search continued.
    """

    start: int
    stop: int
    begin: int
    end: int


@dataclass(slots=True)
class _Area:
    """Where wanted matches begin, how far they may reach, and where the next may begin."""

    start: int
    end: int
    limit: int
    reached: int = 0


class RuleSet:
    """Rules, compiled together."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        ready = [(rule, rule.loose or loosened(rule.pattern)) for rule in rules]
        ready.sort(key=lambda each: len(each[1]) > _MANY_WORDS)
        self._rules = [rule for rule, _ in ready]
        self._finders: dict[int, CompiledRule] = {}
        self.which = self._which_of_all([loose for _, loose in ready])

    def finder(self, number: int) -> "CompiledRule":
        finder = self._finders.get(number)
        if finder is None:
            finder = self._finders[number] = CompiledRule(self._rules[number])
        return finder

    def undecided_from(self, data: bytes, first: int) -> int:
        """Where the first text begins, at or behind `first`, that more text could complete to a match."""
        undecided = len(data)
        if (
            self._begins is not None
            and (begin := self._begins(data, _recent(data, first), len(data))[0][0]) >= 0
        ):
            undecided = max(first, _run_before(data, begin))
        if self._unfinished is not None:
            begin = self._unfinished(data, max(first, len(data) - _WAITING_KNOWN), len(data))[0][0]
            undecided = min(undecided, begin) if begin >= 0 else undecided
        return undecided

    @cached_property
    def _begins(self) -> Search | None:
        open_rules = (rule for rule in self._rules if not rule.unfinished and not is_closed(rule.pattern))
        patterns = sorted({rule.begins or any_beginning(rule.pattern) for rule in open_rules})
        return make_search("|".join(patterns)) if patterns else None

    @cached_property
    def _unfinished(self) -> Search | None:
        patterns = [rule.unfinished for rule in self._rules if rule.unfinished]
        return make_search(rf"(?:{'|'.join(patterns)})\z") if patterns else None

    def _which_of_all(self, loose: Sequence[str]) -> Which:
        """By two sets: patterns with many words come after the others."""
        first = sum(len(source) <= _MANY_WORDS for source in loose)
        if not 0 < first < len(loose):
            return _which_of(self._rules, loose)
        few = _which_of(self._rules[:first], loose[:first])
        many = _which_of(self._rules[first:], loose[first:])

        def which(data: bytes) -> list[int]:
            hits, more = few(data), many(data)
            return [*hits, *(first + hit for hit in more)] if more else hits

        return which


class Scanner:
    """Several sets of rules. Texts are UTF-8, or bytes of any kind."""

    def __init__(self, *sets: RuleSet) -> None:
        self._sets = sets

    def may_contain_secret(self, data: bytes) -> bool:
        """False if there is certainly no secret."""
        return any(rules.which(data) for rules in self._sets)

    def find(self, data: bytes, start: int = 0) -> list[SecretMatch]:
        """Every secret from `start` on, sorted; those of different rules may overlap."""
        return [each for each in self.scan_with_rejected(data, start) if each.begin < each.end]

    def scan_with_rejected(self, data: bytes, start: int = 0) -> list[SecretMatch]:
        """The same with rejected candidates: cut there, a text would be scanned differently."""
        found: list[SecretMatch] = []
        reached: dict[tuple[int, int], int] = {}
        end = start
        while (begin := end) < len(data):
            end = _word_end(data, begin + _BLOCK, begin + _MAX_BLOCK)
            limit = _word_end(data, end + _BEYOND, end + _MAX_BEYOND)
            # With the byte before it, which decides where a word begins.
            part = data[max(begin - 1, 0) : limit]
            for number, rules in enumerate(self._sets):
                for hit in rules.which(part):
                    area = _Area(max(begin, reached.get((number, hit), 0)), end, limit)
                    found += rules.finder(hit).find(data, area)
                    reached[number, hit] = area.reached
        return sorted(found, key=lambda each: (each.begin, each.end)) if len(found) > 1 else found

    def undecided_from(self, data: bytes, first: int) -> int:
        """Where the text begins that a stream holds back: what more text could complete to a match."""
        word = undecided = last_word(data, len(data))
        if not data[word:].isascii():
            undecided = min(_run_before(data, len(data)), max(len(data) - _LONGEST_BEGINNING, word))
        if undecided <= first:
            return first
        for rules in self._sets:
            undecided = min(undecided, rules.undecided_from(data, first))
        return max(first, _whole(data, undecided, 0)[0])


class CompiledRule:
    """One rule, compiled."""

    def __init__(self, rule: RedactionRule) -> None:
        self._check: Check | None = rule.check
        try:
            self._pattern = re2.compile(rule.pattern.encode(), options(catching=True))
            self._groups: int = self._pattern.groups
            self._after = re2.compile(rule.after.encode(), options()) if rule.after else None
        except re2.error as error:
            raise InvalidRules(f"rule {rule.id}: {engine_reason(error)}") from None

    def find(self, data: bytes, area: "_Area") -> Iterator[SecretMatch]:
        """The matches that begin in the area. One that reaches its limit is followed to its end."""
        at = area.start
        while at < area.end and (match := self._pattern.search(data, at, area.limit)):
            if match.start() >= area.end:
                break
            if match.end() == area.limit:
                match = self._pattern.search(data, match.start())
            begin, end = self._secret_in(match)
            if self._is_secret(data, match.start(), begin, end):
                yield SecretMatch(*_whole(data, match.start(), match.end()), *_whole(data, begin, end))
                at = match.end()
            else:
                is_short = match.end() - match.start() <= _MAX_REJECTED
                at = max(begin, match.start() + 1) if is_short else match.end()
                yield SecretMatch(match.start(), at, at, at)
        area.reached = at

    def _secret_in(self, match: "re2._Match") -> tuple[int, int]:
        for group in range(1, self._groups + 1):
            span: tuple[int, int] = match.span(group)
            if span != _NOWHERE:
                return span
        return match.start(), match.end()

    def _is_secret(self, data: bytes, start: int, begin: int, end: int) -> bool:
        if self._after is not None:
            line = data[max(0, start - LOOKS_BACK) : start].rpartition(b"\n")[2]
            if self._after.search(line) is None:
                return False
        return self._check is None or self._check(SecretCandidate(data, start, begin, end))


def _which_of(rules: Sequence[RedactionRule], sources: Sequence[str]) -> Which:
    if not sources:
        return lambda _: []
    patterns = re2.Set.SearchSet(options(memory=MEMORY_OF_A_SET))
    for rule, source in zip(rules, sources, strict=True):
        try:
            patterns.Add(source.encode())
        except re2.error as error:
            raise InvalidRules(f"rule {rule.id}: {engine_reason(error)}") from None
    return make_set_matcher(patterns)


def loosened(pattern: str) -> str:
    """A pattern that matches wherever this one does, with far fewer states: it counts to three at most."""

    def counted(found: re.Match[str]) -> str:
        least, comma, most = found.groups()
        if least is None or (not comma and int(least) <= _COUNTED):
            return found[0]
        return f"{{{min(int(least), _COUNTED)},{most if most and int(most) <= _COUNTED else ''}}}"

    return _COUNT.sub(counted, pattern)


def last_word(data: bytes, end: int) -> int:
    """The offset of the last word before an offset."""
    return max(data.rfind(b" ", 0, end), data.rfind(b"\n", 0, end)) + 1


def _run_before(data: bytes, end: int) -> int:
    """Where the run of ASCII characters without white space begins that ends at an offset."""
    at = last_word(data, end)
    run = _CLOSED_RUN.match(data[at:end][::-1])
    return end - (run.end() if run else 0)


def _word_end(data: bytes, least: int, most: int) -> int:
    if least >= len(data):
        return len(data)
    found = _WORD_END.search(data, least, most)
    return found.start() if found else min(most, len(data))


def _recent(data: bytes, first: int) -> int:
    """Where the last lines begin, of so many bytes at most."""
    begin, line = max(first, len(data) - _WAITING_BYTES), len(data)
    for _ in range(_WAITING_LINES + 1):
        line = data.rfind(b"\n", begin, line)
        if line < 0:
            return begin
    return line + 1


def _whole(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Extend both ends to whole characters, which an operator's pattern may have split."""
    while start > 0 and data[start : start + 1] and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end
