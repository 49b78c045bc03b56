"""REDACTION_* settings: the operator's own rules, and built-in rules that are off."""

from pathlib import Path
from typing import Any

from pydantic import field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import SettingsGroup, Words, split_words


class RedactionSettings(SettingsGroup):
    """The operator's own redaction rules, and built-in rules that are switched off."""

    model_config = SettingsConfigDict(env_prefix="REDACTION_")

    rules: Path | None = None
    off: Words = ()

    _split_words = field_validator("off", mode="before")(split_words)

    @field_validator("rules", mode="before")
    @classmethod
    def _blank_is_unset(cls, value: Any) -> Any:
        return (value.strip() or None) if isinstance(value, str) else value
