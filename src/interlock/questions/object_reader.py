"""Reads a JSON object strictly: each value has its own type and bounds, and unknown keys are refused."""

import difflib
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from interlock.core.text import safe_excerpt

# Beyond this a number in JSON is no longer the same number everywhere.
LARGEST = 2**53

_ABSENT: Final = object()


class FieldError(ValueError):
    """What is wrong, and at which path."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'it'}: {problem}")


class StrictObjectReader:
    """One object. Every key is read by name; `finish` refuses the others."""

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, Mapping):
            raise FieldError(path, f"must be an object, not {describe_value(value)}")
        self._values = value
        self._path = path
        self._asked_for: set[str] = set()

    def at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def get(self, key: str) -> Any:
        """The unchecked value; None where it is null or missing."""
        self._asked_for.add(key)
        return self._values.get(key)

    def has(self, key: str) -> bool:
        self._asked_for.add(key)
        return key in self._values

    def text(self, key: str, max_chars: int, *, default: str | None = None) -> str:
        """A text that is not blank; `default` where the key is missing."""
        value = self._present(key, default)
        return checked_text(value, self.at(key), max_chars, empty=default == "" and value == "")

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        return checked_flag(self._present(key, default), self.at(key))

    def integer(self, key: str, low: int, high: int, *, default: int | None = None) -> int:
        value = checked_integer(self._present(key, default), self.at(key))
        if not low <= value <= high:
            raise FieldError(self.at(key), f"must be between {low} and {high}, not {value}")
        return value

    def word(self, key: str, words: Collection[str], *, default: str | None = None) -> str:
        value = self._present(key, default)
        if not isinstance(value, str) or value not in words:
            raise FieldError(
                self.at(key), f"must be one of {', '.join(words)}, not {describe_value(value)}"
            )
        return value

    def objects(self, key: str, low: int, high: int) -> Iterator["StrictObjectReader"]:
        """The objects of a list with so many members; if none are required, it may be missing."""
        value = self._present(key, () if low == 0 else None)
        for path, item in checked_list(value, self.at(key), low, high):
            yield StrictObjectReader(item, path)

    def texts(self, key: str, high: int, max_chars: int) -> tuple[str, ...]:
        members = checked_list(self._present(key, ()), self.at(key), 0, high)
        return tuple(checked_text(item, path, max_chars) for path, item in members)

    def finish(self, what: str = "it") -> None:
        """Refuse every key that was not read: a misspelt one must not be lost silently."""
        for key in self._values:
            if key not in self._asked_for:
                near = difflib.get_close_matches(str(key), sorted(self._asked_for), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise FieldError(self.at(safe_excerpt(str(key), 64)), f"{what} has no such key{hint}")

    def _present(self, key: str, default: Any) -> Any:
        self._asked_for.add(key)
        value = self._values.get(key, _ABSENT)
        if value is not _ABSENT:
            return value
        if default is None:
            raise FieldError(self.at(key), "is missing")
        return default


def checked_text(value: object, path: str, max_chars: int, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise FieldError(path, f"must be a text, not {describe_value(value)}")
    if len(value) > max_chars:
        raise FieldError(path, f"can have at most {max_chars} characters, not {len(value)}")
    if not empty and not value.strip():
        raise FieldError(path, "must not be empty")
    return value


def checked_flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise FieldError(path, f"must be true or false, not {describe_value(value)}")
    return value


def checked_integer(value: object, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(path, f"must be a whole number, not {describe_value(value)}")
    if abs(value) > LARGEST:
        raise FieldError(path, "is too large")
    return value


def checked_number(value: object, path: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(path, f"must be a number, not {describe_value(value)}")
    if abs(value) > LARGEST or not math.isfinite(value):
        raise FieldError(path, "is too large")
    return value


def checked_list(value: object, path: str, low: int, high: int) -> list[tuple[str, Any]]:
    """The members, each with its path."""
    if not isinstance(value, list | tuple):
        raise FieldError(path, f"must be a list, not {describe_value(value)}")
    if not low <= len(value) <= high:
        wanted = f"at least {low}" if len(value) < low else f"at most {high}"
        raise FieldError(path, f"must have {wanted} members, not {len(value)}")
    return [(f"{path}[{number}]", item) for number, item in enumerate(value)]


def refuse_duplicates(values: Collection[str], path: str, key: str) -> None:
    seen: set[str] = set()
    for number, value in enumerate(values):
        if value in seen:
            raise FieldError(
                f"{path}[{number}].{key}" if key else f"{path}[{number}]", f"{value!r} occurs twice"
            )
        seen.add(value)


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
