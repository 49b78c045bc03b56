"""A Telegram bot in this process: real runtime, real store, a fake Bot API over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.channels.telegram.rate_limit import RateLimit
from interlock.policy.verdict import ModeSwitchMethod
from interlock.wiring.agents import AgentRuntime
from interlock.wiring.telegram import TelegramApp, open_telegram_app
from tests.harness.runtime import RuntimeHarness, open_agent_runtime_here, set_environment
from tests.harness.telegram_server import TOKEN, TelegramServer

ADA, BOB, EVE = 501, 502, 666
GROUP = -1001
# The chats of tests are not limited unless a test is about that.
QUICK = RateLimit(requests=1000, seconds=1.0, soft_seconds=0.02)


def script(*items: Any) -> str:
    return f"scripted:{json.dumps(list(items))}"


class TelegramHarness(RuntimeHarness):
    """`speaking` is the task that speaks for the bot; `dismissed` is how many tasks of people who are no
    longer listed were cancelled at the start."""

    def __init__(
        self,
        agent_runtime: AgentRuntime,
        front: TelegramApp,
        telegram: TelegramServer,
        root: Path,
        speaking: Any,
        dismissed: int,
    ) -> None:
        super().__init__(agent_runtime, root)
        self.front = front
        self.telegram = telegram
        self.speaking = speaking
        self.dismissed = dismissed

    async def chat_session(self, chat: int = ADA) -> str:
        rows = await self.query("SELECT session_id FROM telegram_chats WHERE chat_id = ?", chat)
        return rows[0][0]

    async def chat_events(self, kind: str, chat: int = ADA) -> list[dict[str, Any]]:
        return self.payloads(await self.chat_session(chat), kind)

    async def delivered(self, count: int = 1) -> None:
        """So many answers have arrived, and nothing is left to be sent."""
        async with asyncio.timeout(20):
            while True:
                rows = await self.query("SELECT count(*) FROM events WHERE kind = 'reply.sent'")
                left = await self.query("SELECT count(*) FROM telegram_tasks")
                if rows[0][0] >= count and left[0][0] == 0:
                    return
                await asyncio.sleep(0.02)

    async def chat(self, text: str, answer: str, *, user: int = ADA) -> None:
        """Send a text to the bot and wait until the answer is shown."""
        await self.telegram.say(user, text)
        await self.telegram.until_shown(user, answer)


@asynccontextmanager
async def open_telegram_harness(
    tmp_path: Path,
    monkeypatch: Any,
    telegram: TelegramServer,
    environment: Mapping[str, str] | None = None,
    *,
    works: bool = True,
    pace: RateLimit = QUICK,
    **callbacks: Any,
) -> AsyncIterator[TelegramHarness]:
    """It ends as `interlock telegram` ends."""
    own = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.base_url,
        "TELEGRAM_ALLOWED_USERS": f"{ADA},{BOB}",
        "TELEGRAM_ALLOWED_CHATS": str(GROUP),
        "TELEGRAM_OPERATORS": str(ADA),
        "TELEGRAM_PENDING_SECONDS": "0.1",
    }
    root = set_environment(tmp_path, monkeypatch, own | dict(environment or {}))
    async with open_agent_runtime_here(way=ModeSwitchMethod.telegram) as agent_runtime:
        front = open_telegram_app(agent_runtime, private=pace, group=pace, **callbacks)
        dismissed = await front.dismiss()
        worker = agent_runtime.worker()
        if not works:
            worker.stop()
        running = [
            asyncio.create_task(part)
            for part in (
                front.run(),
                front.hub.run(),
                agent_runtime.runtime.bus.run(worker.has_room),
                worker.run(),
            )
        ]
        try:
            yield TelegramHarness(agent_runtime, front, telegram, root, running[0], dismissed)
        finally:
            running[0].cancel()
            worker.stop()
            await asyncio.wait({running[0], running[3]})
            await front.flush()
            await front.close()
            for task in running[1:3]:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
