"""Finds a setting's raw value: under its own name, its alias in the specifications, or in a file.

No file is read that the operator did not name: a stray `.env` in a working directory must not be able to
open a mode or switch the sandbox off.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from interlock.core.text import is_utf8

SPEC_PREFIX = "AUTONOUS_"
SECRET_FILE_SUFFIX = "_FILE"  # noqa: S105 - a suffix of variable names


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A raw value and a description of its origin."""

    value: str
    origin: str


def variable_name(settings_class: type[BaseSettings], field: str) -> str:
    """The canonical variable of a field, for example SESSION_DEFAULT_MODE."""
    alias = settings_class.model_fields[field].validation_alias
    if isinstance(alias, str):
        return alias
    return f"{settings_class.model_config.get('env_prefix', '')}{field}".upper()


def given_variable_name(name: str) -> str:
    """The variable that the operator set for a setting: the alias, where only the alias is set."""
    alias = spec_alias(name)
    return alias if alias in os.environ and name not in os.environ else name


def spec_alias(name: str) -> str:
    """The name of a setting in the specifications; only tool settings have one."""
    return SPEC_PREFIX + name if name.startswith("TOOL_") else name


def is_secret(field: FieldInfo) -> bool:
    return "SecretStr" in str(field.annotation)


def look_up_variable(name: str, *, secret: bool) -> SourcedValue | None:
    """The value of `name`, from any of its sources; two sources that differ are an error."""
    environ = os.environ
    candidates = [
        SourcedValue(environ[variable], variable)
        for variable in dict.fromkeys((name, spec_alias(name)))
        if variable in environ
    ]
    file_variable = name + SECRET_FILE_SUFFIX
    if secret and environ.get(file_variable):
        path = Path(environ[file_variable])
        try:
            candidates.append(SourcedValue(path.read_text().strip(), f"{file_variable} ({path})"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ValueError(f"{file_variable}: cannot read {path}: {reason}") from None
    for found in candidates:
        if not is_utf8(found.value):
            raise ValueError(f"{found.origin}: its value is not valid UTF-8")
    if len({found.value for found in candidates}) > 1:
        names = " and ".join(found.origin for found in candidates)
        raise ValueError(f"{names} are both set and differ; keep one")
    return candidates[0] if candidates else None


def secret_files(groups: Iterable[type[BaseSettings]]) -> Iterator[tuple[str, Path]]:
    """The variables that name a file with a secret, and the files."""
    for group in groups:
        for field, info in group.model_fields.items():
            name = variable_name(group, field) + SECRET_FILE_SUFFIX
            if is_secret(info) and os.environ.get(name):
                yield name, Path(os.environ[name]).absolute()


class EnvironmentSource(PydanticBaseSettingsSource):
    """Feeds a settings class from the environment, by canonical names only."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        found = look_up_variable(variable_name(self.settings_cls, field_name), secret=is_secret(field))
        return (found.value if found else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
            if not _is_group(field)
        }
        return {name: value for name, value in values.items() if value is not None}


def _is_group(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseSettings)
