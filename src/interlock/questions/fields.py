"""The fields of a form and the options of a choice: what they are, and whether a value fits."""

import re
from collections.abc import Collection, Mapping
from datetime import date
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, Self, assert_never

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, WithJsonSchema, model_validator

from interlock.questions.validation import (
    LARGEST,
    STRICT,
    FieldError,
    StrictModel,
    describe_value,
    unique,
    validate,
)

MAX_LABEL = 200
MAX_DESCRIPTION = 1000
MAX_VALUE = 200
MAX_OPTIONS = 50

YES = frozenset({"y", "yes", "true", "是", "好", "确认"})
NO = frozenset({"n", "no", "false", "否", "不"})

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class FieldType(StrEnum):
    text = "text"
    multiline = "multiline"
    number = "number"
    integer = "integer"
    boolean = "boolean"
    date = "date"
    select = "select"
    multi_select = "multi_select"

    @property
    def own_keys(self) -> frozenset[str]:
        """The keys that only fields of some types have, this one among them."""
        match self:
            case FieldType.text | FieldType.multiline:
                return frozenset({"max_length"})
            case FieldType.number | FieldType.integer:
                return frozenset({"min", "max"})
            case FieldType.select | FieldType.multi_select:
                return frozenset({"options"})
            case _:
                return frozenset()


# The length of a text: the default, and the maximum.
TEXT_CHARS = {FieldType.text: 500, FieldType.multiline: 4000}
MAX_TEXT = 10_000


# -- types of values ---------------------------------------------------------------------------------


def _not_blank(text: str) -> str:
    if not text.strip():
        raise FieldError("", "must not be empty")
    return text


def _not_null(value: object) -> object:
    if value is None:
        raise FieldError("", "must not be null; leave the key out")
    return value


def _one_line(text: str) -> str:
    if len(text.splitlines()) > 1:
        raise FieldError("", "must be one line")
    return text


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        rule = "must start with a letter and contain only letters, digits, _ and -"
        raise FieldError("", f"{rule}, not {text!r}")
    return text


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError("", f"must be a number, not {describe_value(value)}")
    if not abs(value) <= LARGEST:
        raise FieldError("", "is too large")
    return value


def _date(value: object) -> object:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise FieldError("", f"must be a date such as 2026-12-31, not {describe_value(value)}")
    try:
        date.fromisoformat(value)
    except ValueError:
        raise FieldError("", f"there is no such date as {value}") from None
    return value


def _offered(words: tuple[str, ...], value: object, path: str = "") -> object:
    if not isinstance(value, str) or value not in words:
        names = ", ".join(words)
        allowed = names if len(names) <= 300 else f"the {len(words)} options"
        raise FieldError(path, f"must be one of {allowed}, not {describe_value(value)}")
    return value


def _all_offered(words: tuple[str, ...], values: list[object]) -> list[object]:
    return [_offered(words, value, f"[{number}]") for number, value in enumerate(values)]


NOT_NULL = BeforeValidator(_not_null)
NOT_BLANK = AfterValidator(_not_blank)
# For texts whose default is empty.
MAY_BE_EMPTY = AfterValidator(lambda text: text and _not_blank(text))
LABEL = Field(max_length=MAX_LABEL)
Name = Annotated[str, Field(max_length=64), AfterValidator(_name)]
Description = Annotated[
    str, Field(max_length=MAX_DESCRIPTION, description="One more sentence."), MAY_BE_EMPTY
]
WholeNumber = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[int | float, BeforeValidator(_number), WithJsonSchema({"type": "number"})]


def choice_of(words: tuple[str, ...]) -> Any:
    """The type of a text that is one of some words."""
    return Annotated[str, BeforeValidator(partial(_offered, words))]


def choices_of(words: tuple[str, ...]) -> Any:
    """The type of a list of some of the words, each once."""
    is_list = Field(strict=False, max_length=len(words))
    return Annotated[list[object], is_list, AfterValidator(partial(_all_offered, words)), unique()]


# -- fields ------------------------------------------------------------------------------------------


class ChoiceOption(StrictModel):
    noun: ClassVar[str] = "an option"

    value: Annotated[str, Field(max_length=MAX_VALUE, description="The value in the answer."), NOT_BLANK]
    label: Annotated[str, LABEL, NOT_BLANK] = Field(
        default_factory=lambda given: given["value"],
        description="The label the user sees. Default: the value.",
    )
    description: Description = ""


