"""Finds the secrets in bytes, by all rules at once and in linear time.

Two sets of patterns determine in a pass each which rules may match; only those are then searched for. The
sets count no further than they must (`relax_pattern`), which keeps them small and fast.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import re2

from interlock.redaction.candidate import LOOKS_BACK, Check, SecretCandidate
from interlock.redaction.pattern_parser import PatternNode, count_groups, prefix_pattern, to_source
from interlock.redaction.prefilters import first_characters, head_pattern, relax_pattern
from interlock.redaction.re2_engine import (
    MEMORY_OF_A_SET,
    Search,
    Which,
    make_search,
    make_set_matcher,
    options,
)
from interlock.redaction.rule_loader import InvalidRules, RedactionRule

# A rejected candidate is searched again for matches inside it, unless that would take long.
_MAX_REJECTED = 256
# A long text is scanned in blocks, so that a rule that may match in one is not searched for in all. The end
# of a match that begins in a block is expected within so many bytes behind it; if it is not there, the
# block is a long one, and it is searched for within many more.
_BLOCK = 16 * 1024
_LONG_BLOCK = 256 * 1024
_BEYOND = 1024
_FAR_BEYOND = 64 * 1024
# A longer pattern has more states than its automaton's memory holds, and becomes slow.
_MAX_TOGETHER = 20_000
# A set's automaton has a state for every combination of partial matches. Patterns with many words are so
# often in the middle of one that they have a set of their own.
_MANY_WORDS = 350
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


class Scanner:
    """All rules, compiled. Texts are UTF-8, or bytes of any kind."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        ready = [(rule, rule.loose or to_source(relax_pattern(rule.tree))) for rule in rules]
        ready.sort(key=lambda each: _knows_many_words(each[1]))
        self._rules = [rule for rule, _ in ready]
        self._loose = [source for _, source in ready]
        self._finders: dict[int, _Finder] = {}
        self._which = self._which_of_all()

    def may_contain_secret(self, data: bytes) -> bool:
        """False if there is certainly no secret."""
        return bool(self._which(data))

    def find(self, data: bytes, start: int = 0) -> list[SecretMatch]:
        """Every secret from `start` on, sorted; those of different rules may overlap."""
        return [each for each in self.scan_with_rejected(data, start) if each.begin < each.end]

    def scan_with_rejected(self, data: bytes, start: int = 0) -> list[SecretMatch]:
        """The same with rejected candidates: cut there, a text would be scanned differently."""
        found: list[SecretMatch] = []
        reached: dict[int, int] = {}
        end = start
        while (begin := end) < len(data):
            end, limit, hits = self._block(data, begin)
            for hit in hits:
                area = _Area(max(begin, reached.get(hit, 0)), end, limit)
                found += self._finder(hit).find(data, area)
                reached[hit] = area.reached
        return sorted(found, key=lambda each: (each.begin, each.end)) if len(found) > 1 else found

    @cached_property
    def _trees(self) -> list[PatternNode]:
        return [relax_pattern(rule.tree) for rule in self._rules]

    @cached_property
    def heads(self) -> Which:
        """Where it finds nothing, nothing matches, and only the last word can still become a match."""
        return _which_of(self._rules, (to_source(head_pattern(tree)) for tree in self._trees))

    @cached_property
    def first_characters_pattern(self) -> re.Pattern[str]:
        """Where it finds nothing, no match can begin; in ASCII it always does."""
        found = [first_characters(tree) for tree in self._trees]
        known = sorted(set().union(*(each for each in found if each is not None)))
        is_known = None not in found
        return re.compile(f"[\\x00-\\x7f{''.join(map(re.escape, known))}]" if is_known else "")

    def unfinished_from(self, data: bytes, start: int) -> int:
        """Where the first text begins, at or behind `start`, that more text could complete to a match."""
        first = end = len(data)
        for search in self._unfinished:
            begin = search(data, start, end)[0][0]
            if -1 < begin < first:
                first = begin
        return max(start, _whole(data, first, 0)[0])

    def _block(self, data: bytes, begin: int) -> tuple[int, int, list[int]]:
        """The end of the block that begins here, the limit of its matches, and the rules that may match."""
        end = min(begin + _BLOCK, len(data))
        limit = min(end + _BEYOND, len(data))
        # With the byte before it, which decides where a word begins.
        before = max(begin - 1, 0)
        part = data[before:limit]
        hits = self._which(part)
        if limit < len(data) and self._is_open(part, begin - before, end - before, hits):
            # Looking far from many small blocks would read the same text many times.
            end = min(begin + _LONG_BLOCK, len(data))
            limit = min(end + _FAR_BEYOND, len(data))
            hits = self._which(data[before:limit])
        return end, limit, hits

    def _is_open(self, data: bytes, begin: int, end: int, hits: list[int]) -> bool:
        """Whether more text could complete a match that begins before `end`."""
        # The check is slow in one long word, and slower than looking far where no rule may match.
        return (not hits and last_word(data) < end) or self.unfinished_from(data, begin) < end

    @cached_property
    def _unfinished(self) -> list[Search]:
        groups: list[list[str]] = []
        # As few as possible, since each is a pass: long ones first, short ones where there is room.
        for beginnings in sorted(map(prefix_pattern, self._trees), key=len, reverse=True):
            room = _MAX_TOGETHER - len(beginnings)
            group = next((group for group in groups if sum(map(len, group)) <= room), None)
            if group is None:
                groups.append(group := [])
            group.append(beginnings)
        return [make_search(f"(?:{'|'.join(group)})\\z") for group in groups]

    def _which_of_all(self) -> Which:
        """By two sets: patterns with many words come after the others."""
        first = sum(not _knows_many_words(source) for source in self._loose)
        if not 0 < first < len(self._loose):
            return _which_of(self._rules, self._loose)
        few = _which_of(self._rules[:first], self._loose[:first])
        many = _which_of(self._rules[first:], self._loose[first:])

        def which(data: bytes) -> list[int]:
            hits, more = few(data), many(data)
            return [*hits, *(first + hit for hit in more)] if more else hits

        return which

    def _finder(self, number: int) -> "_Finder":
        finder = self._finders.get(number)
        if finder is None:
            finder = self._finders[number] = _Finder(self._rules[number])
        return finder


