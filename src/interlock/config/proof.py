"""EVENT_* settings of checkpoints: when they are written, their key, and the keys that are trusted."""

import re
from typing import Any

from pydantic import SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import PositiveInt, SettingsGroup, Words, split_words


class ProofSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="EVENT_")

    checkpoint_events: PositiveInt = 1000
    checkpoint_minutes: PositiveInt = 5
    # An Ed25519 private key in PEM. Unset: one is made in the state directory.
    signing_key: SecretStr | None = None
    # Public keys in hexadecimal.
    trusted_keys: Words = ()

    _split_words = field_validator("trusted_keys", mode="before")(split_words)

    @field_validator("signing_key", mode="before")
    @classmethod
    def _blank_is_unset(cls, value: Any) -> Any:
        return (value.strip() or None) if isinstance(value, str) else value

    @field_validator("trusted_keys")
    @classmethod
    def _public_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for key in value:
            if not re.fullmatch("[0-9a-f]{64}", key):
                raise ValueError(
                    "a public key has 64 hexadecimal digits; `interlock events verify` prints it"
                )
        return value
