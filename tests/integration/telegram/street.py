"""A bot at work in this process: real office, real store, a Bot API double over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.channels.telegram.traffic import Pace
from interlock.config.settings import Settings
from interlock.events.feed import whole_stream
from interlock.gates.verdict import SwitchWay
from interlock.wiring import open_runtime
from interlock.wiring.office import Office, open_office
from interlock.wiring.telegram import Front, open_front
from tests.doubles.telegram_server import TOKEN, TelegramServer

ADA, BOB, EVE = 501, 502, 666
GROUP = -1001
# The chats of tests are not limited unless a test is about that.
QUICK = Pace(requests=1000, seconds=1.0, soft_seconds=0.02)


def script(*items: Any) -> str:
    return f"scripted:{json.dumps(list(items))}"


class Street:
    def __init__(
        self,
        office: Office,
        front: Front,
        telegram: TelegramServer,
        root: Path,
        speaking: Any,
        dismissed: int,
    ) -> None:
        self.office = office
        self.runtime = office.runtime
        self.front = front
        self.telegram = telegram
        self.root = root
        # The one that speaks for the bot.
        self.speaking = speaking
        # How many tasks of people who are no longer listed it cancelled at its start.
        self.dismissed = dismissed

    async def session(self, chat: int = ADA) -> str:
        rows = await self.query("SELECT session_id FROM telegram_chats WHERE chat_id = ?", chat)
        return rows[0][0]

    async def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await self.runtime.database.read(lambda db: db.query(sql, parameters))

    async def events(self, kind: str, stream: str | None = None) -> list[dict[str, Any]]:
        name = stream or await self.session()
        found = await self.runtime.database.read(lambda db: list(whole_stream(db, name)))
        return [event.payload() for event in (each.event() for each in found) if event.kind == kind]

    async def delivered(self, count: int = 1) -> None:
        """So many answers have arrived, and nothing is left to be told."""
        async with asyncio.timeout(20):
            while True:
                rows = await self.query("SELECT count(*) FROM events WHERE kind = 'reply.sent'")
                left = await self.query("SELECT count(*) FROM telegram_tasks")
                if rows[0][0] >= count and left[0][0] == 0:
                    return
                await asyncio.sleep(0.02)

    async def talk(self, text: str, answer: str, *, user: int = ADA) -> None:
        await self.telegram.say(user, text)
        await self.telegram.until_shown(user, answer)


@asynccontextmanager
async def opened_street(
    tmp_path: Path,
    monkeypatch: Any,
    telegram: TelegramServer,
    environment: Mapping[str, str] | None = None,
    *,
    works: bool = True,
    pace: Pace = QUICK,
    **callbacks: Any,
) -> AsyncIterator[Street]:
    """It ends as `interlock telegram` ends."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    given = {
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.base_url,
        "TELEGRAM_ALLOWED_USERS": f"{ADA},{BOB}",
        "TELEGRAM_ALLOWED_CHATS": str(GROUP),
        "TELEGRAM_OPERATORS": str(ADA),
        "TELEGRAM_PENDING_SECONDS": "0.1",
        **(environment or {}),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    runtime = open_runtime(Settings())
    office = open_office(runtime, way=SwitchWay.telegram)
    front = open_front(office, private=pace, group=pace, **callbacks)
    dismissed = await front.dismiss()
    worker = office.worker()
    if not works:
        worker.stop()
    running = [
        asyncio.create_task(part)
        for part in (front.run(), front.hub.run(), office.listen(worker.has_room), worker.run())
    ]
    try:
        yield Street(office, front, telegram, root, running[0], dismissed)
    finally:
        running[0].cancel()
        worker.stop()
        await asyncio.wait({running[0], running[3]})
        await front.flush()
        await front.close()
        for task in running[1:3]:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await office.close()
        await runtime.close()
