"""Foreign schemas: those that people write work, and those that attack are refused before they run."""

import time
from typing import Any

import pytest

from interlock.core.errors import ToolError
from interlock.tools.arguments import SchemaParser
from interlock.tools.mcp.schema import MAX_SCHEMA_BYTES, UnusableSchema, checked_schema
from tests.harness.case_tables import each_row

JSON_VALUE = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$ref": "#/$defs/json"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
    ]
}


def of(**more: Any) -> dict[str, Any]:
    return {"type": "object", **more}


def doubled(levels: int) -> dict[str, Any]:
    parts = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {**parts, f"d{levels}": {"type": "number"}}


@pytest.mark.parametrize(
    "schema",
    [
        of(),
        of(properties={"path": {"type": "string"}}, required=["path"]),
        of(properties={"value": {"$ref": "#/$defs/json"}}, **{"$defs": {"json": JSON_VALUE}}),
        of(properties={"tree": {"$ref": "#"}, "children": {"type": "array", "items": {"$ref": "#"}}}),
        of(properties={"id": {"type": "string"}, "$id": {"type": "string"}}),
        of(
            additionalProperties={"type": "string"},
            **{"$schema": "http://json-schema.org/draft-07/schema#"},
        ),
        of(properties={"sep": {"type": "string", "default": "\n\t"}}),
        of(properties={f"p{n}": {"type": "string", "enum": ["a", "b"]} for n in range(100)}),
    ],
)
def test_what_people_write_can_be_used(schema):
    SchemaParser(checked_schema(schema))


@each_row(
    ("schema", "reason"),
    [
        ({}, "not of type object"),
        ({"type": "array"}, "not of type object"),
        (None, "not of type object"),
        (of(properties={"a": {"$ref": "https://example.org/schema"}}), "an external reference"),
        (of(properties={"a": {"$ref": "file:///etc/passwd"}}), "an external reference"),
        (of(properties={"a": {"$id": "https://x.example/", "$ref": "#/b"}}), "its own address"),
        (of(properties={"a": {"type": "no such type"}}), "cannot be used"),
        (of(properties={"a": {"pattern": "("}}), "bounded time"),
        (of(properties={"a\u200b": {}}), "invisible characters"),
        (of(properties={"a": {"enum": ["x\u202ey"]}}), "invisible characters"),
        (of(description="x" * MAX_SCHEMA_BYTES), "larger than"),
        (of(**{"$schema": "http://json-schema.org/draft-04/schema#"}), "a draft older than 6"),
        (
            of(properties={"a": {"$ref": "#/$defs/d0"}}, **{"$defs": doubled(40)}),
            "cannot be checked in bounded time",
        ),
        (of(**{"$ref": "#/$defs/d0", "$defs": doubled(60)}), "cannot be checked in bounded time"),
        (
            of(anyOf=[{"properties": {"a": {"$ref": "#"}}, "required": ["b"]}] * 2),
            "cannot be checked in bounded time",
        ),
        (of(properties={"a": {"allOf": [{"$ref": "#/properties/a"}] * 3, "items": {"$ref": "#"}}}), None),
    ],
)
def test_what_attacks_is_refused_at_once(schema, reason):
    began = time.process_time()
    if reason is None:
        checked_schema(schema)
    else:
        with pytest.raises(UnusableSchema, match=reason):
            checked_schema(schema)
    assert time.process_time() - began < 5


def test_a_schema_nested_without_end_is_refused():
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    with pytest.raises(UnusableSchema, match="deeper"):
        checked_schema(of(**schema))


def test_the_texts_of_a_schema_hide_nothing_from_a_reader():
    shown = checked_schema(of(properties={"a": {"description": "first\nsecond\u202e", "type": "string"}}))
    assert shown["properties"]["a"]["description"] == "first second"


def test_a_name_that_a_model_made_up_is_refused_unless_the_schema_takes_it():
    closed = SchemaParser(checked_schema(of(properties={"a": {}})))
    with pytest.raises(ToolError):
        closed.check({"b": 1})
    SchemaParser(checked_schema(of(properties={"a": {}}, additionalProperties=True))).check({"b": 1})


@pytest.mark.parametrize("levels", [4, 10, 12])
def test_what_is_let_through_is_checked_quickly(levels):
    schema = of(properties={"a": {"$ref": "#/$defs/d0"}}, **{"$defs": doubled(levels)})
    try:
        validator = SchemaParser(checked_schema(schema))
    except UnusableSchema:
        assert levels > 10
        return
    began = time.process_time()
    with pytest.raises(ToolError):
        validator.check({"a": "no number"})
    assert time.process_time() - began < 5
