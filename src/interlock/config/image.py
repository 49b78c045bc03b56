"""IMAGE_* settings: the endpoint that makes images."""

from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import SettingsGroup


class ImageSettings(SettingsGroup):
    """The endpoint that makes images. Naming a model switches it on (`config/image_endpoint.py`)."""

    model_config = SettingsConfigDict(env_prefix="IMAGE_")

    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    plain_http: bool = False
    timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] = 180.0
    max_bytes: Annotated[int, Field(gt=0, le=64 * 1024 * 1024)] | None = None

    @field_validator("model", "base_url", "api_key", mode="before")
    @classmethod
    def _blank_is_unset(cls, value: Any) -> Any:
        return (value.strip() or None) if isinstance(value, str) else value
