"""Validates the arguments of a model against a schema; faults name their place."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import orjson

from interlock.core.errors import ErrorCode, ToolError

MAX_FAULT_CHARS = 400
MAX_DEPTH = 64
MAX_ARGUMENT_BYTES = 8 * 1024 * 1024


def closed_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema shown to a model: an object that accepts only the keys it names."""
    schema = dict(parameters)
    if schema.get("type") != "object":
        raise ValueError("parameters must be a JSON Schema with type 'object'")
    if schema.get("additionalProperties", False) is not False:
        raise ValueError("parameters must not allow additionalProperties")
    return schema | {"properties": schema.get("properties", {}), "additionalProperties": False}


class ArgumentValidator:
    """One compiled schema. Arguments larger than `max_bytes` are refused unread."""

    def __init__(self, schema: Mapping[str, Any], max_bytes: int = MAX_ARGUMENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._whole_numbers = _whole_numbers(schema)
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
            raise _invalid(_fault(error)) from None

    def checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check, and convert 2.0 to 2 where the schema wants an integer: JSON does not distinguish them."""
        self.check(arguments)
        whole = {
            name: int(value)
            for name in self._whole_numbers & arguments.keys()
            if isinstance(value := arguments[name], float) and value.is_integer()
        }
        return arguments | whole if whole else arguments


def _whole_numbers(schema: Mapping[str, Any]) -> frozenset[str]:
    properties = schema.get("properties")
    given = properties.items() if isinstance(properties, Mapping) else ()
    return frozenset(
        name for name, each in given if isinstance(each, Mapping) and each.get("type") == "integer"
    )


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


def _fault(error: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    # Describe a fault of a long value without quoting it: part of a secret would not be recognised as one.
    said = error.message if len(error.message) <= MAX_FAULT_CHARS else f"does not match {error.kind.name!r}"
    return f"{path.lstrip('.') or 'arguments'}: {said}"


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
