"""The operator's variables for the tool policy, made from the declarations of its fields.

An unset variable is no ceiling. Values are texts here, so the types are the fields' without strictness.
"""

from typing import Annotated, Any, get_args, get_origin

from pydantic import BeforeValidator, Strict, create_model
from pydantic_settings import NoDecode

from interlock.config.settings_group import SettingsGroup, split_words
from interlock.policy.policy_fields import FIELDS, Variable


def policy_variables(prefix: str) -> type[SettingsGroup]:
    """A settings group of the policy's variables that begin with this prefix."""
    members: dict[str, Any] = {}
    for field in FIELDS.values():
        variable = field.declared.variable
        if variable is not None and variable.name.startswith(prefix):
            members[_member(variable, prefix)] = _type_of(field.type, variable), variable.default
    return create_model(f"PolicyVariables{prefix}", __base__=SettingsGroup, **members)


def policy_values(groups: dict[str, SettingsGroup]) -> dict[str, Any]:
    """The values of all variables by the path of their field; the groups are given by their prefix."""
    values: dict[str, Any] = {}
    for path, field in FIELDS.items():
        variable = field.declared.variable
        for prefix, group in groups.items():
            if variable is not None and variable.name.startswith(prefix):
                values[path] = getattr(group, _member(variable, prefix))
    return values


def _member(variable: Variable, prefix: str) -> str:
    return variable.name.removeprefix(prefix).lower()


def _type_of(type_: Any, variable: Variable) -> Any:
    lenient = _lenient(type_)
    if get_origin(get_args(type_)[0]) is frozenset:
        lenient = Annotated[lenient, NoDecode, BeforeValidator(split_words)]
    return lenient if variable.default is not None else lenient | None


def _lenient(type_: Any) -> Any:
    """The type without strictness, also of a set's items."""
    if get_origin(type_) is Annotated:
        base, *metadata = get_args(type_)
        kept = [each for each in metadata if not isinstance(each, Strict)]
        return Annotated[(_lenient(base), *kept)]
    items = get_args(type_)
    return frozenset.__class_getitem__(_lenient(items[0])) if get_origin(type_) is frozenset else type_
