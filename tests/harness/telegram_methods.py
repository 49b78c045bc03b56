"""The methods of the Bot API, each with what it does to the chats and what it refuses."""

import asyncio
import re
import time
from typing import Any

from tests.harness.telegram_chats import BOT, FakeChats, ShownMessage
from tests.harness.telegram_validation import BotApiRefusal, check_markup, check_text


class FakeBotApiMethods(FakeChats):
    """What no bot should do at all is in `faults`."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.commands: list[dict[str, str]] = []
        self.offset = 0
        self.polls = 0
        # Given once more, although they were asked for no more.
        self.repeated: list[dict[str, Any]] = []
        self._polling = 0

    async def _get_me(self) -> dict[str, Any]:
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": False}

    async def _get_updates(
        self, offset: int = 0, timeout: int = 0, limit: int = 100, allowed_updates: list[str] | None = None
    ) -> list[dict[str, Any]]:
        if not 1 <= limit <= 100:
            raise BotApiRefusal("limit must be between 1 and 100")
        async with self._more:
            self._polling += 1
            self.polls += 1
            mine = self._polling
            self._more.notify_all()
            if offset > 0:
                self.offset = max(self.offset, offset)
                self._updates = [update for update in self._updates if update["update_id"] >= offset]
            until = time.monotonic() + timeout
            while not self._updates and mine == self._polling and time.monotonic() < until:
                try:
                    await asyncio.wait_for(self._more.wait(), 0.2)
                except TimeoutError:
                    continue
            if mine != self._polling:
                raise BotApiRefusal("Conflict: terminated by other getUpdates request", 409)
            repeated, self.repeated = self.repeated, []
            return [*repeated, *self._updates][:limit]

    async def _set_my_commands(self, commands: list[dict[str, str]]) -> bool:
        for command in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"]):
                raise BotApiRefusal("BOT_COMMAND_INVALID")
            if not 1 <= len(command["description"]) <= 256:
                raise BotApiRefusal("BOT_COMMAND_DESCRIPTION_INVALID")
        self.commands = commands
        return True

    async def _send_message(
        self,
        chat_id: int,
        text: str,
        entities: list[dict[str, Any]] | None = None,
        reply_markup: dict[str, Any] | None = None,
        reply_parameters: dict[str, Any] | None = None,
        link_preview_options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        if chat_id not in self._known_chats:
            raise BotApiRefusal("chat not found")
        check_text(str(text), entities or [], self.faults)
        check_markup(reply_markup, self.faults)
        shown = ShownMessage(chat_id, self._message_id(), str(text).strip(), entities or [], reply_markup)
        shown.reply_to = (reply_parameters or {}).get("message_id")
        shown.versions.append(shown.text)
        self.messages[chat_id, shown.message_id] = shown
        return self._as_message(shown)

    async def _edit_message_text(
        self,
        chat_id: int,
        message_id: int,
        text: str,
        entities: list[dict[str, Any]] | None = None,
        reply_markup: dict[str, Any] | None = None,
        link_preview_options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        shown = self.messages.get((chat_id, message_id))
        if shown is None or shown.is_deleted:
            raise BotApiRefusal("message to edit not found")
        if shown.wants_reply:
            raise BotApiRefusal("message can't be edited")
        check_text(str(text), entities or [], self.faults)
        check_markup(reply_markup, self.faults)
        if reply_markup is not None and "inline_keyboard" not in reply_markup:
            raise BotApiRefusal("inline keyboard expected")
        new = (str(text).strip(), entities or [], reply_markup)
        if new == (shown.text, shown.entities, shown.markup):
            raise BotApiRefusal(
                "message is not modified: specified new message content is exactly the same"
            )
        shown.text, shown.entities, shown.markup = new
        shown.versions.append(shown.text)
        return self._as_message(shown)

    async def _delete_message(self, chat_id: int, message_id: int) -> bool:
        shown = self.messages.get((chat_id, message_id))
        if shown is None or shown.is_deleted:
            raise BotApiRefusal("message to delete not found")
        shown.is_deleted = True
        return True

    async def _answer_callback_query(
        self, callback_query_id: str, text: str = "", show_alert: bool = False
    ) -> bool:
        if callback_query_id not in self.presses:
            raise BotApiRefusal("query is too old and response timeout expired or query ID is invalid")
        if len(str(text)) > 200:
            raise BotApiRefusal("MESSAGE_TOO_LONG")
        self.presses[callback_query_id] = str(text)
        return True

    async def _send_chat_action(self, chat_id: int, action: str) -> bool:
        if action != "typing":
            raise BotApiRefusal("wrong parameter action in request")
        return True
