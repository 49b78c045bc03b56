"""Arguments: strict types, no unknown keys, faults with their place; bad JSON is never an empty object."""

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.arguments import SchemaParser, closed_schema, decode_arguments

SCHEMA = closed_schema(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "all": {"type": "boolean"},
            "limit": {"type": "integer", "minimum": 1},
            "parts": {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
            },
        },
        "required": ["path"],
    }
)


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"path": "a", "all": "false"}, "all: "),
        ({"path": "a", "limit": 0}, "limit: "),
        ({"path": "a", "limit": "5"}, "limit: "),
        ({"path": "a", "limit": True}, "limit: "),
        ({"path": "a", "limit": 1.5}, "limit: "),
        ({"path": None}, "path: "),
        ({}, "arguments: "),
        ({"path": "a", "extra": 1}, "'extra' was unexpected"),
        ({"path": "a", "parts": [{"n": 1}, {"n": "x"}]}, "parts[1].n: "),
    ],
)
def test_a_fault_names_its_place(arguments, place):
    with pytest.raises(ToolError) as raised:
        SchemaParser(SCHEMA).check(arguments)
    assert raised.value.error_code is ErrorCode.INVALID_ARGS
    assert place in raised.value.message


@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("target", ["http://127.0.0.1:1/x", "file:///etc/passwd", "other.json", "urn:x"])
def test_a_schema_may_refer_only_to_itself(key, target):
    schema = {"type": "object", "properties": {"a": {"anyOf": [{key: target}]}}}
    with pytest.raises(ValueError, match="an external reference"):
        SchemaParser(closed_schema(schema))
    inner = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "integer"}},
    }
    SchemaParser(closed_schema(inner)).check({"a": 1})


def test_right_arguments_pass():
    SchemaParser(SCHEMA).check({"path": "a", "all": False, "limit": 3, "parts": [{"n": 1}]})


@pytest.mark.parametrize(
    "raw", ["{", "[]", '"text"', "null", "7", "true", "{'path': 1}", '{"a": NaN}', "\ud800", b"\xff{}"]
)
def test_anything_but_a_json_object_is_refused(raw):
    with pytest.raises(ToolError) as raised:
        decode_arguments(raw)
    assert raised.value.error_code is ErrorCode.INVALID_ARGS


def test_no_arguments_at_all_are_an_empty_object():
    assert decode_arguments("") == {}
    assert decode_arguments("{}") == {}


def test_monstrous_arguments_are_refused_unread():
    with pytest.raises(ToolError, match="larger than"):
        decode_arguments("[" * (9 * 1024 * 1024))


@pytest.mark.parametrize("depth", [100, 500, 1000, 100_000])
def test_deeply_nested_arguments_do_not_crash(depth):
    with pytest.raises(ToolError):
        decode_arguments('{"a":' * depth + "1" + "}" * depth)


def test_ordinary_nesting_passes():
    decode_arguments('{"a":' * 50 + "1" + "}" * 50)
