"""The only module that uses the library: requests to the Bot API, with its errors mapped to ours."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
from telegram import (
    Bot,
    BotCommand,
    ForceReply,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
    Update,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
)
from telegram.request import HTTPXRequest

from interlock.channels.telegram.errors import (
    ChatUnavailable,
    InvalidBotToken,
    MessageNotFound,
    PollingConflict,
    TelegramMessageRejected,
    TelegramRateLimited,
    TelegramUnreachable,
)
from interlock.channels.telegram.markdown import TextEntity
from interlock.channels.telegram.outgoing_content import MessageContent
from interlock.channels.telegram.updates import LARGEST_NUMBER, BotIdentity
from interlock.config.url_checks import is_loopback, split_url
from interlock.core.logging import StructuredLogger

__all__ = ["BotApiClient"]

_log = StructuredLogger(__name__)

UPDATE_KINDS = ("message", "callback_query")
REQUEST_SECONDS = 20.0
CONNECT_SECONDS = 10.0
# The default flood wait if Telegram names none, and the longest single wait.
DEFAULT_FLOOD_SECONDS = 5.0
LONGEST_FLOOD_SECONDS = 86_400.0

_NOT_MODIFIED = "message is not modified"
_GONE = ("message to edit not found", "message can't be edited", "message_id_invalid", "message to delete")
_CLOSED = ("chat not found", "user is deactivated", "bot was kicked", "peer_id_invalid", "have no rights")


class BotApiClient:
    """Every method raises a `TelegramApiError` on failure."""

    def __init__(self, token: str, base_url: str) -> None:
        # The library would log every answer that is not JSON, in full.
        logging.getLogger("telegram").setLevel(logging.CRITICAL)
        parts = split_url(base_url)
        is_local = parts is not None and is_loopback(parts.hostname or "")
        self._bot = Bot(
            token,
            base_url=f"{base_url}/bot",
            request=_request(16, trust_env=not is_local),
            get_updates_request=_request(1, trust_env=not is_local, kind=_GetUpdatesRequest),
        )

    async def open(self) -> BotIdentity:
        with _faults():
            await self._bot.initialize()
            me = await self._bot.get_me()
        return BotIdentity(me.id, me.username or "")

    async def close(self) -> None:
        # The process ends: the peer notices by the closed sockets.
        with _faults():
            await self._bot.shutdown()

    async def set_commands(self, commands: Mapping[str, str]) -> None:
        with _faults():
            await self._bot.set_my_commands([BotCommand(name, text) for name, text in commands.items()])

    async def updates(self, offset: int | None, wait_seconds: int) -> tuple[Update, ...]:
        """Fetch updates. One that the library cannot parse has only its id."""
        with _faults():
            return await self._bot.get_updates(
                offset=offset,
                timeout=wait_seconds,
                allowed_updates=list(UPDATE_KINDS),
                read_timeout=REQUEST_SECONDS,
            )

    async def send(self, chat_id: int, content: MessageContent, *, reply_to: int | None = None) -> int:
        """Send a message and return its id."""
        with _faults():
            message = await self._bot.send_message(
                chat_id,
                content.text,
                entities=[_entity(entity) for entity in content.entities],
                reply_markup=_markup(content),
                reply_parameters=None
                if reply_to is None
                else ReplyParameters(reply_to, allow_sending_without_reply=True),
                link_preview_options=LinkPreviewOptions(is_disabled=True),
            )
        return int(message.message_id)

    async def edit(self, chat_id: int, message_id: int, content: MessageContent) -> None:
        with _faults():
            await self._bot.edit_message_text(
                content.text,
                chat_id,
                message_id,
                entities=[_entity(entity) for entity in content.entities],
                reply_markup=_keyboard(content),
                link_preview_options=LinkPreviewOptions(is_disabled=True),
            )

    async def delete(self, chat_id: int, message_id: int) -> None:
        with _faults():
            await self._bot.delete_message(chat_id, message_id)

    async def answer_callback(self, press_id: str, text: str = "") -> None:
        """End a pressed button's progress mark; with a text, show it briefly."""
        with _faults():
            await self._bot.answer_callback_query(press_id, text[:200] or None)

    async def typing(self, chat_id: int) -> None:
        with _faults():
            await self._bot.send_chat_action(chat_id, "typing")


