"""Telegram errors that are handled differently. None of their messages contains the token."""

from interlock.core.errors import InterlockError


class TelegramApiError(InterlockError):
    code = "TELEGRAM"


class TelegramUnreachable(TelegramApiError):
    """The network or Telegram is unavailable; whether the request took effect is unknown."""


class TelegramRateLimited(TelegramApiError):
    """Rate limit: send nothing before `seconds` have passed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Telegram asks to wait {seconds:g} seconds")
        self.seconds = seconds


class InvalidBotToken(TelegramApiError):
    """Telegram does not accept the token."""


class PollingConflict(TelegramApiError):
    """Another process polls this bot's updates."""


class ChatUnavailable(TelegramApiError):
    """The chat cannot be reached any more."""


class MessageNotFound(TelegramApiError):
    """The message does not exist, or can no longer be changed."""


class TelegramMessageRejected(TelegramApiError):
    """Telegram rejects the message in every format we have."""
