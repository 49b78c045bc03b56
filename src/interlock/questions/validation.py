"""Validates questions and answers by pydantic models, and says in plain words which part is wrong."""

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from interlock.core.text import safe_excerpt
from interlock.core.validation_faults import describe_fault, key_path

# Beyond this a number in JSON is no longer the same number everywhere.
LARGEST = 2**53

STRICT = ConfigDict(strict=True)

Valid = TypeVar("Valid")

_SENTENCES = {
    "model_attributes_type": "must be an object",
    "string_unicode": "must be a text",
    "union_tag_not_found": "is missing",
    "union_tag_invalid": "must be one of {expected_tags}",
    "string_too_long": "can have at most {max_length} characters",
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} members",
    "too_long": "must have at most {max_length} members",
}


class FieldError(ValueError):
    """What is wrong, and at which path."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'it'}: {problem}")
        self.path = path
        self.problem = problem


class StrictModel(BaseModel):
    """An object whose values are never converted and which has no other keys.

    A validator may raise a `FieldError` with a path within its own value.
    """

    model_config = STRICT | ConfigDict(frozen=True, extra="forbid")

    noun: ClassVar[str]

    @classmethod
    def keys(cls, given: Mapping[str, Any]) -> tuple[str, Collection[str]]:  # noqa: ARG003
        """What the object is called, and the keys that it may have."""
        return cls.noun, cls.model_fields

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            noun, keys = cls.keys(given)
            refuse_unknown_keys(noun, given, keys)
        return given

    def document(self) -> dict[str, Any]:
        """The object as JSON, without unset fields."""
        return {name: _plain(value) for name, value in self if value is not None and value not in ("", ())}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.document() if isinstance(value, StrictModel) else getattr(value, "value", value)


def refuse_unknown_keys(noun: str, given: Mapping[str, Any], keys: Collection[str]) -> None:
    """A misspelt key must not be lost silently."""
    for key in given:
        if key not in keys:
            near = difflib.get_close_matches(str(key), sorted(keys), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise FieldError(safe_excerpt(str(key), 64), f"{noun} has no such key{hint}")


def validate(
    wanted: TypeAdapter[Valid],
    given: object,
    path: str = "",
    *,
    is_tagged: bool = False,
) -> Valid:
    """The valid value, or a `FieldError` with the path of the first fault.

    `is_tagged` is a union of types by their tag, which is then no part of the path.
    """
    try:
        return wanted.validate_python(given)
    except ValidationError as error:
        raise _field_error(error.errors(include_url=False)[0], path, int(is_tagged)) from None


def _field_error(fault: ErrorDetails, path: str, tags: int) -> FieldError:
    cause = fault.get("ctx", {}).get("error")
    below, problem = (cause.path, cause.problem) if isinstance(cause, FieldError) else ("", _problem(fault))
    if fault["type"].startswith("union_tag"):
        below = "type"
    where = path
    for step in (key_path(fault["loc"][tags:]), below):
        where += f".{step}" if where and step and step[0] != "[" else step
    return FieldError(where, problem)


def _problem(fault: ErrorDetails) -> str:
    given = fault["input"]
    sentence = describe_fault(fault, _SENTENCES) or fault["msg"]
    match fault["type"]:
        case "missing" | "union_tag_not_found":
            return sentence
        case "string_too_long" | "too_short" | "too_long":
            return f"{sentence}, not {len(given)}"
        case "greater_than_equal" | "less_than_equal":
            return f"{sentence}, not {given}" if abs(given) <= LARGEST else "is too large"
        case "union_tag_invalid" | "enum" | "literal_error":
            words = ", ".join(re.findall(r"'(\w+)'", sentence))
            given = given["type"] if fault["type"] == "union_tag_invalid" else given
            return f"must be one of {words}, not {describe_value(given)}"
        case _:
            return f"{sentence}, not {describe_value(given)}"


def check_between(key: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        shown = value if abs(value) <= LARGEST else describe_value(value)
        raise FieldError(key, f"must be between {low} and {high}, not {shown}")


def unique(key: str = "") -> AfterValidator:
    """Members of a list must differ, or differ in one of their fields."""

    def check(members: Collection[Any]) -> Collection[Any]:
        values = [getattr(member, key) if key else member for member in members]
        for number, value in enumerate(values):
            if value in values[:number]:
                raise FieldError(f"[{number}]" + (f".{key}" if key else ""), f"{value!r} occurs twice")
        return members

    return AfterValidator(check)


def describe_value(value: object) -> str:
    """Describe a value in a message: its type and, if short, its content."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {value!r}" if len(value) <= 40 else f"a text of {len(value)} characters"
        case int() | float():
            return f"the number {value!r}" if abs(value) <= LARGEST else "a large number"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"
