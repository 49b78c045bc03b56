"""Settings of the gateway: where it listens, which hosts it serves, and its limits."""

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import PositiveInt, SettingsGroup, Words, blank_is_unset

# As browsers write them: a name or an address, with the port only where it is not the scheme's default.
_HOST = r"(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?"
_ALLOWED_HOST = re.compile(_HOST, re.IGNORECASE)
_ALLOWED_ORIGIN = re.compile(rf"https?://{_HOST}", re.IGNORECASE)
_LISTENING = re.compile(r"[A-Za-z0-9._:-]+")


class GatewaySettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="GATEWAY_")

    host: str = "127.0.0.1"
    # 0 is any free port.
    port: Annotated[int, Field(ge=0, lt=65536)] = 8420
    allowed_origins: Words = ()
    allowed_hosts: Words = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_http: bool = False
    browser_days: Annotated[float, Field(gt=0, le=3650)] = 30.0
    max_frame_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024
    requests_per_second: Annotated[float, Field(gt=0, le=1_000_000)] = 50.0
    max_sockets: PositiveInt = 2000
    queue_bytes: Annotated[int, Field(ge=64 * 1024, le=2**32)] = 4 * 1024 * 1024

    @property
    def scheme(self) -> str:
        return "http" if self.tls_cert is None else "https"

    @field_validator("host")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        if not _LISTENING.fullmatch(value):
            raise ValueError(
                "write a host name or an address without brackets and port, such as 127.0.0.1 or ::1"
            )
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if not _ALLOWED_HOST.fullmatch(host):
                raise ValueError(f"'{host}' is not HOST or HOST:PORT; patterns are not supported")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not _ALLOWED_ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"'{origin}' is not http(s)://HOST or http(s)://HOST:PORT without a path; "
                    "patterns are not supported"
                )
        return value

    _blank_is_unset = field_validator("tls_cert", "tls_key", mode="before")(blank_is_unset)

    @field_validator("tls_cert", "tls_key")
    @classmethod
    def _readable_file(cls, value: Path | None) -> Path | None:
        if value is None:
            return None
        path = Path(os.path.abspath(value))  # noqa: PTH100 - keeps a symlink: certificates are renewed
        if not os.path.isfile(path):  # noqa: PTH113 - also for a name that is too long
            raise ValueError(f"'{path}' is not an existing file")
        if not os.access(path, os.R_OK):
            raise ValueError(f"this account cannot read '{path}'")
        return path

    @model_validator(mode="after")
    def _certificate_and_key(self) -> "GatewaySettings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("GATEWAY_TLS_CERT and GATEWAY_TLS_KEY: set both or neither")
        return self

    @model_validator(mode="after")
    def _encrypted_beyond_this_machine(self) -> "GatewaySettings":
        if self.tls_cert is None and not self.plain_http and not is_loopback_address(self.host):
            raise ValueError(
                f"GATEWAY_HOST: '{self.host}' is reachable from other machines, and without TLS "
                "the traffic is not encrypted. Set GATEWAY_TLS_CERT and GATEWAY_TLS_KEY, or "
                "GATEWAY_PLAIN_HTTP=true behind a proxy that encrypts"
            )
        return self


def is_loopback_address(host: str) -> bool:
    """Whether only this machine can reach the address. Any name but localhost may resolve elsewhere."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # An IPv4-mapped IPv6 address does not count as loopback.
    return address.is_loopback and (address.version == 4 or int(address) == 1)
