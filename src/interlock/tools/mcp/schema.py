"""Checks a foreign JSON Schema before it is used.

A schema is a program that runs on our side. This refuses external references, hidden text, and schemas that
take too long to evaluate: a few lines of references can ask for 2**60 comparisons, and a pattern with
lookaround for as many. The remaining cost is steps times the size of a value, so more steps allow only
smaller values.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson
import re2

from interlock.core.text import has_hidden_characters, to_visible_line
from interlock.tools.arguments import MAX_ARGUMENT_BYTES, SchemaParser, is_too_deep
from interlock.tools.arguments import MAX_DEPTH as MAX_VALUE_DEPTH

MAX_SCHEMA_BYTES = 32 * 1024
MAX_DEPTH = 32
MAX_STEPS = 50_000
MAX_TEXT_CHARS = 1_000
# Steps times bytes: a fraction of a second.
MAX_WORK = 200_000_000

_TEXTS = frozenset({"description", "title", "$comment"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
# Keywords by what they apply their schemas to: the value itself, or the parts of an object or array.
_HERE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
_INSIDE = {
    "object": frozenset(
        {
            *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
            "propertyNames",
        }
    ),
    "array": frozenset({"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"}),
}
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
# Where other keys than the named ones may come from.
_OPENS = _HERE | _REFERENCES | {"patternProperties", "additionalProperties", "unevaluatedProperties"}
_OLD_DRAFTS = re.compile(r"draft-0[1-5]\b")
# A character by its number, which is written otherwise for the check.
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


class UnusableSchema(ValueError):
    """The text says why, for a person."""


def checked_schema(schema: Any) -> dict[str, Any]:
    """The schema to show to models and to check arguments by, or `UnusableSchema`."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UnusableSchema("its schema is not of type object")
    refuse_large_schema(schema)
    refuse_unsafe_schema(schema)
    shown: dict[str, Any] = _shown(schema)
    if _OPENS.isdisjoint(shown):
        # Otherwise a made-up name would be passed on unnoticed.
        shown["additionalProperties"] = False
    shown.setdefault("properties", {})
    try:
        SchemaParser(shown)
    except (ValueError, RecursionError) as error:
        raise UnusableSchema(to_visible_line(f"its schema cannot be used: {error}", 200)) from None
    return shown


def max_value_bytes(schema: Mapping[str, Any]) -> int:
    """The maximum size of a value that this schema may check on the event loop."""
    return min(MAX_ARGUMENT_BYTES, MAX_WORK // _steps_of(orjson.dumps(schema)))


def refuse_large_schema(schema: Any) -> None:
    if is_too_deep(schema, MAX_DEPTH):
        raise UnusableSchema(f"its schema is nested deeper than {MAX_DEPTH} levels")
    try:
        size = len(orjson.dumps(schema))
    except (TypeError, ValueError):
        raise UnusableSchema("its schema contains something that is not JSON") from None
    if size > MAX_SCHEMA_BYTES:
        raise UnusableSchema(f"its schema is larger than {MAX_SCHEMA_BYTES} bytes")


def refuse_unsafe_schema(schema: dict[str, Any]) -> None:
    """Refuse hidden text, ambiguous reference targets, and unbounded work."""
    for node in _nodes(schema):
        for key, value in node.items():
            words = [key, *(_strings(value) if key not in _TEXTS else ())]
            if any(has_hidden_characters(word) for word in words):
                raise UnusableSchema("its schema contains invisible characters")
        if node is not schema and isinstance(node.get("$id"), str):
            raise UnusableSchema("its schema gives a part of itself its own address ($id)")
    if _OLD_DRAFTS.search(str(schema.get("$schema", ""))):
        raise UnusableSchema("its schema uses a draft older than 6")
    if _steps_of(orjson.dumps(schema)) > MAX_STEPS:
        raise UnusableSchema("its schema cannot be checked in bounded time")


def _shown(value: Any, key: str = "") -> Any:
    """The value with each text on one line, limited and without invisible characters."""
    if isinstance(value, dict):
        return {name: _shown(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return to_visible_line(value, MAX_TEXT_CHARS) if key in _TEXTS and isinstance(value, str) else value


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(inner)


def _strings(value: Any) -> Iterator[str]:
    """The strings of a value outside of objects, which are checked by themselves."""
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, list) else ():
        yield from _strings(item)


# -- cost --


@lru_cache(maxsize=1024)
def _steps_of(schema: bytes) -> int:
    """The maximum number of steps to check one value. Cached: hostile schemas take long."""
    cost = _Cost(orjson.loads(schema))
    try:
        return max(cost.steps(cost.schema, MAX_VALUE_DEPTH, kind) for kind in _INSIDE)
    except RecursionError:
        return MAX_STEPS + 1


class _Cost:
    """Counts the steps of a validator: a part of the value is either an object or an array."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._anchors = {
            f"#{node[name]}": node
            for node in _nodes(schema)
            for name in ("$anchor", "$dynamicAnchor")
            if isinstance(node.get(name), str)
        }
        self._known: dict[tuple[int, int, str], int] = {}

    def steps(self, node: Any, levels: int, kind: str) -> int:
        if not isinstance(node, Mapping) or levels == 0:
            return 1
        key = (id(node), levels, kind)
        if key not in self._known:
            # It may refer to itself without going deeper, which a checker notices.
            self._known[key] = 1
            steps = 1 + sum(self._keyword(name, value, levels, kind) for name, value in node.items())
            self._known[key] = min(steps, MAX_STEPS + 1)
        return self._known[key]

    def _keyword(self, name: str, value: Any, levels: int, kind: str) -> int:
        parts = value if isinstance(value, list) else [value]
        if name in _BY_NAME and isinstance(value, dict):
            parts = list(value.values())
        if name in _REFERENCES and isinstance(value, str):
            return self.steps(self._target(value), levels, kind)
        if name in _HERE:
            return sum(self.steps(part, levels, kind) for part in parts)
        if name in _INSIDE[kind]:
            each = [max(self.steps(part, levels - 1, inside) for inside in _INSIDE) for part in parts]
            # A named or positional item is checked once; several patterns may match the same name.
            if name == "patternProperties":
                return sum(each) + sum(_pattern_steps(pattern) for pattern in value)
            return max(each, default=1)
        if name == "pattern":
            return _pattern_steps(value)
        return 1 + len(value) if isinstance(value, list) else 1

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            return self.schema if reference == "#" else self._anchors.get(reference)
        found: Any = self.schema
        for step in reference[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                found = found.get(step) if isinstance(found, dict) else None
        return found


def _pattern_steps(pattern: Any) -> int:
    """Steps per character. Only patterns without backtracking have a bound."""
    if not isinstance(pattern, str):
        return 1
    options = re2.Options()
    options.log_errors = False
    try:
        steps: int = re2.compile(_ESCAPED.sub(r"\\x{\1}", pattern), options).programsize
    except re2.error:
        raise UnusableSchema(
            to_visible_line(
                f"its schema has a pattern that cannot be checked in bounded time: {pattern}", 200
            )
        ) from None
    return 1 + steps
