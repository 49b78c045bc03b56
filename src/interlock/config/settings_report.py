"""Lists every setting's effective value and its origin, with secrets masked."""

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from interlock.config.settings import Settings
from interlock.config.sources import (
    SECRET_FILE_SUFFIX,
    SPEC_PREFIX,
    is_secret,
    look_up_variable,
    spec_alias,
    variable_name,
)

MASK = "********"
OWN_PREFIXES = (
    "TOOL_",
    "SESSION_",
    "INTERLOCK_",
    "GATEWAY_",
    "DATABASE_",
    "REDACTION_",
    "WORKER_",
    "NATS_",
    "CONTROL_",
    "TELEGRAM_",
    "EVENT_",
    SPEC_PREFIX,
)


@dataclass(frozen=True, slots=True)
class SettingRow:
    name: str
    value: str
    origin: str


def setting_names() -> list[str]:
    return [name for name, *_ in _walk(Settings)]


def describe_settings(settings: Settings) -> list[SettingRow]:
    rows = []
    for name, path, secret in _walk(Settings):
        value = attrgetter(".".join(path))(settings)
        found = look_up_variable(name, secret=secret)
        shown = _shown(name, value, settings)
        rows.append(SettingRow(name, shown, found.origin if found else "default"))
    return rows


def secrets_of(settings: Settings) -> list[str]:
    """Every secret text in these settings, for the redactor."""
    texts = []
    for _, path, _ in _walk(Settings):
        value = attrgetter(".".join(path))(settings)
        if isinstance(value, SecretStr) and value is not settings.database.url:
            texts.append(value.get_secret_value())
    addresses = [settings.database_url, *settings.nats.addresses]
    return [*texts, *(password for address in addresses for password in _passwords_in(address))]


def secrets_of_environment() -> list[str]:
    """The same from the raw variables, for when the settings themselves could not be read."""
    texts = []
    for name, _, secret in _walk(Settings):
        if secret and (value := os.environ.get(name)):
            texts += [value, *_passwords_in(value)]
    return texts


def _passwords_in(url: str) -> list[str]:
    """The passwords in an address, both as written and percent-decoded."""
    try:
        parts = urlsplit(url)
        written = [parts.password or ""]
    except ValueError:
        return []
    written += [value for name, value in parse_qsl(parts.query) if "password" in name.lower()]
    return list(dict.fromkeys(text for raw in written for text in (raw, unquote(raw)) if text))


def unknown_variables(environment: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """Unknown variables with one of our prefixes, each with the likely name: a typo must not be silent."""
    environ = os.environ if environment is None else environment
    known = set(setting_names())
    accepted = (
        known
        | {spec_alias(name) for name in known}
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
        case dict():
            return json.dumps(value, default=str)
        case _:
            return str(value)


def without_password(url: str) -> str:
    for password in sorted(_passwords_in(url), key=len, reverse=True):
        url = url.replace(password, MASK).replace(quote(password, safe=""), MASK)
    return url
