"""The Telegram bot: its token, who may write to it, and where Telegram is."""

import re
from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from interlock.config.settings_group import SettingsGroup, blank_is_unset, split_words
from interlock.config.url_checks import is_loopback, reject_unsafe_url, split_url

Ids = Annotated[frozenset[int], NoDecode]

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")
_ID = re.compile(r"-?[0-9]{1,18}")


class TelegramSettings(SettingsGroup):
    """An empty list of users and chats allows no one."""

    model_config = SettingsConfigDict(env_prefix="TELEGRAM_")

    bot_token: SecretStr | None = None
    allowed_users: Ids = frozenset()
    allowed_chats: Ids = frozenset()
    operators: Ids = frozenset()
    refusals: bool = True
    pending_seconds: Annotated[float, Field(ge=0, le=30)] = 1.0
    base_url: str = "https://api.telegram.org"

    _blank_is_unset = field_validator("bot_token", mode="before")(blank_is_unset)

    @field_validator("bot_token")
    @classmethod
    def _token_as_given(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError("is not a bot token; BotFather gives one in the form NUMBER:LETTERS")
        return value

    @field_validator("allowed_users", "allowed_chats", "operators", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        named = split_words(value)
        for name in named if isinstance(named, tuple) else ():
            if not _ID.fullmatch(name):
                raise ValueError(
                    f"'{name}' is not an id; Telegram ids are numbers, and names are not accepted"
                )
        return named

    @field_validator("allowed_users", "operators")
    @classmethod
    def _people(cls, value: frozenset[int]) -> frozenset[int]:
        if any(number <= 0 for number in value):
            raise ValueError("a person's id is a positive number; groups belong in TELEGRAM_ALLOWED_CHATS")
        return value

    @field_validator("allowed_chats")
    @classmethod
    def _groups(cls, value: frozenset[int]) -> frozenset[int]:
        if any(number >= 0 for number in value):
            raise ValueError("a group's id is a negative number; people belong in TELEGRAM_ALLOWED_USERS")
        return value

    @field_validator("base_url")
    @classmethod
    def _encrypted(cls, value: str) -> str:
        """The token is part of every request's URL."""
        reject_unsafe_url(value, "TELEGRAM_BASE_URL", plain_http="")
        parts = split_url(value)
        if parts is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("TELEGRAM_BASE_URL: plain http exposes the token; use https")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _operators_may_write(self) -> "TelegramSettings":
        if strangers := self.operators - self.allowed_users:
            raise ValueError(
                f"TELEGRAM_OPERATORS: {min(strangers)} is not in TELEGRAM_ALLOWED_USERS; add it there too"
            )
        return self
