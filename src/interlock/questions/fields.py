"""The fields of a form and the options of a choice: how they are parsed, and whether a value fits."""

import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from interlock.questions.object_reader import (
    LARGEST,
    FieldError,
    StrictObjectReader,
    checked_flag,
    checked_integer,
    checked_list,
    checked_number,
    checked_text,
    describe_value,
    refuse_duplicates,
)

MAX_LABEL = 200
MAX_DESCRIPTION = 1000
MAX_VALUE = 200
MAX_OPTIONS = 50

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

Default = str | int | float | bool | tuple[str, ...] | None


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
    def has_options(self) -> bool:
        return self in {FieldType.select, FieldType.multi_select}

    @property
    def is_numeric(self) -> bool:
        return self in {FieldType.number, FieldType.integer}


# The length of a text: the default, and the maximum.
TEXT_CHARS = {FieldType.text: 500, FieldType.multiline: 4000}
MAX_TEXT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOption:
    value: str
    label: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    name: str
    label: str
    type: FieldType
    description: str = ""
    required: bool = False
    default: Default = None
    options: tuple[ChoiceOption, ...] = ()
    min: float | None = None
    max: float | None = None
    max_length: int | None = None


def read_field(reader: StrictObjectReader) -> FormField:
    name = read_name(reader, "name")
    kind = FieldType(reader.word("type", list(FieldType), default=FieldType.text))
    field = FormField(
        name=name,
        label=reader.text("label", MAX_LABEL, default=name),
        type=kind,
        description=reader.text("description", MAX_DESCRIPTION, default=""),
        required=reader.flag("required", default=False),
        options=read_options(reader) if kind.has_options else (),
        **(_bounds(reader, kind) if kind.is_numeric else {}),
        max_length=reader.integer("max_length", 1, MAX_TEXT, default=TEXT_CHARS[kind])
        if kind in TEXT_CHARS
        else None,
        default=_default(reader.get("default")),
    )
    reader.finish(f"a field of type {kind}")
    if field.default is not None:
        check_value(field, field.default, reader.at("default"))
    return field


def _default(value: Any) -> Any:
    """An empty default counts as none."""
    if isinstance(value, list):
        value = tuple(value)
    return None if value in ("", ()) else value


def _bounds(reader: StrictObjectReader, kind: FieldType) -> dict[str, Any]:
    check = checked_integer if kind is FieldType.integer else checked_number
    bounds = {key: check(reader.get(key), reader.at(key)) for key in ("min", "max") if reader.has(key)}
    if bounds.get("min", -LARGEST) > bounds.get("max", LARGEST):
        raise FieldError(reader.at("max"), f"must not be less than min ({bounds['min']})")
    return bounds


def read_options(reader: StrictObjectReader) -> tuple[ChoiceOption, ...]:
    found = tuple(_option(item) for item in reader.objects("options", 1, MAX_OPTIONS))
    refuse_duplicates([option.value for option in found], reader.at("options"), "value")
    return found


def _option(reader: StrictObjectReader) -> ChoiceOption:
    value = reader.text("value", MAX_VALUE)
    option = ChoiceOption(
        value=value,
        label=reader.text("label", MAX_LABEL, default=value),
        description=reader.text("description", MAX_DESCRIPTION, default=""),
    )
    reader.finish("an option")
    return option


def read_name(reader: StrictObjectReader, key: str) -> str:
    name = reader.text(key, 64)
    if not _NAME.fullmatch(name):
        raise FieldError(
            reader.at(key),
            f"must start with a letter and contain only letters, digits, _ and -, not {name!r}",
        )
    return name


# -- validation -------------------------------------------------------------------------------------


def check_value(field: FormField, value: object, path: str) -> Any:
    """The value as it will be stored, or a `FieldError`. Nothing is converted: "5" is not a number."""
    match field.type:
        case FieldType.text | FieldType.multiline:
            return _check_text(field, value, path)
        case FieldType.number | FieldType.integer:
            return _check_number(field, value, path)
        case FieldType.boolean:
            return checked_flag(value, path)
        case FieldType.date:
            return _check_date(value, path)
        case FieldType.select:
            return check_choice(field.options, value, path)
        case FieldType.multi_select:
            return check_choices(field.options, value, path)


def _check_text(field: FormField, value: object, path: str) -> str:
    text = checked_text(value, path, field.max_length or MAX_TEXT, empty=not field.required)
    if field.type is FieldType.text and len(text.splitlines()) > 1:
        raise FieldError(path, "must be one line")
    return text


def _check_number(field: FormField, value: object, path: str) -> int | float:
    number = (checked_integer if field.type is FieldType.integer else checked_number)(value, path)
    if field.min is not None and number < field.min:
        raise FieldError(path, f"must be at least {field.min:g}, not {number:g}")
    if field.max is not None and number > field.max:
        raise FieldError(path, f"must be at most {field.max:g}, not {number:g}")
    return number


def _check_date(value: object, path: str) -> str:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise FieldError(path, f"must be a date such as 2026-12-31, not {describe_value(value)}")
    try:
        date.fromisoformat(value)
    except ValueError:
        raise FieldError(path, f"there is no such date as {value}") from None
    return value


def check_choice(options: tuple[ChoiceOption, ...], value: object, path: str) -> str:
    offered = [option.value for option in options]
    if not isinstance(value, str) or value not in offered:
        names = ", ".join(offered)
        allowed = names if len(names) <= 300 else f"the {len(offered)} options"
        raise FieldError(path, f"must be one of {allowed}, not {describe_value(value)}")
    return value


def check_choices(options: tuple[ChoiceOption, ...], value: object, path: str) -> list[str]:
    members = checked_list(value, path, 0, len(options))
    chosen = [check_choice(options, item, where) for where, item in members]
    refuse_duplicates(chosen, path, "")
    return chosen
