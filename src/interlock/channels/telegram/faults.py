"""What can go wrong with Telegram, as far as it makes a difference here. None of it names the token."""

from interlock.infra.errors import InterlockError


class TelegramFault(InterlockError):
    code = "TELEGRAM"


class Unreachable(TelegramFault):
    """The network, or Telegram itself, is away for now; whether it was done is not known."""


class Flooded(TelegramFault):
    """Too much at once: nothing more before `seconds` have passed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Telegram asks to wait {seconds:g} seconds")
        self.seconds = seconds


class WrongToken(TelegramFault):
    """Telegram does not know the token, or not any more."""


class AnotherPoller(TelegramFault):
    """Somebody else takes this bot's updates."""


class ChatClosed(TelegramFault):
    """Nothing reaches this chat any more."""


class MessageGone(TelegramFault):
    """The message is not there, or cannot be changed any more."""


class NotTaken(TelegramFault):
    """Telegram takes it in no form that we know of."""
