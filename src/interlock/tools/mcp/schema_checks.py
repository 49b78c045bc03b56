"""Looks at a foreign JSON Schema before anybody works with it.

A schema is a program that runs on our side. This refuses what refers to other places, what hides text, and
what could take longer to check than anybody waits: a few lines of references can ask for 2**60 comparisons,
and a pattern that looks around for as many. What is left takes time by its steps and by a value's size, so
the more steps, the smaller the values that are checked.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson
import re2

from interlock.tools.arguments import MAX_ARGUMENT_BYTES, ArgumentValidator, is_too_deep
from interlock.tools.arguments import MAX_DEPTH as MAX_VALUE_DEPTH
from interlock.tools.mcp.tool_names import has_hidden_characters, to_visible_line

MAX_SCHEMA_BYTES = 32 * 1024
MAX_DEPTH = 32
MAX_STEPS = 50_000
MAX_TEXT_CHARS = 1_000
# Steps times bytes: a fraction of a second.
MAX_WORK = 200_000_000
# No value is deeper that is checked.
_LEVELS = MAX_VALUE_DEPTH

_TEXTS = frozenset({"description", "title", "$comment"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# A character by its number, which is written otherwise for the check.
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_OLD_DRAFTS = re.compile(r"draft-0[1-5]\b")
# What a keyword applies its schemas to: the value itself, or what is inside an object or an array.
_HERE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
_IN_OBJECTS = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        "propertyNames",
    }
)
_IN_ARRAYS = frozenset(
    {"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"},
)
_KINDS = {"object": _IN_OBJECTS, "array": _IN_ARRAYS}
# Where other keys than the named ones may come from.
_OPENS = frozenset(
    {*_HERE, *_REFERENCES, "patternProperties", "additionalProperties", "unevaluatedProperties"}
)


class UnusableSchema(ValueError):
    """The text says why, for a person."""


def checked_schema(schema: Any) -> dict[str, Any]:
    """The schema as a model may be shown it and arguments be checked by it, or `UnusableSchema`."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UnusableSchema("its schema is not of type object")
    refuse_large_schema(schema)
    refuse_unsafe_schema(schema)
    shown: dict[str, Any] = _shown(schema)
    if _OPENS.isdisjoint(shown):
        # Otherwise a name that a model made up would be passed on unnoticed.
        shown["additionalProperties"] = False
    shown.setdefault("properties", {})
    try:
        ArgumentValidator(shown)
    except (ValueError, RecursionError) as error:
        raise UnusableSchema(to_visible_line(f"its schema cannot be used: {error}", 200)) from None
    return shown


def max_value_bytes(schema: Mapping[str, Any]) -> int:
    """How large a value may be that is checked by this schema while everything else waits."""
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
    """Hidden text, places that references could mean otherwise than they seem to, and endless work."""
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


@lru_cache(maxsize=1024)
def _steps_of(schema: bytes) -> int:
    """Asked of the same schema again and again, and long to find for one that was made for that."""
    return _CostEstimate(orjson.loads(schema)).steps()


def _shown(value: Any) -> Any:
    """With its texts in one line each, bounded and without what cannot be seen."""
    if isinstance(value, dict):
        return {
            key: to_visible_line(item, MAX_TEXT_CHARS)
            if key in _TEXTS and isinstance(item, str)
            else _shown(item)
            for key, item in value.items()
        }
    return [_shown(item) for item in value] if isinstance(value, list) else value


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(inner)


def _strings(value: Any) -> Iterator[str]:
    """Those of a value that stand in no object: objects are looked at by themselves."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


class _CostEstimate:
    """The most steps that checking could take for one value inside another, as a checker would go."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._anchors = {
            f"#{node[name]}": node
            for node in _nodes(schema)
            for name in ("$anchor", "$dynamicAnchor")
            if isinstance(node.get(name), str)
        }
        self._known: dict[tuple[int, int, str], int] = {}
        self._asked: set[tuple[int, int, str]] = set()

    def steps(self) -> int:
        try:
            return max(self._steps(self._schema, _LEVELS, kind) for kind in _KINDS)
        except RecursionError:
            return MAX_STEPS + 1

    def _steps(self, node: Any, levels: int, kind: str) -> int:
        if not isinstance(node, Mapping) or levels == 0:
            return 1
        key = (id(node), levels, kind)
        if key in self._known:
            return self._known[key]
        if key in self._asked:
            # It refers to itself without going deeper, which a checker notices.
            return 1
        self._asked.add(key)
        steps = 1 + sum(self._follow(name, value, levels, kind) for name, value in node.items())
        self._known[key] = steps = min(steps, MAX_STEPS + 1)
        return steps

    def _follow(self, name: str, value: Any, levels: int, kind: str) -> int:
        if name in _REFERENCES and isinstance(value, str):
            return self._steps(self._target(value), levels, kind)
        if name in _HERE:
            return sum(self._steps(part, levels, kind) for part in _parts(name, value))
        if name in _KINDS[kind]:
            each = [
                max(self._steps(part, levels - 1, inside) for inside in _KINDS)
                for part in _parts(name, value)
            ]
            # What is named, or has its place, is looked at once; patterns may all match the same.
            if name == "patternProperties":
                return sum(each) + sum(_pattern_steps(pattern) for pattern in value)
            return max(each, default=1)
        if name == "pattern":
            return _pattern_steps(value)
        return 1 + len(value) if isinstance(value, list) else 1

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            return self._schema if reference == "#" else self._anchors.get(reference)
        found: Any = self._schema
        steps = reference[2:].split("/")
        for step in (part.replace("~1", "/").replace("~0", "~") for part in steps):
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            elif isinstance(found, dict):
                found = found.get(step)
            else:
                return None
        return found


def _pattern_steps(pattern: Any) -> int:
    """For each character. Only patterns that need no trying back and forth have a number of them."""
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


def _parts(name: str, value: Any) -> list[Any]:
    """The schemas that a keyword has: one, a list, or by name."""
    if isinstance(value, list):
        return value
    if name in {"properties", "patternProperties", "dependentSchemas", "dependencies"} and isinstance(
        value, dict
    ):
        return list(value.values())
    return [value]
