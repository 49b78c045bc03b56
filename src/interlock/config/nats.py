"""The NATS servers that wake workers on many machines, and carry streamed answers between them."""

import os
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import SettingsGroup, blank_is_unset
from interlock.config.url_checks import is_loopback

SCHEMES = ("nats", "tls")


class NatsSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="NATS_")

    url: SecretStr | None = None
    # The prefix of all subjects and of the stream: two Interlocks may share a server.
    prefix: Annotated[str, Field(max_length=32)] = "interlock"
    tls_ca: Path | None = None
    # nats:// is readable on the network: the password, and the answers of agents.
    plain: bool = False

    @property
    def addresses(self) -> list[str]:
        """The addresses as given, with the password."""
        given = self.url.get_secret_value() if self.url is not None else ""
        return [part.strip() for part in given.split(",") if part.strip()]

    @property
    def servers(self) -> list[str]:
        """The addresses without credentials."""
        parts = map(urlsplit, self.addresses)
        return [f"{each.scheme}://{each.netloc.rpartition('@')[2]}" for each in parts]

    @property
    def credentials(self) -> tuple[str, str]:
        """The user and the password, percent-decoded."""
        found = [urlsplit(address) for address in self.addresses[:1]]
        return next(
            ((unquote(each.username or ""), unquote(each.password or "")) for each in found), ("", "")
        )

    _blank_is_unset = field_validator("url", "tls_ca", mode="before")(blank_is_unset)

    @field_validator("url")
    @classmethod
    def _with_credentials(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        servers = [server.strip() for server in value.get_secret_value().split(",")]
        for server in servers:
            _check(server)
        if len({server.partition("://")[2].rpartition("@")[0] for server in servers}) > 1:
            raise ValueError("all servers of a cluster must have the same user and password")
        return value

    @field_validator("prefix")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch("[a-z0-9_-]+", value):
            raise ValueError("use lower-case letters, digits, - and _")
        return value

    @field_validator("tls_ca")
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        if value is not None and not os.path.isfile(value):  # noqa: PTH113 - also for a long name
            raise ValueError(f"{value} is not an existing file")
        return value

    @model_validator(mode="after")
    def _encrypted_beyond_this_machine(self) -> "NatsSettings":
        open_ones = [server for server in self.servers if server.startswith("nats:")]
        if not self.plain and not all(is_loopback(urlsplit(server).hostname or "") for server in open_ones):
            raise ValueError(
                "NATS_URL: nats:// to another machine is not encrypted; use tls://, or set "
                "NATS_PLAIN=true on a private network"
            )
        return self


def _check(server: str) -> None:
    """Check one address. Its text is in no error: it contains a password."""
    try:
        parts = urlsplit(server)
        _ = parts.port
    except ValueError:
        raise ValueError("is not a valid URL; percent-encode special characters") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError("write nats://USER:PASSWORD@HOST:PORT or tls://…, separate several with commas")
    if not parts.username or not parts.password:
        raise ValueError("give a user and a password: nats://USER:PASSWORD@HOST:PORT")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError("remove what follows the port")
