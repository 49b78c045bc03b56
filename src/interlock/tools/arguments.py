"""The arguments of a call: checked against what models are shown, with faults that name their place.

A tool of ours declares them as a `ToolArguments` model, from which the JSON Schema follows; a foreign tool
has the JSON Schema of its server. Both refuse in the same words.
"""

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, core_schema

from interlock.core.errors import ErrorCode, ToolError

if TYPE_CHECKING:
    import jsonschema_rs

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


# -- our own tools: a model --------------------------------------------------------------------------


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
    """The arguments of a tool. Types are strict, and other keys are refused."""

    # Built at first use: a process that only lists tools, or some of them, starts sooner.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
    schema_generator: ClassVar[type[GenerateJsonSchema]] = _ArgumentSchema


@cache
def schema_of(model: type[ToolArguments]) -> dict[str, Any]:
    """The JSON Schema of the arguments. The description of an argument is its field's."""
    schema = model.model_json_schema(schema_generator=model.schema_generator)
    return {"type": "object", "properties": {}} | schema


class ModelParser:
    """Parses arguments to an instance of a `ToolArguments` model."""

    def __init__(self, model: type[ToolArguments]) -> None:
        self._model = model

    @property
    def schema(self) -> Mapping[str, Any]:
        return schema_of(self._model)

    @cached_property
    def _types(self) -> Mapping[str, str]:
        return _types(self.schema)

    def parse(self, arguments: dict[str, Any]) -> ToolArguments:
        for name in self._types.keys() & arguments.keys():
            if arguments[name] is None:
                raise _invalid(f'{name}: null is not of type "{self._types[name]}"')
        # As JSON: then a date, which a function may take, is strictly a text of its form.
        encoded = orjson.dumps(_with_whole_numbers(arguments, self._types))
        try:
            return self._model.model_validate_json(encoded, strict=True)
        except ValidationError as error:
            faults = error.errors(include_url=False)
            # A misspelled name explains a missing one.
            first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
            raise _invalid(_model_fault(first)) from None


_TYPES = {
    "string_type": "string",
    "int_type": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "list_type": "array",
    "dict_type": "object",
    "model_type": "object",
}
# The name of the bound, and what is wrong.
_BOUNDS = {
    "string_too_short": ("min_length", "is shorter than {} characters"),
    "string_too_long": ("max_length", "is longer than {} characters"),
    "greater_than_equal": ("ge", "is less than the minimum of {}"),
    "greater_than": ("gt", "is less than or equal to the minimum of {}"),
    "less_than_equal": ("le", "is greater than the maximum of {}"),
    "less_than": ("lt", "is greater than or equal to the maximum of {}"),
}


def _model_fault(fault: ErrorDetails) -> str:
    """The fault, in the words of a foreign schema's."""
    place, context = list(fault["loc"]), fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return _fault(place[:-1], f'"{place[-1]}" is a required property')
        case "extra_forbidden":
            reason = "Additional properties are not allowed"
            return _fault(place[:-1], f"{reason} ('{place[-1]}' was unexpected)", reason)
        case "literal_error":
            reason = f"is not one of {context['expected']}".replace("'", '"')
        case kind if kind in _TYPES:
            reason = f'is not of type "{_TYPES[kind]}"'
        case kind if kind in _BOUNDS:
            name, reason = _BOUNDS[kind]
            bound = context[name]
            reason = reason.format(int(bound) if bound == int(bound) else bound)
            reason = reason.replace(" 1 characters", " 1 character")
        case _:
            return _fault(place, fault["msg"])
    return _fault(place, f"{orjson.dumps(fault['input']).decode()} {reason}", f"it {reason}")


# -- foreign tools: a JSON Schema --------------------------------------------------------------------


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
        # A large library that our own tools do not need.
        import jsonschema_rs

        self.schema: Mapping[str, Any] = schema
        self._max_bytes = max_bytes
        self._types = _types(schema)
        self._invalid = jsonschema_rs.ValidationError
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
        except self._invalid as error:
            raise _invalid(_schema_fault(error)) from None

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.check(arguments)
        return _with_whole_numbers(arguments, self._types)


def _schema_fault(error: "jsonschema_rs.ValidationError") -> str:
    return _fault(error.instance_path, error.message, f"does not match {error.kind.name!r}")


# -- both --------------------------------------------------------------------------------------------


def _types(schema: Mapping[str, Any]) -> dict[str, str]:
    """The type of each argument that has just one."""
    properties = schema.get("properties")
    given = properties.items() if isinstance(properties, Mapping) else ()
    return {
        name: each["type"]
        for name, each in given
        if isinstance(each, Mapping) and isinstance(each.get("type"), str)
    }


def _with_whole_numbers(arguments: dict[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """The arguments with 2.0 as 2 where an integer is wanted: JSON does not distinguish them."""
    whole = {
        name: int(value)
        for name, value in arguments.items()
        if isinstance(value, float) and value.is_integer() and types.get(name) == "integer"
    }
    return arguments | whole if whole else arguments


def _fault(path: Iterable[str | int], message: str, without_value: str = "") -> str:
    """`without_value` is for a long value: part of a secret would not be recognised as one."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    said = message if len(message) <= MAX_FAULT_CHARS or not without_value else without_value
    return f"{place.lstrip('.') or 'arguments'}: {said}"


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
