"""A Bot API server on a real socket, which judges every request as Telegram does, and can be told to fail.

People write to the bot with `say` and press its buttons with `press`; what the bot shows is in `shown`.
Whatever Telegram would refuse is refused, and what no bot should do at all is in `faults`, which must stay
empty.
"""

import asyncio
import json
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKEN = "7000000001:AAF-double_double_double_double_dou"
BOT = {"id": 7000000001, "is_bot": True, "first_name": "Interlock", "username": "interlock_double_bot"}
MAX_UNITS = 4096

ENTITY_TYPES = {"bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote", "underline"}
PARAMETERS = {
    "getMe": set(),
    "getUpdates": {"offset", "timeout", "limit", "allowed_updates"},
    "setMyCommands": {"commands", "scope", "language_code"},
    "sendMessage": {
        *("chat_id", "text", "entities", "reply_markup", "reply_parameters", "link_preview_options"),
    },
    "editMessageText": {
        *("chat_id", "message_id", "text", "entities", "reply_markup", "link_preview_options"),
    },
    "deleteMessage": {"chat_id", "message_id"},
    "answerCallbackQuery": {"callback_query_id", "text", "show_alert"},
    "sendChatAction": {"chat_id", "action"},
}


@dataclass(frozen=True)
class Trouble:
    """What becomes of one request instead of an ordinary answer."""

    status: int = 200
    body: str | Mapping[str, Any] = ""
    # It is done, and only the answer is another or gets lost.
    after_effect: bool = False
    drops: bool = False
    seconds: float = 0.0


def flood(seconds: int) -> Trouble:
    description = f"Too Many Requests: retry after {seconds}"
    return Trouble(429, {**refusal(429, description), "parameters": {"retry_after": seconds}})


def refusal(status: int, description: str) -> dict[str, Any]:
    return {"ok": False, "error_code": status, "description": description}


LOST = Trouble(drops=True)
LOST_AFTER = Trouble(drops=True, after_effect=True)
BAD_GATEWAY = Trouble(502, "<html><body>Bad Gateway</body></html>")
INTERNAL = Trouble(500, refusal(500, "Internal Server Error"))
CONFLICT = Trouble(409, refusal(409, "Conflict: terminated by other getUpdates request"))
UNAUTHORIZED = Trouble(401, refusal(401, "Unauthorized"))
BLOCKED = Trouble(403, refusal(403, "Forbidden: bot was blocked by the user"))


