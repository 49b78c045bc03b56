"""OPENAI_* settings: the endpoint of chat models."""

from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import SettingsGroup


class OpenAISettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="OPENAI_")

    api_key: SecretStr | None = None
    base_url: str = "https://api.openai.com/v1"
    model: str | None = None
    idle_seconds: Annotated[float, Field(gt=0, le=3600)] = 120.0
