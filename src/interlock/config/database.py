"""DATABASE_* settings: which database, and how SQLite commits."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import SettingsGroup


class DatabaseSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="DATABASE_")

    url: SecretStr | None = None
    busy_timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    synchronous: Literal["full", "normal"] = "full"

    @field_validator("url", mode="after")
    @classmethod
    def _known_database(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value():
            return None
        scheme = value.get_secret_value().split(":", 1)[0]
        if scheme not in {"sqlite", "postgresql"}:
            raise ValueError(f"'{scheme}' is not supported; use sqlite:///PATH or postgresql://…")
        text = value.get_secret_value()
        if scheme == "sqlite" and (not text.startswith("sqlite:///") or set(text) & {"?", "#", "\0"}):
            raise ValueError("write sqlite:///PATH, with nothing after the path")
        try:
            _ = urlsplit(text).port
        except ValueError:
            raise ValueError("is not a valid URL; percent-encode special characters") from None
        return value