class Refused(Exception):
    def __init__(self, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.status = status


@dataclass
class Shown:
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


@dataclass(frozen=True)
class Request:
    time: float
    method: str
    parameters: Mapping[str, Any]


def wide(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class TelegramServer:
    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.faults: list[str] = []
        self.requests: list[Request] = []
        self.messages: dict[tuple[int, int], Shown] = {}
        self.presses: dict[str, str | None] = {}
        self.commands: list[dict[str, str]] = []
        self.offset = 0
        self.polls = 0
        self.limits: dict[str, tuple[int, float]] | None = None
        self._troubles: dict[str, deque[Trouble]] = defaultdict(deque)
        self._updates: list[dict[str, Any]] = []
        # Given once more, although they were asked for no more.
        self.repeated: list[dict[str, Any]] = []
        self._next_update = 1000
        self._next_message = 1
        self._known_chats: set[int] = set()
        self._polling = 0
        self._more = asyncio.Condition()
        self._times: dict[int, deque[float]] = defaultdict(deque)
        # Until when a chat was told to be left alone; None: all of them.
        self._silent: dict[int | None, float] = {}
        self._press_chats: dict[str, int] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.is_down = False

    # -- life --

    async def __aenter__(self) -> "TelegramServer":
        await self.start()
        return self

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nobody listens any more, until it is started again on the same port."""
        async with self._more:
            self._polling += 1
            self._more.notify_all()
        await self._runner.cleanup()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

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

    def shown(self, chat_id: int) -> list[Shown]:
        """In the order of the chat."""
        found = [shown for (chat, _), shown in sorted(self.messages.items()) if chat == chat_id]
        return [shown for shown in found if not shown.is_deleted]

    def texts(self, chat_id: int) -> list[str]:
        return [shown.text for shown in self.shown(chat_id)]

    def sent(self, method: str) -> list[Mapping[str, Any]]:
        return [request.parameters for request in self.requests if request.method == method]

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

    async def until_shown(self, chat_id: int, text: str, seconds: float = 20.0) -> Shown:
        def found() -> Shown | None:
            return next((shown for shown in self.shown(chat_id) if text in shown.text), None)

        try:
            return await self.until(found, seconds)
        except TimeoutError:
            raise AssertionError(f"{text!r} is not in {self.texts(chat_id)}") from None

    def trouble(self, method: str, *troubles: Trouble) -> None:
        """What becomes of its next requests."""
        self._troubles[method].extend(troubles)

    def delete(self, chat_id: int, message_id: int) -> None:
        """As a person deletes a message."""
        self.messages[chat_id, message_id].is_deleted = True

    # -- answering --

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        found = re.fullmatch(r"bot([^/]+)/(\w+)", request.match_info["path"])
        if found is None or found[1] != self.token:
            return _json(refusal(401, "Unauthorized"), 401)
        method = found[2]
        given = {name: _value(value) for name, value in (await request.post()).items()}
        async with self._more:
            self.requests.append(Request(time.monotonic(), method, given))
            self._more.notify_all()
        self._check_silence(method, given)
        trouble = self._troubles[method].popleft() if self._troubles[method] else None
        if trouble is not None:
            await asyncio.sleep(trouble.seconds)
            if not trouble.after_effect and (trouble.drops or trouble.status != 200 or trouble.body):
                self._note_silence(method, given, trouble)
                return self._fail(request, trouble)
        response = await self._carry_out(method, given)
        if trouble is not None and trouble.after_effect:
            return self._fail(request, trouble)
        return response

    def _chat_of(self, method: str, given: Mapping[str, Any]) -> int | None:
        if method == "answerCallbackQuery":
            return self._press_chats.get(given["callback_query_id"])
        return given.get("chat_id")

    def _note_silence(self, method: str, given: Mapping[str, Any], trouble: Trouble) -> None:
        if trouble.status == 429 and isinstance(trouble.body, Mapping):
            seconds = trouble.body["parameters"]["retry_after"]
            self._silent[self._chat_of(method, given)] = time.monotonic() + seconds

    def _check_silence(self, method: str, given: Mapping[str, Any]) -> None:
        """A wait that was asked of one method holds for all of them."""
        chat_id = self._chat_of(method, given)
        if chat_id is None:
            return
        left = max(self._silent.get(chat_id, 0.0), self._silent.get(None, 0.0)) - time.monotonic()
        if left > 0:
            self.faults.append(f"{method} to {chat_id}, {left:.2f} seconds before the end of a flood wait")

    def _fail(self, request: web.Request, trouble: Trouble) -> web.StreamResponse:
        if trouble.drops:
            request.transport.abort()
            return web.Response()
        if isinstance(trouble.body, str):
            return web.Response(status=trouble.status, text=trouble.body, content_type="text/html")
        return _json(trouble.body, trouble.status)

    async def _carry_out(self, method: str, given: dict[str, Any]) -> web.Response:
        known = PARAMETERS.get(method)
        if known is None or given.keys() - known:
            self.faults.append(f"{method} {sorted(given.keys() - (known or set()))} is unknown")
            return _json(refusal(404, "Not Found"), 404)
        try:
            self._count(method, given)
            named = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", method)
            result = await getattr(self, f"_{named}")(**given)
        except Refused as refused:
            if refused.status == 429:
                answer = refusal(429, str(refused)) | {"parameters": {"retry_after": 1}}
                return _json(answer, 429)
            return _json(refusal(refused.status, f"Bad Request: {refused}"), refused.status)
        except (TypeError, KeyError, ValueError) as error:
            self.faults.append(f"{method} {given}: {error!r}")
            return _json(refusal(400, f"Bad Request: {error!r}"), 400)
        async with self._more:
            self._more.notify_all()
        return _json({"ok": True, "result": result})

    def _count(self, method: str, given: Mapping[str, Any]) -> None:
        """What Telegram says of limits, where a test has set them."""
        chat_id = self._chat_of(method, given)
        if self.limits is None or chat_id is None:
            return
        count, seconds = self.limits["private" if chat_id > 0 else "group"]
        times, now = self._times[chat_id], time.monotonic()
        while times and now - times[0] > seconds:
            times.popleft()
        times.append(now)
        if len(times) > count:
            self.faults.append(f"{len(times)} requests within {seconds} seconds in {chat_id}")
            raise Refused("Too Many Requests: retry after 1", 429)

    # -- methods --

    async def _get_me(self) -> dict[str, Any]:
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": False}

    async def _get_updates(
        self, offset: int = 0, timeout: int = 0, limit: int = 100, allowed_updates: list[str] | None = None
    ) -> list[dict[str, Any]]:
        if not 1 <= limit <= 100:
            raise Refused("limit must be between 1 and 100")
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
                raise Refused("Conflict: terminated by other getUpdates request", 409)
            repeated, self.repeated = self.repeated, []
            return [*repeated, *self._updates][:limit]

    async def _set_my_commands(self, commands: list[dict[str, str]]) -> bool:
        for command in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"]):
                raise Refused("BOT_COMMAND_INVALID")
            if not 1 <= len(command["description"]) <= 256:
                raise Refused("BOT_COMMAND_DESCRIPTION_INVALID")
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
            raise Refused("chat not found")
        self._check_text(str(text), entities or [])
        self._check_markup(reply_markup)
        shown = Shown(chat_id, self._message_id(), str(text).strip(), entities or [], reply_markup)
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
            raise Refused("message to edit not found")
        if shown.wants_reply:
            raise Refused("message can't be edited")
        self._check_text(str(text), entities or [])
        self._check_markup(reply_markup)
        if reply_markup is not None and "inline_keyboard" not in reply_markup:
            raise Refused("inline keyboard expected")
        new = (str(text).strip(), entities or [], reply_markup)
        if new == (shown.text, shown.entities, shown.markup):
            raise Refused("message is not modified: specified new message content is exactly the same")
        shown.text, shown.entities, shown.markup = new
        shown.versions.append(shown.text)
        return self._as_message(shown)

    async def _delete_message(self, chat_id: int, message_id: int) -> bool:
        shown = self.messages.get((chat_id, message_id))
        if shown is None or shown.is_deleted:
            raise Refused("message to delete not found")
        shown.is_deleted = True
        return True

    async def _answer_callback_query(
        self, callback_query_id: str, text: str = "", show_alert: bool = False
    ) -> bool:
        if callback_query_id not in self.presses:
            raise Refused("query is too old and response timeout expired or query ID is invalid")
        if len(str(text)) > 200:
            raise Refused("MESSAGE_TOO_LONG")
        self.presses[callback_query_id] = str(text)
        return True

    async def _send_chat_action(self, chat_id: int, action: str) -> bool:
        if action != "typing":
            raise Refused("wrong parameter action in request")
        return True

    # -- judging --

    def _check_text(self, text: str, entities: list[dict[str, Any]]) -> None:
        if not text.strip():
            self.faults.append("an empty message")
            raise Refused("message text is empty")
        if wide(text) > MAX_UNITS:
            self.faults.append(f"a message of {wide(text)} units")
            raise Refused("message is too long")
        for entity in entities:
            end = entity["offset"] + entity["length"]
            if entity["type"] not in ENTITY_TYPES or entity["offset"] < 0 or entity["length"] <= 0:
                self.faults.append(f"an odd entity: {entity}")
                raise Refused("ENTITY_BOUNDS_INVALID")
            if end > wide(text):
                self.faults.append(f"an entity beyond the text: {entity}")
                raise Refused("ENTITY_BOUNDS_INVALID")
            if entity["type"] == "text_link" and not entity.get("url"):
                raise Refused("ENTITY_URL_INVALID")

    def _check_markup(self, markup: dict[str, Any] | None) -> None:
        rows = (markup or {}).get("inline_keyboard", [])
        buttons = [button for row in rows for button in row]
        if len(buttons) > 100:
            raise Refused("reply markup is too long")
        for button in buttons:
            data = button.get("callback_data", "")
            if not button["text"].strip() or not 1 <= len(data.encode()) <= 64:
                self.faults.append(f"an odd button: {button}")
                raise Refused("BUTTON_DATA_INVALID")

    def _as_message(self, shown: Shown) -> dict[str, Any]:
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


def _json(document: Any, status: int = 200) -> web.Response:
    return web.json_response(document, status=status)


def _value(text: Any) -> Any:
    """Parameters that are no texts come as JSON."""
    if re.fullmatch(r"-?\d+|true|false|[\[{].*", str(text), re.DOTALL):
        try:
            return json.loads(str(text))
        except json.JSONDecodeError:
            return str(text)
    return str(text)
