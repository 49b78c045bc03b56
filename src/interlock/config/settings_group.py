"""The base class of all settings groups, and the types that they share."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from interlock.config.modes import ToolMode, parse_mode
from interlock.config.sources import EnvironmentSource
from interlock.core.text import safe_excerpt

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

PositiveInt = Annotated[int, Field(gt=0)]


class SettingsGroup(BaseSettings):
    """One group of variables with a common prefix. Unset and unknown variables are ignored."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, EnvironmentSource(settings_cls)


def blank_is_unset(value: Any) -> Any:
    """A blank text of an optional variable means that it is unset."""
    return (value.strip() or None) if isinstance(value, str) else value


def split_words(value: Any) -> Any:
    """Split a comma-separated variable, without blank parts."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_words)]


def parse_tool_modes(entries: Iterable[str]) -> dict[str, frozenset[ToolMode]]:
    """Parse entries of the form `bash_readonly=plan+coding`."""
    found: dict[str, frozenset[ToolMode]] = {}
    for entry in entries:
        name, equals, modes = (part.strip() for part in entry.partition("="))
        if not equals or not TOOL_NAME.fullmatch(name):
            raise ValueError(f"'{safe_excerpt(entry, 64)}' is not of the form TOOL=MODE+MODE")
        if not modes:
            raise ValueError(f"{name} has no mode; to disable a tool, use TOOL_DENIED")
        if name in found:
            raise ValueError(f"{name} occurs twice; join its modes with +")
        found[name] = frozenset(parse_mode(mode.strip()) for mode in modes.split("+"))
    return found