Options = Annotated[
    tuple[ChoiceOption, ...],
    Field(strict=False, min_length=1, max_length=MAX_OPTIONS),
    unique("value"),
]


def _default(value: Any) -> Any:
    """An empty default counts as none."""
    value = tuple(value) if isinstance(value, list) else value
    return None if value in ("", ()) else value


class FormField(StrictModel):
    name: Name = Field(description="Letters, digits, _ and -. The key of the value in the answer.")
    label: Annotated[str, LABEL, NOT_BLANK] = Field(
        default_factory=lambda given: given["name"],
        description="The label the user sees. Default: the name.",
    )
    type: FieldType = Field(FieldType.text, strict=False, description="Default: text.")
    description: Description = ""
    required: bool = Field(default=False, description="Default: false.")
    default: Annotated[
        Any,
        BeforeValidator(_default),
        WithJsonSchema({"type": ["string", "number", "boolean", "array"], "items": {"type": "string"}}),
    ] = Field(None, description="The initial value, of the field's own type. A date is YYYY-MM-DD.")
    options: Options = Field((), description="For select and multi_select.")
    min: Annotated[Number | None, NOT_NULL] = Field(None, description="For number and integer.")
    max: Annotated[Number | None, NOT_NULL] = Field(None, description="For number and integer.")
    max_length: Annotated[Annotated[int, Field(ge=1, le=MAX_TEXT)] | None, NOT_NULL] = Field(
        default_factory=lambda given: TEXT_CHARS.get(given["type"]),
        description="For text and multiline: the number of characters.",
    )

    @classmethod
    def keys(cls, given: Mapping[str, Any]) -> tuple[str, Collection[str]]:
        kind = given.get("type", FieldType.text)
        if kind not in list(FieldType):
            return "a field", cls.model_fields
        of_others = {key for each in FieldType for key in each.own_keys} - FieldType(kind).own_keys
        return f"a field of type {kind}", cls.model_fields.keys() - of_others

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if "options" in self.type.own_keys and not self.options:
            raise FieldError("options", "is missing")
        if self.type is FieldType.integer:
            for key, bound in (("min", self.min), ("max", self.max)):
                validate(_OPTIONAL_WHOLE_NUMBER, bound, key)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise FieldError("max", f"must not be less than min ({self.min})")
        if self.default is not None:
            check_value(self, self.default, "default")
        return self


_OPTIONAL_WHOLE_NUMBER: TypeAdapter[int | None] = TypeAdapter(WholeNumber | None, config=STRICT)


def check_value(field: FormField, value: object, path: str) -> Any:
    """The value as it will be stored, or a `FieldError`. Nothing is converted: "5" is not a number."""
    wanted: TypeAdapter[Any] = TypeAdapter(_value_type(field), config=STRICT)
    return validate(wanted, value, path)


def _value_type(field: FormField) -> Any:
    words = tuple(option.value for option in field.options)
    bounds, chars = Field(ge=field.min, le=field.max), Field(max_length=field.max_length)
    blank = NOT_BLANK if field.required else None
    match field.type:
        case FieldType.text:
            return Annotated[str, chars, blank, AfterValidator(_one_line)]
        case FieldType.multiline:
            return Annotated[str, chars, blank]
        case FieldType.number:
            return Annotated[Number, bounds]
        case FieldType.integer:
            return Annotated[WholeNumber, bounds]
        case FieldType.boolean:
            return bool
        case FieldType.date:
            return Annotated[str, BeforeValidator(_date)]
        case FieldType.select:
            return choice_of(words)
        case FieldType.multi_select:
            return choices_of(words)
        case _:
            assert_never(field.type)


def parse_typed(kind: FieldType, text: str) -> Any:
    """What a person typed, as a value. A text that cannot be converted is refused later by the field."""
    if not text:
        return None
    if kind is FieldType.boolean:
        said = text.lower()
        return said in YES if said in YES | NO else text
    try:
        if kind is FieldType.integer or (kind is FieldType.number and text.lstrip("+-").isdigit()):
            return int(text)
        return float(text) if kind is FieldType.number else text
    except ValueError:
        return text
