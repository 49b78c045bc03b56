"""The NATS servers that wake workers on many machines, and carry running answers between them."""

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.group import SettingsGroup

SCHEMES = ("nats", "tls")


class NatsSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="NATS_")

    url: SecretStr | None = None
    # What the names of all subjects and of the stream begin with: two Interlocks may share a server.
    prefix: Annotated[str, Field(max_length=32)] = "interlock"
    tls_ca: Path | None = None

    @property
    def servers(self) -> list[str]:
        given = self.url.get_secret_value() if self.url is not None else ""
        return [part.strip() for part in given.split(",") if part.strip()]

    @field_validator("url", "tls_ca", mode="before")
    @classmethod
    def _blank_is_unset(cls, value: Any) -> Any:
        return (value.strip() or None) if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def _with_credentials(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        for server in value.get_secret_value().split(","):
            _check(server.strip())
        return value

    @field_validator("prefix")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch("[a-z0-9_-]+", value):
            raise ValueError("use small letters, digits, - and _")
        return value

    @field_validator("tls_ca")
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_file():
            raise ValueError(f"there is no file {value}")
        return value


def _check(server: str) -> None:
    """One address, and nothing of it in the sentence: it holds a password."""
    try:
        parts = urlsplit(server)
        _ = parts.port
    except ValueError:
        raise ValueError("is not a valid address; percent-encode what is special in it") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError("write nats://USER:PASSWORD@HOST:PORT or tls://…, several with commas")
    if not parts.username or not parts.password:
        raise ValueError("name a user and a password: nats://USER:PASSWORD@HOST:PORT")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError("write nothing after the port")
