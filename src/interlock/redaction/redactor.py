"""Replaces every secret by one mark: those the process holds, and whatever looks like one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from interlock.redaction.known_secrets import MIN_SECRET_LENGTH, rules_for_values
from interlock.redaction.non_secrets import MARK
from interlock.redaction.rule_loader import InvalidRules, RedactionRule, load_builtin_rules
from interlock.redaction.scanner import CompiledRule, RuleSet, Scanner, SecretMatch
from interlock.redaction.secret_names import field_names, is_secret_flag, is_secret_item, is_secret_name
from interlock.redaction.stream import RedactionStream

__all__ = ["MARK", "MIN_SECRET_LENGTH", "Redacted", "Redactor"]


# A shorter secret of digits is masked in texts only: as a number it may be any limit or size.
_MIN_NUMBER_DIGITS = 9
_SAYS_NOTHING = frozenset({type(None), bool, float})


@dataclass(frozen=True, slots=True)
class Redacted:
    """A redacted value, and whether anything was masked in it."""

    value: Any
    changed: bool


class Redactor:
    """Masks the secrets of this process and matches of the rules. It compiles its patterns on first use."""

    def __init__(
        self, known_values: Iterable[str] = (), rules: Iterable[RedactionRule] | None = None
    ) -> None:
        self._known = tuple(sorted(set(known_values)))
        self._rules = None if rules is None else tuple(rules)
        self._numbers = _numbers(self._known)

    def learn(self, values: Iterable[str]) -> None:
        """Add secrets that this process holds from now on."""
        known = tuple(sorted({*self._known, *values}))
        if known != self._known:
            self._known = known
            self._numbers = _numbers(known)
            # Built anew on its next use. An open stream continues with the secrets it knew.
            self.__dict__.pop("_scanner", None)

    @cached_property
    def _scanner(self) -> Scanner:
        rules = _compiled(load_builtin_rules() if self._rules is None else self._rules)
        return Scanner(rules, _compiled(rules_for_values(self._known))) if self._known else Scanner(rules)

    def text(self, text: str) -> str:
        data = _encoded(text)
        found = self._scanner.find(data)
        return _masked(data, found) if found else text

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the secrets in a text begin and end, in order and without overlaps."""
        data = _encoded(text)
        spans = list(_apart(self._scanner.find(data)))
        return spans if len(data) == len(text) else list(_in_characters(data, spans))

    def stream(self) -> RedactionStream:
        """A redactor for streamed text."""
        return RedactionStream(self._scanner, MARK)

    def value(self, value: Any) -> Any:
        """The same structure with every string in it, keys included, redacted.

        A value under a name like `password` is masked whole, whatever it looks like.
        """
        if isinstance(value, str):
            return self.text(value)
        texts: list[str] = []
        if self._gather(value, texts) and not self._scanner.may_contain_secret(_encoded("\n".join(texts))):
            return value
        return self._safe(value)

    def checked(self, value: Any) -> Redacted:
        safe = self.value(value)
        return Redacted(safe, changed=safe is not value and safe != value)

    def _gather(self, value: Any, texts: list[str]) -> bool:
        """Collect the texts in a structure. False if it has something to be masked or converted to text."""
        kind = type(value)
        if kind is dict:
            return self._gather_items(value, texts)
        if kind in _SAYS_NOTHING:
            return True
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, bool | float):
            return True
        elif isinstance(value, int):
            return not self._numbers or str(value) not in self._numbers
        elif isinstance(value, list | tuple):
            before = None
            for item in value:
                if is_secret_flag(before, item) or not self._gather(item, texts):
                    return False
                before = item
        elif isinstance(value, dict | Mapping):
            return self._gather_items(value, texts)
        else:
            return not isinstance(value, bytes)
        return True

    def _gather_items(self, value: Mapping[Any, Any], texts: list[str]) -> bool:
        """Runs for every event: plain texts, which are the most of it, take the short path."""
        named = field_names(value)
        for key, item in value.items():
            if isinstance(key, str):
                texts.append(key)
                name = key if named is None else named(key)
                if is_secret_name(name) and is_secret_item(name, item):
                    return False
            if type(item) is str:
                texts.append(item)
            elif not self._gather(item, texts):
                return False
        return True

    def _safe(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            named = field_names(value) or _same
            return {self._safe(key): self._safe_item(named(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(
                MARK if is_secret_flag(before, item) else self._safe(item)
                for before, item in zip([None, *value], value, strict=False)
            )
        if isinstance(value, bytes):
            return self.text(value.decode("utf-8", "replace"))
        if isinstance(value, int) and not isinstance(value, bool) and str(value) in self._numbers:
            return MARK
        return value

    def _safe_item(self, key: Any, item: Any) -> Any:
        if isinstance(key, str) and is_secret_item(key, item):
            return [MARK for _ in item] if isinstance(item, list | tuple) else MARK
        return self._safe(item)


def _same(key: Any) -> Any:
    return key


def _numbers(known: Iterable[str]) -> frozenset[str]:
    return frozenset(value for value in known if value.isdigit() and len(value) >= _MIN_NUMBER_DIGITS)


@lru_cache(maxsize=16)
def _compiled(rules: tuple[RedactionRule, ...]) -> RuleSet:
    return RuleSet(rules)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _apart(found: Iterable[SecretMatch]) -> Iterator[tuple[int, int]]:
    """Merge overlapping secrets."""
    begin = end = -1
    for each in found:
        if each.begin < end:
            end = max(end, each.end)
            continue
        if begin >= 0:
            yield begin, end
        begin, end = each.begin, each.end
    if begin >= 0:
        yield begin, end


def _masked(data: bytes, found: Iterable[SecretMatch]) -> str:
    pieces, position = [], 0
    for begin, end in _apart(found):
        pieces += [data[position:begin].decode("utf-8", "surrogatepass"), MARK]
        position = end
    pieces.append(data[position:].decode("utf-8", "surrogatepass"))
    return "".join(pieces)


def _in_characters(data: bytes, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    position = counted = 0
    for begin, end in spans:
        first = counted + len(data[position:begin].decode("utf-8", "surrogatepass"))
        counted = first + len(data[begin:end].decode("utf-8", "surrogatepass"))
        position = end
        yield first, counted


def check_examples(rule: RedactionRule) -> None:
    """Refuse a rule whose examples do not hold, also one character at a time."""
    # First by itself, since a set does not report what is wrong.
    CompiledRule(rule)
    redactor = Redactor(rules=(rule,))
    for pieces in rule.must:
        text = "".join(pieces)
        if (shown := redactor.text(text)) == text:
            raise InvalidRules(f"rule {rule.id} does not match its example {text[:12]!r}…")
        stream = redactor.stream()
        if "".join([*(stream.feed(each) + stream.scan() for each in text), stream.finish()]) != shown:
            raise InvalidRules(
                f"rule {rule.id}: begins does not match where its example {text[:12]!r}… begins"
            )
    for text in rule.must_not:
        if redactor.text(text) != text:
            raise InvalidRules(f"rule {rule.id} matches its counter-example {text!r}")
