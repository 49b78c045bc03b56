"""SESSION_* settings: modes, queue and lease of sessions."""

from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from interlock.config.modes import ToolMode, parse_mode
from interlock.config.settings_group import PositiveInt, SettingsGroup, split_words


class SessionSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="SESSION_")

    default_mode: str = ToolMode.chat_safe.value
    open_modes: Annotated[frozenset[ToolMode], NoDecode] = frozenset({ToolMode.chat_safe})
    queue_limit: PositiveInt = 20
    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = 30.0

    @field_validator("default_mode")
    @classmethod
    def _new_sessions_start_safe(cls, value: str) -> str:
        if value != ToolMode.chat_safe:
            raise ValueError(
                f"SESSION_DEFAULT_MODE must be 'chat_safe' (got '{value}'). See ADR 0025. "
                "To make another mode reachable, list it in SESSION_OPEN_MODES."
            )
        return value

    @field_validator("open_modes", mode="before")
    @classmethod
    def _chat_safe_is_always_open(cls, value: Any) -> Any:
        named = split_words(value)
        if not isinstance(named, list | tuple | set | frozenset):
            return value
        return frozenset(parse_mode(str(name)) for name in named) | {ToolMode.chat_safe}
