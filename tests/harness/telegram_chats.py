"""The chats of a bot: what people write and press in them, and what the bot shows there."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

BOT = {"id": 7000000001, "is_bot": True, "first_name": "Interlock", "username": "interlock_double_bot"}


@dataclass
class ShownMessage:
    """A message of the bot's, as the chat shows it."""

    chat_id: int
    message_id: int
    text: str
    entities: list[dict[str, Any]] = field(default_factory=list)
    markup: dict[str, Any] | None = None
    reply_to: int | None = None
    is_deleted: bool = False
    versions: list[str] = field(default_factory=list)

    @property
    def buttons(self) -> list[dict[str, str]]:
        rows = (self.markup or {}).get("inline_keyboard", [])
        return [button for row in rows for button in row]

    @property
    def labels(self) -> list[str]:
        return [button["text"] for button in self.buttons]

    @property
    def wants_reply(self) -> bool:
        return bool((self.markup or {}).get("force_reply"))


class FakeChats:
    def __init__(self) -> None:
        self.messages: dict[tuple[int, int], ShownMessage] = {}
        self.presses: dict[str, str | None] = {}
        self._updates: list[dict[str, Any]] = []
        self._next_update = 1000
        self._next_message = 1
        self._known_chats: set[int] = set()
        self._press_chats: dict[str, int] = {}
        self._more = asyncio.Condition()

    # -- what people do --

    async def say(self, user: int, text: str, *, chat: int | None = None, **more: Any) -> int:
        """A message of theirs; in a private chat unless a group is named. Gives its id."""
        chat_id = user if chat is None else chat
        message_id = self._message_id()
        message = {
            "message_id": message_id,
            "date": int(time.time()),
            "chat": self.chat(chat_id),
            "from": person(user),
            "text": text,
            **more,
        }
        command = re.match(r"/\w+(@\w+)?", text or "")
        if command:
            entity = {"type": "bot_command", "offset": 0, "length": command.end()}
            message.setdefault("entities", [entity])
        await self.push({"message": {key: value for key, value in message.items() if value is not None}})
        return message_id

    async def reply(self, user: int, to: int, text: str, *, chat: int | None = None) -> int:
        chat_id = user if chat is None else chat
        shown = self.messages[chat_id, to]
        answered = {
            "message_id": to,
            "date": int(time.time()),
            "chat": self.chat(chat_id),
            "from": BOT,
            "text": shown.text,
        }
        return await self.say(user, text, chat=chat, reply_to_message=answered)

    async def press(self, user: int, message_id: int, label: str, *, chat: int | None = None) -> str:
        chat_id = user if chat is None else chat
        shown = self.messages[chat_id, message_id]
        data = next(button["callback_data"] for button in shown.buttons if button["text"] == label)
        return await self.press_data(user, message_id, data, chat=chat_id)

    async def press_data(self, user: int, message_id: int, data: str, *, chat: int | None = None) -> str:
        chat_id = user if chat is None else chat
        identity = f"press{len(self.presses) + 1}"
        self.presses[identity] = None
        self._press_chats[identity] = chat_id
        message = {
            "message_id": message_id,
            "date": int(time.time()),
            "chat": self.chat(chat_id),
            "from": BOT,
            "text": "x",
        }
        query = {
            "id": identity,
            "from": person(user),
            "chat_instance": "1",
            "message": message,
            "data": data,
        }
        await self.push({"callback_query": query})
        return identity

    async def push(self, update: Mapping[str, Any]) -> int:
        async with self._more:
            self._next_update += 1
            self._updates.append({"update_id": self._next_update, **update})
            for part in update.values():
                chat = part.get("chat") or part.get("message", {}).get("chat")
                self._known_chats.add(chat["id"])
            self._more.notify_all()
            return self._next_update

    def chat(self, chat_id: int) -> dict[str, Any]:
        if chat_id > 0:
            return {"id": chat_id, "type": "private", "first_name": "P"}
        return {"id": chat_id, "type": "supergroup", "title": "G"}

    # -- what was shown --

    def shown(self, chat_id: int) -> list[ShownMessage]:
        """In the order of the chat."""
        found = [shown for (chat, _), shown in sorted(self.messages.items()) if chat == chat_id]
        return [shown for shown in found if not shown.is_deleted]

    def texts(self, chat_id: int) -> list[str]:
        return [shown.text for shown in self.shown(chat_id)]

    async def until(self, wanted: Callable[[], Any], seconds: float = 20.0) -> Any:
        """Until it is so. It is asked again whenever somebody asked for something."""
        async with asyncio.timeout(seconds):
            while not (found := wanted()):
                async with self._more:
                    try:
                        await asyncio.wait_for(self._more.wait(), 0.1)
                    except TimeoutError:
                        continue
        return found

    async def until_shown(self, chat_id: int, text: str, seconds: float = 20.0) -> ShownMessage:
        def found() -> ShownMessage | None:
            return next((shown for shown in self.shown(chat_id) if text in shown.text), None)

        try:
            return await self.until(found, seconds)
        except TimeoutError:
            raise AssertionError(f"{text!r} is not in {self.texts(chat_id)}") from None

    def delete(self, chat_id: int, message_id: int) -> None:
        """As a person deletes a message."""
        self.messages[chat_id, message_id].is_deleted = True

    def _as_message(self, shown: ShownMessage) -> dict[str, Any]:
        return {
            "message_id": shown.message_id,
            "date": int(time.time()),
            "chat": self.chat(shown.chat_id),
            "from": BOT,
            "text": shown.text,
        }

    def _message_id(self) -> int:
        self._next_message += 1
        return self._next_message


def person(user: int) -> dict[str, Any]:
    return {"id": user, "is_bot": False, "first_name": f"P{user}"}
