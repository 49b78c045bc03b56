"""Secrets said in a chat, by people and by a model: nothing that the bot sends brings one back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interlock.channels.telegram import outbox, polling
from interlock.wiring.agents import open_agent_runtime
from interlock.wiring.telegram import open_telegram_app
from tests.canary.canaries import Canary, mixed
from tests.harness.canary import CanaryHarness
from tests.harness.model_answers import called, refused, said
from tests.harness.model_server import ModelServer
from tests.harness.telegram import ADA, EVE, QUICK
from tests.harness.telegram_faults import LOST, InjectedFault
from tests.harness.telegram_server import TelegramServer

TOKEN = f"7000000001:{mixed(35)}"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    for module in (polling, outbox):
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.05)


@pytest.fixture
async def model(canaries) -> AsyncIterator[ModelServer]:
    async with ModelServer([], key=canaries.environment["OPENAI_API_KEY"]) as server:
        yield server


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(TOKEN) as server:
        yield server
    assert server.faults == []


@pytest.fixture
def surroundings(surroundings, canaries, model, telegram) -> dict[str, str]:
    # Before the colon is the bot's id, which everybody may know.
    canaries.known.append(Canary("TELEGRAM_BOT_TOKEN", TOKEN.partition(":")[2], TOKEN))
    spoken = {"MODEL": "openai", "OPENAI_BASE_URL": model.base_url, "OPENAI_MODEL": "m"}
    bot = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.base_url,
        "TELEGRAM_ALLOWED_USERS": str(ADA),
        "TELEGRAM_OPERATORS": str(ADA),
        "TELEGRAM_PENDING_SECONDS": "0.05",
        "SESSION_OPEN_MODES": "chat",
    }
    return {**surroundings, **spoken, **bot, "CONTROL_MAX_RETRIES": "0"}


@asynccontextmanager
async def bot_of(harness: CanaryHarness, telegram: TelegramServer) -> AsyncIterator[None]:
    """Everything that the bot ever asked of Telegram is heard at the end."""
    agent_runtime = open_agent_runtime(harness.runtime)
    front = open_telegram_app(agent_runtime, private=QUICK, group=QUICK)
    worker = agent_runtime.worker()
    parts = (front.run(), front.hub.run(), worker.run())
    polling, following, working = (asyncio.create_task(part) for part in parts)
    try:
        yield
    finally:
        polling.cancel()
        worker.stop()
        await asyncio.wait({polling, working})
        await front.flush()
        await front.close()
        following.cancel()
        await asyncio.wait({following})
        await agent_runtime.close()
        asked = [dict(request.parameters) for request in telegram.requests]
        harness.heard("requests", json.dumps(asked, ensure_ascii=False), json.dumps(asked))
        shown = [each.text for each in telegram.messages.values()]
        harness.heard("all messages, one behind the other", "".join(shown), "\n".join(shown))


async def test_what_people_and_strangers_say(harness: CanaryHarness, telegram, model):
    model._script.extend(said("Fine.") for _ in range(3))
    async with bot_of(harness, telegram):
        for canary in harness.canaries.alone:
            await telegram.say(EVE, canary.text)
            await telegram.say(ADA, f"/mode {canary.secret}")
            await telegram.say(ADA, f"/{canary.secret}")
        await telegram.say(ADA, harness.canaries.text)
        await telegram.until_shown(ADA, "Fine.", 60)
    assert await harness.is_clean()


async def test_what_a_model_says_calls_and_asks(harness: CanaryHarness, telegram, model):
    harness.write("secrets.txt", harness.canaries.text)
    texts = [canary.secret for canary in harness.canaries.alone]
    question = {
        "type": "selection",
        "message": f"Is it {texts[0]}?",
        "options": [{"value": f"v{number}", "label": text[:200]} for number, text in enumerate(texts[:5])],
        "allow_other": True,
    }
    reads = [("read_file", {"path": "secrets.txt"}), ("read_file", {"path": f"{texts[1]}.txt"})]
    model._script.extend(
        [
            called(*reads, ("write_file", {"path": texts[2], "content": harness.canaries.text}), ids="a"),
            called(("ask_user", question), ids="b"),
            said(harness.canaries.text, size=7),
            refused(400, f"no: {texts[3]}"),
        ]
    )
    async with bot_of(harness, telegram):
        await telegram.say(ADA, "/mode chat")
        await telegram.until_shown(ADA, "to chat mode", 30)
        await telegram.say(ADA, "go")
        asked = await telegram.until(
            lambda: next((each for each in telegram.shown(ADA) if "Is it" in each.text), None), 60
        )
        await telegram.reply(ADA, asked.message_id, f"No, it is {texts[4]}")
        await telegram.until_shown(ADA, "ordinary words between", 60)
        await telegram.say(ADA, "/why")
        await telegram.until_shown(ADA, "Denied:", 30)
        await telegram.say(ADA, "again")
        await telegram.until_shown(ADA, "⚠", 60)
    assert await harness.is_clean()


async def test_what_goes_wrong_with_telegram(harness: CanaryHarness, telegram, model):
    """Servers in between like to repeat the address that was asked for."""
    model._script.extend([said(f"It is {harness.canaries.alone[0].secret}.") for _ in range(2)])
    address = f"<html>no such page: {telegram.base_url}/bot{TOKEN}/x</html>"
    for method in ("getMe", "getUpdates", "sendMessage"):
        telegram.trouble(method, InjectedFault(502, address), InjectedFault(200, address), LOST)
    description = {"ok": False, "error_code": 400, "description": f"Bad Request: {TOKEN}"}
    telegram.trouble("sendMessage", InjectedFault(400, description))
    async with bot_of(harness, telegram):
        await telegram.say(ADA, "go")
        await telegram.until_shown(ADA, "It is", 60)
    assert await harness.is_clean()
