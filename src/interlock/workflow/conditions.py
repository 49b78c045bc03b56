"""Conditions on edges: comparisons of recorded values of a run, joined by `and`, `or` and `not`.

    review.outcome == "approve" and build.visits < 3

Nothing can be called and nothing can fail: a name without a value is null, and values of different types
are neither equal nor ordered.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Value = str | int | float | bool | None
Lookup = Callable[[tuple[str, ...]], Value]

MAX_CHARS = 500
MAX_DEPTH = 20

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')
    |(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,6})?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<sign>==|!=|<=|>=|<|>|\(|\)))""",
    re.VERBOSE,
)
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}
_COMPARING = frozenset({"==", "!=", "<", "<=", ">", ">="})


class InvalidCondition(ValueError):
    """Why a text is not a condition, and at which character (counted from 1)."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(f"{reason} (at character {column})")
        self.column = column


@dataclass(frozen=True, slots=True)
class LiteralValue:
    value: Value


@dataclass(frozen=True, slots=True)
class NameReference:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    sign: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Negation:
    inner: "Expression"


@dataclass(frozen=True, slots=True)
class BooleanOperation:
    """`and`: all must hold; `or`: one is enough."""

    word: str
    parts: tuple["Expression", ...]


Expression = LiteralValue | NameReference | Comparison | Negation | BooleanOperation


@dataclass(frozen=True, slots=True)
class EdgeCondition:
    text: str
    expression: Expression

    def holds(self, lookup: Lookup) -> bool:
        return _value(self.expression, lookup) is True

    @property
    def names(self) -> frozenset[tuple[str, ...]]:
        return frozenset(_names(self.expression))

    @property
    def compared(self) -> frozenset[tuple[tuple[str, ...], Value]]:
        """The paths compared for equality with a literal value."""
        return frozenset(_equated(self.expression))


def parse_condition(text: str) -> EdgeCondition:
    """Parse a condition. Raises only `InvalidCondition`."""
    if len(text) > MAX_CHARS:
        raise InvalidCondition(f"a condition can have at most {MAX_CHARS} characters", MAX_CHARS + 1)
    return EdgeCondition(text, _Parser(text).whole())


# -- parsing -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            column = place + len(text[place:]) - len(text[place:].lstrip()) + 1
            raise InvalidCondition(f"unexpected character {text[column - 1]!r}", column)
        kind = found.lastgroup
        word = found[kind]
        if kind == "name" and word in {"and", "or", "not"}:
            kind = "sign"
        yield _Token(kind, word, found.start(found.lastgroup) + 1)
        place = found.end()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0
        self._end = _Token("end", "", len(text) + 1)

    def whole(self) -> Expression:
        found = self._either(0)
        if self._next.kind != "end":
            raise InvalidCondition(
                f"unexpected '{self._next.text}'; join conditions with and, or", self._next.column
            )
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else self._end

    def _take(self, *signs: str) -> str | None:
        token = self._next
        if token.kind == "sign" and token.text in signs:
            self._place += 1
            return token.text
        return None

    def _either(self, depth: int) -> Expression:
        parts = [self._all(depth)]
        while self._take("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else BooleanOperation("or", tuple(parts))

    def _all(self, depth: int) -> Expression:
        parts = [self._negated(depth)]
        while self._take("and"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else BooleanOperation("and", tuple(parts))

    def _negated(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise InvalidCondition("it is nested too deeply", self._next.column)
        if self._take("not"):
            return Negation(self._negated(depth + 1))
        left = self._operand(depth)
        if (sign := self._take(*_COMPARING)) is None:
            return left
        return Comparison(sign, left, self._operand(depth))

    def _operand(self, depth: int) -> Expression:
        token = self._next
        if self._take("("):
            inner = self._either(depth + 1)
            if not self._take(")"):
                raise InvalidCondition("a closing parenthesis is missing", self._next.column)
            return inner
        self._place += 1
        match token.kind:
            case "text":
                return LiteralValue(token.text[1:-1])
            case "number":
                return LiteralValue(float(token.text) if "." in token.text else int(token.text))
            case "name":
                return (
                    LiteralValue(_WORDS[token.text])
                    if token.text in _WORDS
                    else NameReference(_path(token.text))
                )
        what = f"unexpected '{token.text}'" if token.text else "unexpected end"
        raise InvalidCondition(f"{what}; expected a name, a quoted text or a number", token.column)


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


# -- evaluation ----------------------------------------------------------------------------------------


def _value(expression: Expression, lookup: Lookup) -> Value:
    match expression:
        case LiteralValue(value):
            return value
        case NameReference(path):
            return lookup(path)
        case Negation(inner):
            return _value(inner, lookup) is not True
        case BooleanOperation("and", parts):
            return all(_value(part, lookup) is True for part in parts)
        case BooleanOperation(_, parts):
            return any(_value(part, lookup) is True for part in parts)
        case Comparison(sign, left, right):
            return _compared(sign, _value(left, lookup), _value(right, lookup))


def _compared(sign: str, left: Value, right: Value) -> bool:
    if sign in {"==", "!="}:
        return (_kind(left) == _kind(right) and left == right) is (sign == "==")
    if isinstance(left, str) and isinstance(right, str):
        return _ordered(sign, left < right, left == right)
    if _kind(left) == _kind(right) == "number" and left is not None and right is not None:
        return _ordered(sign, float(left) < float(right), float(left) == float(right))
    return False


def _ordered(sign: str, is_less: bool, is_equal: bool) -> bool:  # noqa: FBT001 - the two answers there are
    match sign:
        case "<":
            return is_less
        case "<=":
            return is_less or is_equal
        case ">":
            return not (is_less or is_equal)
        case _:
            return not is_less


def _kind(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "text" if isinstance(value, str) else "number"


def _names(expression: Expression) -> Iterator[tuple[str, ...]]:
    match expression:
        case NameReference(path):
            yield path
        case Negation(inner):
            yield from _names(inner)
        case BooleanOperation(_, parts):
            for part in parts:
                yield from _names(part)
        case Comparison(_, left, right):
            yield from _names(left)
            yield from _names(right)
        case LiteralValue():
            pass


def _equated(expression: Expression) -> Iterator[tuple[tuple[str, ...], Value]]:
    match expression:
        case Comparison("==" | "!=", NameReference(path), LiteralValue(value)) | Comparison(
            "==" | "!=", LiteralValue(value), NameReference(path)
        ):
            yield path, value
        case Comparison(_, left, right):
            yield from _equated(left)
            yield from _equated(right)
        case Negation(inner):
            yield from _equated(inner)
        case BooleanOperation(_, parts):
            for part in parts:
                yield from _equated(part)
        case _:
            pass
