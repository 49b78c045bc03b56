"""Checking by a foreign schema takes a bounded time, whatever the schema and the value."""

import time

import pytest

from interlock.core.errors import ToolError
from interlock.tools.arguments import SchemaParser
from interlock.tools.mcp.definition import definition_problem, make_definition
from interlock.tools.mcp.schema import MAX_WORK, UnusableSchema, checked_schema, max_value_bytes
from interlock.tools.mcp.tool import to_tool_result


def of_text(pattern: str) -> dict:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


@pytest.mark.parametrize("pattern", ["(?=q)z", "(?!q)z", "(?<=a)b", r"(a)\1", "(?>a)b", "a{1000}{1000}"])
def test_a_pattern_that_needs_trying_back_and_forth_is_refused(pattern):
    with pytest.raises(UnusableSchema, match="bounded time"):
        checked_schema(of_text(pattern))
    named = {"type": "object", "patternProperties": {pattern: {}}}
    with pytest.raises(UnusableSchema, match="bounded time"):
        checked_schema(named)
    output = make_definition("t", "", {"type": "object"}, of_text(pattern), {})
    assert "bounded time" in definition_problem(output)


@pytest.mark.parametrize(
    "pattern", [r"^\d{4}-\d\d$", r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$", r"^\p{L}+$", "\\u00e9", r"a\/b"]
)
def test_a_usual_pattern_is_taken(pattern):
    assert checked_schema(of_text(pattern))


def test_the_more_steps_a_schema_has_the_smaller_the_values_that_are_checked():
    many = {
        "type": "object",
        "properties": {"x": {"items": {"not": {"anyOf": [{"pattern": f"z{i}$"} for i in range(1200)]}}}},
    }
    assert max_value_bytes({"type": "object"}) > 1_000_000
    assert max_value_bytes(many) < MAX_WORK // 1200
    validator = SchemaParser(many, max_value_bytes(many))
    validator.check({"x": ["a"]})
    with pytest.raises(ToolError, match="larger than"):
        validator.check({"x": ["a" * 100] * 2000})


def test_a_result_that_would_take_long_to_check_is_said_to_be_too_large():
    branches = [{"pattern": f"z{i}$"} for i in range(1200)]
    shape = {"type": "object", "properties": {"x": {"items": {"not": {"anyOf": branches}}}}}
    definition = make_definition("t", "", {"type": "object"}, shape, {})
    assert definition_problem(definition) == ""
    begun = time.process_time()
    result = to_tool_result(
        {"structuredContent": {"x": ["a" * 100] * 20_000}}, definition, "s__t", "coding", "s"
    )
    assert "too large to check" in result.failure.message
    assert time.process_time() - begun < 2.0
    assert to_tool_result({"structuredContent": {"x": ["a"]}}, definition, "s__t", "coding", "s").ok


def test_what_doubles_far_below_the_top_is_found_too():
    """Thirty lists inside one another, and in the last one a schema that asks for 2**40 comparisons."""
    lists = {f"l{n}": {"items": {"$ref": f"#/$defs/l{n + 1}"}} for n in range(30)}
    doubled = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    inside = {**lists, "l30": {"$ref": "#/$defs/d0"}, **doubled, "d40": {"type": "null"}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/l0"}}, "$defs": inside}
    with pytest.raises(UnusableSchema, match="cannot be checked in bounded time"):
        checked_schema(schema)
