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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.harness.telegram_faults import InjectedFault
from tests.harness.telegram_methods import FakeBotApiMethods
from tests.harness.telegram_validation import PARAMETERS, BotApiRefusal, refusal

TOKEN = "7000000001:AAF-double_double_double_double_dou"


@dataclass(frozen=True)
class BotApiRequest:
    time: float
    method: str
    parameters: Mapping[str, Any]


class TelegramServer(FakeBotApiMethods):
    def __init__(self, token: str = TOKEN) -> None:
        super().__init__()
        self.token = token
        self.requests: list[BotApiRequest] = []
        self.limits: dict[str, tuple[int, float]] | None = None
        self._troubles: dict[str, deque[InjectedFault]] = defaultdict(deque)
        self._times: dict[int, deque[float]] = defaultdict(deque)
        # Until when a chat was told to be left alone; None: all of them.
        self._silent: dict[int | None, float] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0

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

    # -- what was asked, and what becomes of it --

    def sent(self, method: str) -> list[Mapping[str, Any]]:
        return [request.parameters for request in self.requests if request.method == method]

    def trouble(self, method: str, *troubles: InjectedFault) -> None:
        """What becomes of its next requests."""
        self._troubles[method].extend(troubles)

    # -- answering --

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        found = re.fullmatch(r"bot([^/]+)/(\w+)", request.match_info["path"])
        if found is None or found[1] != self.token:
            return _json(refusal(401, "Unauthorized"), 401)
        method = found[2]
        given = {name: _value(value) for name, value in (await request.post()).items()}
        async with self._more:
            self.requests.append(BotApiRequest(time.monotonic(), method, given))
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

    def _note_silence(self, method: str, given: Mapping[str, Any], trouble: InjectedFault) -> None:
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

    def _fail(self, request: web.Request, trouble: InjectedFault) -> web.StreamResponse:
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
        except BotApiRefusal as refused:
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
            raise BotApiRefusal("Too Many Requests: retry after 1", 429)


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