class _RetryAfter(TelegramError):
    def __init__(self, seconds: float) -> None:
        super().__init__("flood control")
        self.seconds = seconds


class _Request(HTTPXRequest):
    """Reads flood waits itself: the library's handling of them is about to change."""

    async def do_request(self, *arguments: Any, **named: Any) -> tuple[int, bytes]:
        code, payload = await super().do_request(*arguments, **named)
        if code == 429:
            raise _RetryAfter(_wait_in(payload))
        return code, payload


class _GetUpdatesRequest(_Request):
    """Reads updates leniently: one that the library cannot parse would block all others forever."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        try:
            answer: Any = HTTPXRequest.parse_json_payload(payload)
        except RecursionError:
            raise TelegramError("the response is nested too deeply") from None
        updates = answer.get("result", []) if isinstance(answer, dict) else None
        if not isinstance(updates, list):
            raise TelegramError("the response has no list of updates")
        return {**answer, "result": [_readable(update) for update in updates if _is_numbered(update)]}


def _is_numbered(update: Any) -> bool:
    """Whether the update has an id: without one it could never be acknowledged."""
    number = update.get("update_id") if isinstance(update, dict) else None
    if type(number) is int and 0 <= number < LARGEST_NUMBER:
        return True
    _log.warning("telegram_update_not_read", update=None, error="the update has no id")
    return False


def _readable(update: Any) -> Any:
    try:
        Update.de_json(update, None)
    except Exception as error:  # noqa: BLE001 - whatever the library stumbles over
        _log.warning("telegram_update_not_read", update=update["update_id"], error=type(error).__name__)
        return {"update_id": update["update_id"]}
    return update


def _request(connections: int, *, trust_env: bool, kind: type[_Request] = _Request) -> _Request:
    return kind(
        connection_pool_size=connections,
        read_timeout=REQUEST_SECONDS,
        write_timeout=REQUEST_SECONDS,
        connect_timeout=CONNECT_SECONDS,
        pool_timeout=REQUEST_SECONDS,
        httpx_kwargs={"trust_env": trust_env},
    )


def _wait_in(payload: bytes) -> float:
    try:
        named = float(orjson.loads(payload)["parameters"]["retry_after"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return DEFAULT_FLOOD_SECONDS
    return min(LONGEST_FLOOD_SECONDS, max(1.0, named))


@contextmanager
def _faults() -> Iterator[None]:
    """Map the library's errors. They may contain the URL, and so the token: none is kept."""
    try:
        yield
    except _RetryAfter as flood:
        raise TelegramRateLimited(flood.seconds) from None
    except InvalidToken:
        raise InvalidBotToken("Telegram rejected the token") from None
    except Conflict as error:
        raise PollingConflict(error.message) from None
    except Forbidden as error:
        raise ChatUnavailable(error.message) from None
    except ChatMigrated as error:
        raise ChatUnavailable(f"the group was migrated to {error.new_chat_id}; allow that id") from None
    except BadRequest as error:
        if _NOT_MODIFIED not in error.message.lower():
            raise _refusal(error.message) from None
    except NetworkError as error:
        raise TelegramUnreachable(type(error).__name__) from None
    except TelegramError as error:
        raise TelegramUnreachable(type(error).__name__) from None


def _refusal(message: str) -> MessageNotFound | ChatUnavailable | TelegramMessageRejected:
    said = message.lower()
    if any(words in said for words in _GONE):
        return MessageNotFound(message)
    return (
        ChatUnavailable(message)
        if any(words in said for words in _CLOSED)
        else TelegramMessageRejected(message)
    )


def _entity(entity: TextEntity) -> MessageEntity:
    return MessageEntity(
        entity.type, entity.offset, entity.length, url=entity.url, language=entity.language
    )


def _markup(content: MessageContent) -> InlineKeyboardMarkup | ForceReply | None:
    if content.wants_reply:
        return ForceReply(selective=True)
    return _keyboard(content)


def _keyboard(content: MessageContent) -> InlineKeyboardMarkup | None:
    if not content.buttons:
        return None
    rows = [
        [InlineKeyboardButton(button.label, callback_data=button.data) for button in row]
        for row in content.buttons
    ]
    return InlineKeyboardMarkup(rows)
