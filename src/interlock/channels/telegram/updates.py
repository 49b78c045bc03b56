"""A Telegram update in our own types: sender, chat and content."""

import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

from interlock.core.text import sanitize_text
from interlock.sessions.slash_commands import Surface, slash_commands_for

if TYPE_CHECKING:
    from telegram import CallbackQuery, Message, MessageEntity, Update

# Of ids: Telegram's are shorter, and no store could hold more.
LARGEST_NUMBER = 2**62

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@([A-Za-z0-9_]{1,64}))?(?:\s+(.*))?", re.DOTALL)


# Other text with a slash is answered as an unknown command, without quoting it.
KNOWN_COMMANDS = frozenset({"start", *slash_commands_for(Surface.telegram)})


class IncomingKind(StrEnum):
    text = "text"
    command = "command"
    press = "press"
    # A picture, voice message or sticker: nothing that can be read.
    other = "other"


@dataclass(frozen=True, slots=True)
class BotIdentity:
    id: int
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSender:
    """Sender and chat as Telegram vouches for them. What a message claims does not count."""

    user_id: int
    chat_id: int
    is_private: bool
    # Not a bot, a channel, or a group posting anonymously.
    is_person: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """An incoming message to process. `text` is its text, a command's rest or a button's data."""

    update_id: int
    kind: IncomingKind
    chat_id: int
    user_id: int
    is_private: bool
    message_id: int
    text: str = ""
    command: str = ""
    # In whole seconds, by Telegram's clock.
    sent_s: int = 0
    reply_to: int | None = None
    press_id: str = ""
    # Identifies pictures sent together.
    album: str = ""
    # The session, once its task is known.
    session_id: str = ""
    # The question, once it is known to answer one.
    answers: str = ""

    def as_json(self) -> str:
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> "IncomingMessage":
        stored = orjson.loads(text)
        return cls(**{**stored, "kind": IncomingKind(stored["kind"])})


@dataclass(frozen=True, slots=True)
class ParsedUpdate:
    update_id: int
    sender: MessageSender | None = None
    # None: not for this bot, or of an ignored kind.
    incoming: IncomingMessage | None = None


def read_update(update: "Update", bot: BotIdentity) -> ParsedUpdate:
    """Parse an update. Edited messages, channels and unknown kinds are ignored.

    Raises if it lacks the form that the library promises but does not check.
    """
    if update.message is not None:
        arrived = _message(update.update_id, update.message, bot)
    elif update.callback_query is not None:
        arrived = _press(update.update_id, update.callback_query)
    else:
        return ParsedUpdate(update.update_id)
    if arrived.incoming is not None:
        _check(arrived.incoming)
    return arrived


def _check(incoming: IncomingMessage) -> None:
    """Check ranges: an invalid id could not be stored, nor anything that came with it."""
    numbers = [incoming.chat_id, incoming.user_id, incoming.message_id, incoming.sent_s]
    numbers += [] if incoming.reply_to is None else [incoming.reply_to]
    for number in numbers:
        if type(number) is not int or abs(number) >= LARGEST_NUMBER:
            raise ValueError("a number in the update is invalid")


def _message(update_id: int, message: "Message", bot: BotIdentity) -> ParsedUpdate:
    author = message.from_user
    if author is None or message.chat.type not in ("private", "group", "supergroup"):
        return ParsedUpdate(update_id)
    is_private = message.chat.type == "private"
    sender = MessageSender(
        user_id=author.id,
        chat_id=message.chat.id,
        is_private=is_private,
        is_person=not author.is_bot and message.sender_chat is None,
    )
    text = message.text or message.caption or ""
    kind, command, rest = _meaning(message, text, bot)
    if kind is None or (not is_private and not _is_addressed(message, kind, bot)):
        return ParsedUpdate(update_id)
    answered = message.reply_to_message
    incoming = IncomingMessage(
        update_id=update_id,
        kind=kind,
        chat_id=message.chat.id,
        user_id=author.id,
        is_private=is_private,
        message_id=message.message_id,
        text=sanitize_text(rest if is_private else _without_name(rest, bot)),
        command=command,
        sent_s=int(message.date.timestamp()),
        reply_to=answered.message_id if answered is not None else None,
        album=sanitize_text(message.media_group_id or ""),
    )
    return ParsedUpdate(update_id, sender, incoming)


def _meaning(message: "Message", text: str, bot: BotIdentity) -> tuple[IncomingKind | None, str, str]:
    """The kind, command and text of a message. Forwarded text is never a command."""
    is_own = message.forward_origin is None and message.via_bot is None
    found = _COMMAND.fullmatch(text) if message.text and is_own else None
    if found is not None:
        if found[2] and found[2].lower() != bot.username.lower():
            return None, "", ""
        name = found[1].lower()
        return IncomingKind.command, name if name in KNOWN_COMMANDS else "", (found[3] or "").strip()
    if text.strip():
        return IncomingKind.text, "", text
    return (IncomingKind.other if _has_content(message) else None), "", ""


def _has_content(message: "Message") -> bool:
    """Whether it has content, unlike notices of members joining or messages being pinned."""
    return message.effective_attachment is not None


def _is_addressed(message: "Message", kind: IncomingKind, bot: BotIdentity) -> bool:
    if kind is IncomingKind.command:
        return True
    answered = message.reply_to_message
    if answered is not None and answered.from_user is not None and answered.from_user.id == bot.id:
        return True
    named = [(entity, message.text or "") for entity in message.entities]
    named += [(entity, message.caption or "") for entity in message.caption_entities]
    return any(_names(entity, text, bot) for entity, text in named)


def _names(entity: "MessageEntity", text: str, bot: BotIdentity) -> bool:
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == bot.id
    wide = text.encode("utf-16-le")
    word = wide[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le", "replace")
    return entity.type == "mention" and word.lower() == f"@{bot.username.lower()}"


def _without_name(text: str, bot: BotIdentity) -> str:
    name = f"@{bot.username}"
    return text[len(name) :].lstrip(" ,:") if text.lower().startswith(name.lower()) else text


def _press(update_id: int, query: "CallbackQuery") -> ParsedUpdate:
    """Parse a button press. The sender is the person who pressed, not the author of the message."""
    message = query.message
    if message is None or query.data is None or message.chat.type == "channel":
        return ParsedUpdate(update_id)
    is_private = message.chat.type == "private"
    sender = MessageSender(
        user_id=query.from_user.id,
        chat_id=message.chat.id,
        is_private=is_private,
        is_person=not query.from_user.is_bot,
    )
    incoming = IncomingMessage(
        update_id=update_id,
        kind=IncomingKind.press,
        chat_id=message.chat.id,
        user_id=query.from_user.id,
        is_private=is_private,
        message_id=message.message_id,
        text=sanitize_text(query.data),
        press_id=sanitize_text(query.id),
    )
    return ParsedUpdate(update_id, sender, incoming)
