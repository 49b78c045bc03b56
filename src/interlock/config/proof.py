"""EVENT_* settings of checkpoints: when they are written, their keys, and where anchors are sent."""

import re
from pathlib import Path

from pydantic import SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import PositiveInt, SettingsGroup, Words, blank_is_unset
from interlock.config.url_checks import is_loopback, split_url


class ProofSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="EVENT_")

    checkpoint_events: PositiveInt = 1000
    checkpoint_minutes: PositiveInt = 5
    # An Ed25519 private key in PEM. Unset: one is made in the state directory.
    signing_key: SecretStr | None = None
    # Public keys in hexadecimal.
    trusted_keys: Words = ()
    # journald, file:/PATH, https://HOST/PATH, nats:SUBJECT. Shown and stored, so without a secret.
    anchors: Words = ()

    @property
    def anchor_files(self) -> tuple[Path, ...]:
        return tuple(Path(sink.removeprefix("file:")) for sink in self.anchors if sink.startswith("file:"))

    _blank_is_unset = field_validator("signing_key", mode="before")(blank_is_unset)

    @field_validator("trusted_keys")
    @classmethod
    def _public_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for key in value:
            if not re.fullmatch("[0-9a-f]{64}", key):
                raise ValueError(
                    "a public key has 64 hexadecimal digits; `interlock events verify` prints it"
                )
        return value

    @field_validator("anchors")
    @classmethod
    def _known_sinks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for sink in value:
            if not _is_sink(sink):
                # It may contain a password, so it is not repeated.
                raise ValueError(
                    "a sink is 'journald', 'file:/PATH' (absolute), 'https://HOST/PATH' (without a "
                    "user, a password, ? or #; http:// on this machine only) or 'nats:SUBJECT'"
                )
        return tuple(dict.fromkeys(value))


def _is_sink(sink: str) -> bool:
    if not sink.isprintable() or " " in sink:
        return False
    kind, _, rest = sink.partition(":")
    match kind:
        case "journald":
            return sink == kind
        case "file":
            return Path(rest).is_absolute()
        case "nats":
            return bool(re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", rest))
        case "http" | "https":
            parts = split_url(sink)
            return (
                parts is not None
                and bool(parts.hostname)
                and parts.username is None
                and not {"?", "#"} & set(sink)
                and (kind == "https" or is_loopback(parts.hostname or ""))
            )
    return False
