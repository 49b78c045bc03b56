"""Describes an invalid setting in a sentence that names the variable that was set."""

from pydantic_core import ErrorDetails

from interlock.config.settings_group import SettingsGroup
from interlock.config.sources import given_variable_name, is_secret, variable_name

# pydantic's own sentences are written for programmers.
_PLAIN = {
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_parsing": "it must be a number",
    "bool_parsing": "it must be true or false",
    "greater_than": "it must be greater than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "literal_error": "it must be one of {expected}",
}


def sentence(group: type[SettingsGroup], problem: ErrorDetails) -> str:
    text = problem["msg"].removeprefix("Value error, ")
    if (plain := _PLAIN.get(problem["type"])) is not None:
        text = plain.format_map({name: _plain(value) for name, value in problem.get("ctx", {}).items()})
    field = str(problem["loc"][0]) if problem["loc"] else ""
    if field not in group.model_fields:
        return text if not field or text.startswith(field) else f"{field}: {text}"
    name = given_variable_name(variable_name(group, field))
    told = text if text.startswith(name) else f"{name}: {text}"
    given = problem["input"]
    if isinstance(given, str) and "'" not in text and not is_secret(group.model_fields[field]):
        told += f" (got '{given}')"
    return told


def _plain(bound: object) -> object:
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound
