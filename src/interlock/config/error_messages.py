"""Describes an invalid setting in a sentence that names the variable that was set."""

from pydantic_core import ErrorDetails

from interlock.config.settings_group import SettingsGroup
from interlock.config.sources import given_variable_name, is_secret, variable_name
from interlock.core.validation_faults import describe_fault


def sentence(group: type[SettingsGroup], problem: ErrorDetails) -> str:
    text = problem["msg"].removeprefix("Value error, ")
    if problem["type"] != "value_error" and (plain := describe_fault(problem)) is not None:
        text = f"it {plain}"
    field = str(problem["loc"][0]) if problem["loc"] else ""
    if field not in group.model_fields:
        return text if not field or text.startswith(field) else f"{field}: {text}"
    name = given_variable_name(variable_name(group, field))
    told = text if text.startswith(name) else f"{name}: {text}"
    given = problem["input"]
    if isinstance(given, str) and "'" not in text and not is_secret(group.model_fields[field]):
        told += f" (got '{given}')"
    return told
