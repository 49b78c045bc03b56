"""What can go wrong with Telegram, as far as it makes a difference here. None of it names the token."""

from interlock.core.errors import InterlockError


class TelegramApiError(InterlockError):
    code = "TELEGRAM"


class TelegramUnreachable(TelegramApiError):
    """The network, or Telegram itself, is away for now; whether it was done is not known."""


class TelegramRateLimited(TelegramApiError):
    """Too much at once: nothing more before `seconds` have passed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Telegram asks to wait {seconds:g} seconds")
        self.seconds = seconds


class InvalidBotToken(TelegramApiError):
    """Telegram does not know the token, or not any more."""


class PollingConflict(TelegramApiError):
    """Somebody else takes this bot's updates."""


class ChatUnavailable(TelegramApiError):
    """Nothing reaches this chat any more."""


class MessageNotFound(TelegramApiError):
    """The message is not there, or cannot be changed any more."""


class MessageRejected(TelegramApiError):
    """Telegram takes it in no form that we know of."""
