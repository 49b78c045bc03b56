"""The arguments of a call, checked against the schema that models see; faults name their place.

A tool of ours declares them as a `ToolArguments` model, from which the JSON Schema follows; a foreign tool
has the JSON Schema of its server.
"""

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, Protocol

import jsonschema_rs
import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from interlock.core.errors import ErrorCode, ToolError

MAX_FAULT_CHARS = 400
MAX_DEPTH = 64
MAX_ARGUMENT_BYTES = 8 * 1024 * 1024


class ArgumentParser(Protocol):
    """Made once for each tool, at registration."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema that models see."""

    def parse(self, arguments: dict[str, Any]) -> Any:
        """What the tool gets; raises a `ToolError` for the first fault."""


class UntitledSchema(GenerateJsonSchema):
    """A schema without titles, which repeat the names. Our docstrings describe a class, not a value."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def sort(self, value: dict[str, Any], parent_key: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """In the order of the declaration, not of the alphabet."""
        return value

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        left_out = {"title", "description"} if issubclass(schema["cls"], ToolArguments) else {"title"}
        shown = super().model_schema(schema)
        return {name: part for name, part in shown.items() if name not in left_out}


class _ArgumentSchema(UntitledSchema):
    """`limit: int | None = None` is shown as an integer that may be omitted; null is refused."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


class ToolArguments(BaseModel):
    """The arguments of a tool, each with its description; other keys are refused."""

    # Built at first use: a process that only lists tools, or some of them, starts sooner.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    schema_generator: ClassVar[type[GenerateJsonSchema]] = _ArgumentSchema


@cache
def schema_of(model: type[ToolArguments]) -> dict[str, Any]:
    """The JSON Schema of the arguments. The description of an argument is its field's."""
    schema = model.model_json_schema(schema_generator=model.schema_generator)
    return {"type": "object", "properties": {}} | schema


class ModelParser:
    """Parses arguments to an instance of a `ToolArguments` model.

    The schema judges them, as it does a foreign tool's: what models are shown is what is accepted.
    """

    def __init__(self, model: type[ToolArguments]) -> None:
        self._model = model

    @property
    def schema(self) -> Mapping[str, Any]:
        return schema_of(self._model)

    @cached_property
    def _judge(self) -> "SchemaParser":
        return SchemaParser(self.schema)

    def parse(self, arguments: dict[str, Any]) -> ToolArguments:
        judged = self._judge.parse(arguments)
        try:
            # What was judged is converted, such as a text to the date that a function takes.
            return self._model.model_validate(judged)
        except ValidationError as error:
            # A schema cannot express everything.
            fault = error.errors(include_url=False, include_input=False)[0]
            raise _invalid(_fault(fault["loc"], fault["msg"])) from None


def closed_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema shown to a model: an object that accepts only the keys it names."""
    schema = dict(parameters)
    if schema.get("type") != "object":
        raise ValueError("parameters must be a JSON Schema with type 'object'")
    if schema.get("additionalProperties", False) is not False:
        raise ValueError("parameters must not allow additionalProperties")
    return schema | {"properties": schema.get("properties", {}), "additionalProperties": False}


class SchemaParser:
    """Checks arguments against one compiled schema. Those larger than `max_bytes` are refused unread."""

    def __init__(self, schema: Mapping[str, Any], max_bytes: int = MAX_ARGUMENT_BYTES) -> None:
        self.schema: Mapping[str, Any] = schema
        self._max_bytes = max_bytes
        self._integers = _integers(schema)
        _refuse_foreign_references(schema)
        try:
            jsonschema_rs.meta.validate(dict(schema))
            self._validator = jsonschema_rs.validator_for(dict(schema), retriever=_retrieve_nothing)
        except (jsonschema_rs.ValidationError, ValueError) as error:
            raise ValueError(f"parameters are not a valid JSON Schema: {error}") from None

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Report the first fault only: listing all takes seconds for a long wrong list."""
        # The default limit is enforced when the arguments are decoded.
        if self._max_bytes < MAX_ARGUMENT_BYTES and len(orjson.dumps(arguments)) > self._max_bytes:
            raise _invalid(f"the arguments are larger than {self._max_bytes} bytes")
        try:
            self._validator.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            # Describe a long value without quoting it: part of a secret would not be recognised as one.
            is_long = len(error.message) > MAX_FAULT_CHARS
            said = f"does not match {error.kind.name!r}" if is_long else error.message
            raise _invalid(_fault(error.instance_path, said)) from None

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with 2.0 as 2 where an integer is wanted: JSON does not distinguish them."""
        self.check(arguments)
        whole = {
            name: int(value)
            for name in self._integers & arguments.keys()
            if isinstance(value := arguments[name], float) and value.is_integer()
        }
        return arguments | whole if whole else arguments


def _integers(schema: Mapping[str, Any]) -> frozenset[str]:
    properties = schema.get("properties")
    given = properties.items() if isinstance(properties, Mapping) else ()
    return frozenset(
        name for name, each in given if isinstance(each, Mapping) and each.get("type") == "integer"
    )


def _fault(path: Iterable[str | int], message: str) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"{place.lstrip('.') or 'arguments'}: {message}"


def _refuse_foreign_references(schema: Any) -> None:
    """A schema may come from another server; it must not make us fetch URLs or read files."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            if name in {"$ref", "$dynamicRef", "$recursiveRef"} and not str(value).startswith("#"):
                raise ValueError(f"parameters contain an external reference: {value!r}")
            _refuse_foreign_references(value)
    elif isinstance(schema, list | tuple):
        for item in schema:
            _refuse_foreign_references(item)


def _retrieve_nothing(uri: str) -> Any:
    raise ValueError(f"parameters contain an external reference: {uri!r}")


def decode_arguments(raw: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an object. Text that is not JSON is a fault, never an empty object."""
    if not isinstance(raw, str | bytes | Mapping):
        raise _invalid(f"the arguments must be a JSON object, not {type(raw).__name__}")
    if isinstance(raw, Mapping):
        # Programs that embed the gates may pass Python values: refuse non-JSON here, not later.
        try:
            raw = orjson.dumps(dict(raw))
        except TypeError as error:
            raise _invalid(f"the arguments are not JSON: {error}") from None
    if len(raw) > MAX_ARGUMENT_BYTES:
        raise _invalid(f"the arguments are larger than {MAX_ARGUMENT_BYTES} bytes")
    if not raw.strip():
        return {}
    try:
        decoded = orjson.loads(raw)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        raise _invalid(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(decoded, dict):
        raise _invalid(f"the arguments must be a JSON object, not {_json_type(decoded)}")
    if is_too_deep(decoded):
        raise _invalid(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    return decoded


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _invalid(message: str) -> ToolError:
    return ToolError(
        ErrorCode.INVALID_ARGS,
        message,
        "Correct the arguments to match the tool's schema and call it again.",
    )


def _json_type(value: object) -> str:
    match value:
        case list():
            return "an array"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case None:
            return "null"
        case _:
            return "a number"