class _Finder:
    """One rule, compiled."""

    def __init__(self, rule: RedactionRule) -> None:
        tree = rule.tree
        self._groups = count_groups(tree)
        self._check: Check | None = rule.check
        try:
            self._pattern = re2.compile(to_source(tree, catching=True).encode(), options(catching=True))
            self._after = re2.compile(rule.after.encode(), options()) if rule.after else None
        except re2.error as error:
            raise InvalidRules(f"rule {rule.id}: {_said(error)}") from None

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


def _which_of(rules: Iterable[RedactionRule], sources: Iterable[str]) -> Which:
    patterns = re2.Set.SearchSet(options(memory=MEMORY_OF_A_SET))
    for rule, source in zip(rules, sources, strict=True):
        try:
            patterns.Add(source.encode())
        except re2.error as error:
            raise InvalidRules(f"rule {rule.id}: {_said(error)}") from None
    return make_set_matcher(patterns)


def _knows_many_words(source: str) -> bool:
    return len(source) > _MANY_WORDS


def last_word(data: bytes) -> int:
    """The offset of the last word."""
    return max(data.rfind(b" "), data.rfind(b"\n")) + 1


def _whole(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Extend both ends to whole characters, which an operator's pattern may have split."""
    while start > 0 and data[start : start + 1] and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def check_examples(rule: RedactionRule) -> None:
    """Refuse a rule whose examples do not hold, cut anywhere."""
    # First by itself, since a set does not report what is wrong.
    _Finder(rule)
    scanner = Scanner([rule])
    for pieces in rule.must:
        data = "".join(pieces).encode()
        if not scanner.find(data):
            raise InvalidRules(f"rule {rule.id} does not match its example {_shown(pieces)}")
    for text in rule.must_not:
        if scanner.find(text.encode()):
            raise InvalidRules(f"rule {rule.id} matches its counter-example {text!r}")


def _said(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _shown(pieces: tuple[str, ...]) -> str:
    return f"{''.join(pieces)[:12]!r}…"
