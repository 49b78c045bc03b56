"""Arguments as a model: the schema that models see, and faults in the words of a foreign schema."""

import enum
import json
from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.arguments import ModelParser, SchemaParser, ToolArguments
from interlock.tools.function_tool import FunctionTool
from interlock.tools.tool import Effect, ToolLimits, ToolMode, TypedTool
from interlock.wiring import build_registry
from tests.recorded.recording import assert_as_recorded


class Part(BaseModel):
    n: int


class Arguments(ToolArguments):
    """Not for models."""

    path: str = Field(min_length=1, max_length=500, description="A path.")
    all: bool = False
    limit: int | None = Field(default=None, ge=1, le=2**53)
    seconds: float = Field(default=1, gt=0, lt=5)
    mode: Literal["append", "overwrite"] = "append"
    names: dict[str, str] = Field(default_factory=dict)
    parts: list[Part] = Field(default_factory=list)


FAULTS = [
    ({}, 'arguments: "path" is a required property'),
    ({"paht": "a"}, "arguments: Additional properties are not allowed ('paht' was unexpected)"),
    ({"path": ""}, 'path: "" is shorter than 1 character'),
    ({"path": "x" * 501}, "path: does not match 'maxLength'"),
    ({"path": None}, 'path: null is not of type "string"'),
    ({"path": "a", "all": "false"}, 'all: "false" is not of type "boolean"'),
    ({"path": "a", "limit": 0}, "limit: 0 is less than the minimum of 1"),
    ({"path": "a", "limit": "5"}, 'limit: "5" is not of type "integer"'),
    ({"path": "a", "limit": True}, 'limit: true is not of type "integer"'),
    ({"path": "a", "limit": None}, 'limit: null is not of type "integer"'),
    ({"path": "a", "seconds": 0}, "seconds: 0 is less than or equal to the minimum of 0"),
    ({"path": "a", "mode": "z"}, 'mode: "z" is not one of "append" or "overwrite"'),
    ({"path": "a", "parts": [{"n": 1}, {"n": "x"}]}, 'parts[1].n: "x" is not of type "integer"'),
]


def fault(parser, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as raised:
        parser.parse(arguments)
    assert raised.value.error_code is ErrorCode.INVALID_ARGS
    return raised.value.message


@pytest.mark.parametrize(("arguments", "said"), FAULTS, ids=lambda value: str(value)[:40])
def test_what_a_model_does_not_take_is_refused_with_its_place(arguments, said):
    assert fault(ModelParser(Arguments), arguments) == said


def test_what_is_right_has_the_types_and_the_defaults():
    parsed = ModelParser(Arguments).parse({"path": "a", "limit": 3.0, "parts": [{"n": 1}]})
    assert (parsed.path, parsed.limit, parsed.seconds, parsed.mode) == ("a", 3, 1, "append")
    assert type(parsed.limit) is int
    assert parsed.parts == [Part(n=1)]


def test_a_schema_says_what_a_call_may_have_and_nothing_of_the_code():
    schema = ModelParser(Arguments).schema
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["path"]
    assert schema["properties"]["limit"] == {"type": "integer", "minimum": 1, "maximum": 2**53}
    assert schema["properties"]["all"] == {"type": "boolean"}
    assert "Not for models" not in str(schema)
    assert "title" not in str(schema)


def test_models_see_the_recorded_schemas():
    """Each built-in tool, its description with its limits, and every argument."""
    limits = ToolLimits(1000, 2000, 300, 4000, 30.0, 600.0, 5000)
    shown = build_registry().get_tools_schema(ToolMode.coding, limits)
    assert_as_recorded("tool_schemas", json.loads(json.dumps([item["function"] for item in shown])))


TYPED = [entry for entry in build_registry() if isinstance(entry.tool, TypedTool)]


@pytest.mark.parametrize("entry", TYPED, ids=lambda entry: entry.tool.name)
def test_a_built_in_accepts_what_its_schema_accepts(entry):
    """Its parser and a JSON Schema validator agree about what is missing, null, unknown or wrong."""
    schema = entry.parser.schema
    samples = {"string": "square", "integer": 1, "number": 1, "boolean": True, "object": {}}
    right = {
        name: part["enum"][0] if "enum" in part else samples[part["type"]]
        for name, part in schema["properties"].items()
    }
    foreign = SchemaParser(schema)
    calls = [right, {name: right[name] for name in schema.get("required", ())}]
    for call in calls:
        foreign.check(call)
        entry.parser.parse(call)
    for name in right:
        for wrong in (None, "", "x" * 200_000, 0, -1, 10**17, 1.5, True, [], {"a": 1}, "no such word"):
            call = right | {name: wrong}
            try:
                foreign.check(call)
            except ToolError:
                fault(entry.parser, call)
            else:
                entry.parser.parse(call)
    fault(entry.parser, right | {"no_such": 1})


class Colour(enum.Enum):
    red = "red"


async def paint(
    day: date,
    schema: Colour = Colour.red,
    _times: int = Field(default=2, le=9),
    note: str | None = None,
    *,
    copy: bool = False,
) -> str:
    """Paint."""
    return f"{day.year} {schema.name} {_times} {note} {copy}"


def function_tool(function) -> FunctionTool:
    return FunctionTool(function, modes=["chat"], effect=Effect.read, switches=(), needs=())


async def test_a_function_is_called_by_its_own_names_whatever_they_are():
    made = function_tool(paint)
    assert set(made.parameters["properties"]) == {"day", "schema", "_times", "note", "copy"}
    parser, right = made.parser(), {"day": "2026-01-02", "_times": 3.0, "note": None, "schema": "red"}
    assert (await made.execute(parser.parse(right), None)).stdout == "2026 red 3 None False"
    assert fault(parser, right | {"_times": 10}) == "_times: 10 is greater than the maximum of 9"
    assert fault(parser, right | {"_times": "3"}) == '_times: "3" is not of type "integer"'
    assert fault(parser, right | {"day": "tomorrow"}).startswith("day: Input should be a valid date")
