"""REDACTION_* settings: the operator's own rules, and built-in rules that are off."""

from pathlib import Path

from pydantic import field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import SettingsGroup, Words, blank_is_unset


class RedactionSettings(SettingsGroup):
    """The operator's own redaction rules, and built-in rules that are switched off."""

    model_config = SettingsConfigDict(env_prefix="REDACTION_")

    rules: Path | None = None
    off: Words = ()

    _blank_is_unset = field_validator("rules", mode="before")(blank_is_unset)
