"""Words for what pydantic finds wrong: its own sentences are written for programmers."""

from collections.abc import Mapping, Sequence

from pydantic_core import ErrorDetails

from interlock.core.text import safe_excerpt

_MAX_KEY_CHARS = 60
_SENTENCES = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "too_long": "has more than {max_length} entries",
    "value_error": "{error}",
}


def describe_fault(fault: ErrorDetails, sentences: Mapping[str, str] | None = None) -> str | None:
    """What is wrong, as the end of a sentence: `must be at least 1`. None if there are no better words.

    `sentences` are those of one place, by the type of the fault.
    """
    sentence = (sentences or {}).get(fault["type"]) or _SENTENCES.get(fault["type"])
    values = {name: _plain(value) for name, value in fault.get("ctx", {}).items()}
    return None if sentence is None else sentence.format_map(values)


def key_path(location: Sequence[int | str]) -> str:
    """The path of a key: `nodes.review.max_visits`, `edges[2].to`."""
    parts = (part for part in location if part != "[key]")
    shown = (f"[{p}]" if isinstance(p, int) else f".{safe_excerpt(p, _MAX_KEY_CHARS)}" for p in parts)
    return "".join(shown).removeprefix(".")


def _plain(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
