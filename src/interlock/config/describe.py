"""Tells a person every setting's effective value and where it came from, secrets masked."""

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from interlock.config.environment import (
    SECRET_FILE_SUFFIX,
    SPEC_PREFIX,
    is_secret,
    look_up,
    variable_name,
)
from interlock.config.settings import Settings

MASK = "********"
OWN_PREFIXES = ("TOOL_", "SESSION_", "INTERLOCK_", "GATEWAY_", "DATABASE_", SPEC_PREFIX)


@dataclass(frozen=True, slots=True)
class SettingRow:
    name: str
    value: str
    origin: str


def setting_names() -> list[str]:
    return [name for name, *_ in _walk(Settings)]


def describe(settings: Settings) -> list[SettingRow]:
    rows = []
    for name, path, secret in _walk(Settings):
        value: object = settings
        for step in path:
            value = getattr(value, step)
        found = look_up(name, secret=secret)
        shown = _shown(name, value, settings)
        rows.append(SettingRow(name, shown, found.origin if found else "default"))
    return rows


def secrets_of(settings: Settings) -> list[str]:
    """Every secret text these settings hold, so that the redactor knows them."""
    texts = []
    if settings.openai.api_key is not None:
        texts.append(settings.openai.api_key.get_secret_value())
    password = urlsplit(settings.database_url).password
    if password:
        texts.append(password)
    return texts


def unknown_variables(environment: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """Variables that look like ours but are none, with the likely name: a typo must not be silent."""
    environ = os.environ if environment is None else environment
    known = set(setting_names())
    accepted = (
        known
        | {SPEC_PREFIX + name for name in known if name.startswith("TOOL_")}
        | {name + SECRET_FILE_SUFFIX for name, _, secret in _walk(Settings) if secret}
    )
    suspects = sorted(name for name in environ if name.startswith(OWN_PREFIXES) and name not in accepted)
    return {
        name: next(iter(difflib.get_close_matches(name, accepted, n=1, cutoff=0.75)), None)
        for name in suspects
    }


def _walk(
    group: type[BaseSettings], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    for field_name, field in group.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseSettings):
            yield from _walk(annotation, (*path, field_name))
        else:
            yield variable_name(group, field_name), (*path, field_name), is_secret(field)


def _shown(name: str, value: object, settings: Settings) -> str:
    if name == "DATABASE_URL":
        return without_password(settings.database_url)
    match value:
        case SecretStr():
            return MASK
        case None:
            return "(unset)"
        case bool():
            return "true" if value else "false"
        case frozenset():
            return ",".join(str(item) for item in sorted(value))
        case tuple():
            return ",".join(str(item) for item in value)
        case _:
            return str(value)


def without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{MASK}@{host}"))
