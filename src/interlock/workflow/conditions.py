"""Conditions on edges: comparisons of recorded values of a run, joined by `and`, `or` and `not`.

    review.outcome == "approve" and build.visits < 3

Python parses the structure, never the words: each name and literal is replaced by a placeholder first, so
that no text can become a call, an import or a huge number. Evaluation cannot fail: a name without a value
is null, and values of different types are neither equal nor ordered.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Value = str | int | float | bool | None
Path = tuple[str, ...]
Lookup = Callable[[Path], Value]

MAX_CHARS = 500
MAX_DEPTH = 20

_TOKEN = re.compile(
    r"""(?P<text>"[^"]*"|'[^']*')
    |(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,6})?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<sign>==|!=|<=|>=|<|>|\(|\))
    |(?P<other>\S)""",
    re.VERBOSE,
)
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}
_ORDERS: dict[type[ast.cmpop], Callable[..., bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# Each token takes as many characters of the text that Python parses, which gives a fault its token.
_WIDTH = 8


class InvalidCondition(ValueError):
    """Why a text is not a condition, and at which character (counted from 1)."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(f"{reason} (at character {column})")
        self.column = column


@dataclass(frozen=True, slots=True)
class EdgeCondition:
    """A condition: `_tree` holds comparisons and placeholders only, `_operands` what these stand for."""

    text: str
    _tree: ast.expr = field(compare=False, repr=False)
    _operands: Mapping[str, Value | Path] = field(compare=False, repr=False)

    def holds(self, lookup: Lookup) -> bool:
        return self._value(self._tree, lookup) is True

    @property
    def names(self) -> frozenset[Path]:
        return frozenset(each for each in self._operands.values() if isinstance(each, tuple))

    @property
    def compared(self) -> frozenset[tuple[Path, Value]]:
        """The paths compared for equality with a literal value."""
        found: set[tuple[Path, Value]] = set()
        for node in ast.walk(self._tree):
            match node:
                case ast.Compare(ast.Name(left), [ast.Eq() | ast.NotEq()], [ast.Name(right)]):
                    for one, other in ((left, right), (right, left)):
                        path, value = self._operands[one], self._operands[other]
                        if isinstance(path, tuple) and not isinstance(value, tuple):
                            found.add((path, value))
        return frozenset(found)

    def _value(self, node: ast.expr, lookup: Lookup) -> Value:
        match node:
            case ast.Name(name):
                operand = self._operands[name]
                return lookup(operand) if isinstance(operand, tuple) else operand
            case ast.UnaryOp(_, inner):
                return self._value(inner, lookup) is not True
            case ast.BoolOp(word, parts):
                hold = (self._value(part, lookup) is True for part in parts)
                return all(hold) if isinstance(word, ast.And) else any(hold)
            case ast.Compare(left, [sign], [right]):
                return _compared(sign, self._value(left, lookup), self._value(right, lookup))
        raise AssertionError(node)


def parse_condition(text: str) -> EdgeCondition:
    """Parse a condition. Raises only `InvalidCondition`."""
    if len(text) > MAX_CHARS:
        raise InvalidCondition(f"a condition can have at most {MAX_CHARS} characters", MAX_CHARS + 1)
    operands: dict[str, Value | Path] = {}
    source, columns, depth = "", list[int](), 0
    for token in _TOKEN.finditer(text):
        word, column = token[0], token.start() + 1
        depth += (word == "(") - (word == ")")
        if token["other"]:
            raise InvalidCondition(f"unexpected character {word!r}", column)
        if depth > MAX_DEPTH:
            raise InvalidCondition("it is nested too deeply", column)
        if not token["sign"] and word not in {"and", "or", "not"}:
            placeholder = f"_{len(operands)}"
            operands[placeholder] = _operand(token)
            word = placeholder
        source += word.ljust(_WIDTH)
        columns.append(column)

    def refused(reason: str, offset: int) -> InvalidCondition:
        place = offset // _WIDTH
        return InvalidCondition(reason, columns[place] if place < len(columns) else len(text) + 1)

    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise refused("it must be comparisons joined with and, or, not", (error.offset or 1) - 1) from None
    if foreign := _first_foreign(tree):
        raise refused(*foreign)
    return EdgeCondition(text, tree, operands)


def _operand(token: re.Match[str]) -> Value | Path:
    word = token[0]
    if token["text"]:
        return word[1:-1]
    if token["number"]:
        return float(word) if "." in word else int(word)
    return _WORDS[word] if word in _WORDS else tuple(word.split("."))


def _first_foreign(node: ast.expr, depth: int = 0) -> tuple[str, int] | None:
    """The first part that is no comparison, with its offset: a call, a tuple, a chain of comparisons."""
    if depth > MAX_DEPTH:
        return "it is nested too deeply", node.col_offset
    match node:
        case ast.Name():
            return None
        case ast.UnaryOp(ast.Not(), inner):
            return _first_foreign(inner, depth + 1)
        case ast.BoolOp(_, parts):
            inside = parts
        case ast.Compare(left, [_], [right]):
            inside = [left, right]
        case ast.Compare(_, _, [_, second, *_]):
            return "a comparison has two sides; join several with and", second.col_offset
        case _:
            return "it must be comparisons joined with and, or, not", node.col_offset
    return next((found for part in inside if (found := _first_foreign(part, depth))), None)


def _compared(sign: ast.cmpop, left: Value, right: Value) -> bool:
    kind = _kind(left)
    is_alike = kind == _kind(right)
    if isinstance(sign, ast.Eq | ast.NotEq):
        return (is_alike and left == right) is isinstance(sign, ast.Eq)
    return is_alike and kind in {"text", "number"} and _ORDERS[type(sign)](left, right)


def _kind(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "text" if isinstance(value, str) else "number"
