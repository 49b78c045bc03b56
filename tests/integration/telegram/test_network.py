"""Telegram away, flooded, wrong or forgetful: the answer arrives, and nothing is done twice."""

import asyncio
import sqlite3
import time

import pytest

from interlock.channels.telegram import outbox, polling
from interlock.channels.telegram.rate_limit import (
    PRIVATE_CHAT_LIMIT,
    BotRateLimiter,
    RateLimit,
    SlidingWindowCounter,
)
from interlock.channels.telegram.store import TelegramStore
from interlock.core.errors import FatalError, StoreUnavailable
from tests.harness.telegram import ADA, BOB, EVE, GROUP, open_telegram_harness, script
from tests.harness.telegram_chats import BOT
from tests.harness.telegram_faults import (
    BAD_GATEWAY,
    BLOCKED,
    CONFLICT,
    INTERNAL,
    LOST,
    LOST_AFTER,
    UNAUTHORIZED,
    InjectedFault,
    flood,
)
from tests.harness.telegram_validation import refusal
from tests.integration.telegram.test_admission import MENTION
from tests.integration.telegram.test_talking import contents


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    for module in (polling, outbox):
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.05)
        monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.2)


@pytest.mark.parametrize("method", ["getUpdates", "sendMessage", "getMe"])
async def test_every_kind_of_trouble_is_survived(open_harness, telegram, method):
    telegram.trouble(method, LOST, BAD_GATEWAY, INTERNAL, InjectedFault(200, "<html>"), LOST)
    telegram.trouble(method, InjectedFault(503, "no"), flood(1))
    await telegram.say(ADA, "hi")
    harness = await open_harness(MODEL=script("msg:one"))
    await telegram.until_shown(ADA, "one")
    await harness.delivered()
    assert await contents(harness) == ["hi"]
    assert telegram.texts(ADA) == ["one"]


async def test_the_network_goes_away_and_comes_back(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one", {"msg": "two", "sleep_ms": 300}))
    await harness.chat("a", "one")
    await telegram.say(ADA, "b")
    await telegram.until(lambda: len(telegram.sent("sendChatAction")) or telegram.polls > 2)
    await telegram.stop()
    await asyncio.sleep(0.8)
    await telegram.start()
    await telegram.until_shown(ADA, "two")
    await harness.delivered(2)
    assert telegram.texts(ADA) == ["one", "two"]


async def test_an_update_whose_answer_got_lost_is_taken_once(open_harness, telegram):
    """Telegram gives it again, because it was never told that it arrived."""
    await telegram.say(ADA, "once")
    telegram.trouble("getUpdates", LOST_AFTER, LOST_AFTER)
    harness = await open_harness(MODEL=script("msg:one"))
    await telegram.until_shown(ADA, "one")
    await harness.delivered()
    assert await contents(harness) == ["once"]


async def test_a_flood_wait_is_kept_and_the_end_of_the_text_is_shown(open_harness, telegram):
    words = " ".join(f"word{number}" for number in range(40))
    harness = await open_harness(MODEL=script({"msg": words}))
    telegram.trouble("sendMessage", flood(1))
    await telegram.say(ADA, "go")
    await telegram.until_shown(ADA, "word39")
    await harness.delivered()
    tries = [request.time for request in telegram.requests if request.method == "sendMessage"]
    shown = [request.time for request in telegram.requests if "Text" in request.method]
    assert tries[1] - tries[0] >= 1.0
    assert all(time >= tries[1] for time in shown)
    assert telegram.texts(ADA) == [words]


async def test_a_flood_wait_asked_of_one_method_is_kept_by_all(open_harness, telegram):
    """The double finds fault with whatever reaches a chat before its wait is over."""
    question = {"type": "confirmation", "message": "Go on?"}
    asking = {"tool_calls": [{"name": "ask_user", "arguments": question}]}
    harness = await open_harness(MODEL=script(asking, "msg:done"))
    telegram.trouble("sendChatAction", flood(1))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Go on?")
    telegram.trouble("answerCallbackQuery", flood(1))
    press = await telegram.press(ADA, shown.message_id, "Yes")
    await telegram.until_shown(ADA, "done")
    await harness.delivered()
    assert telegram.presses[press] == ""
    tries = [each.time for each in telegram.requests if each.method == "answerCallbackQuery"]
    assert len(tries) == 2
    assert tries[1] - tries[0] >= 1.0
    typed = next(each.time for each in telegram.requests if each.method == "sendChatAction")
    sent = next(each.time for each in telegram.requests if each.method == "sendMessage")
    assert sent - typed >= 1.0


async def test_what_is_typed_and_pressed_waits_while_a_text_is_flooded(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one", {"msg": "two", "sleep_ms": 300}))
    telegram.trouble("sendMessage", flood(2))
    await telegram.say(ADA, "a")
    await telegram.until(lambda: telegram.sent("sendMessage"))
    press = await telegram.press_data(ADA, 1, "nothing:y")
    await telegram.say(ADA, "b")
    await telegram.until_shown(ADA, "two")
    await harness.delivered(2)
    assert telegram.presses[press] == "That question is closed."


async def test_strangers_are_told_within_the_limits_and_their_flood_waits_are_kept(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"))
    telegram.trouble("sendMessage", flood(1), flood(2))
    await telegram.say(EVE, "let me in")
    await telegram.until(lambda: len(telegram.sent("sendMessage")) == 1)
    await telegram.say(EVE + 1, "let me in")
    await telegram.until(lambda: len(telegram.sent("sendMessage")) == 2)
    flooded_at = time.monotonic()
    # Two flooded chats are a flooded bot: everybody else waits as well.
    await harness.chat("hi", "one")
    sent = next(each for each in telegram.requests if each.parameters.get("chat_id") == ADA)
    assert sent.time - flooded_at >= 1.5


def test_two_flooded_chats_silence_all():
    traffic = BotRateLimiter()
    traffic.pause_chat(1, 100.0, 30.0)
    assert traffic.wait_seconds(100.0) <= 0
    traffic.pause_chat(2, 110.0, 5.0)
    assert traffic.wait_seconds(110.0) == 20.0


def test_a_growing_text_leaves_room_for_what_must_be_shown():
    meter = SlidingWindowCounter(RateLimit(requests=4, seconds=60.0, soft_seconds=1.0))
    for number in range(3):
        assert meter.wait_seconds(number * 2.0, soft=True) <= 0
        meter.count(number * 2.0)
    assert meter.wait_seconds(4.5, soft=True) > 50
    assert meter.wait_seconds(4.5) <= 0
    meter.count(4.5)
    assert meter.wait_seconds(5.0) == 55.0


async def test_it_keeps_within_telegrams_limits_in_private(open_harness, telegram):
    """The usual pace, against a server that counts."""
    telegram.limits = {"private": (30, 30.0), "group": (20, 60.0)}
    calls = [{"tool_calls": [{"name": "current_time"}]} for _ in range(12)]
    harness = await open_harness(
        MODEL=script(*calls, "msg:done"), pace=PRIVATE_CHAT_LIMIT, CONTROL_MAX_REPEATS="50"
    )
    await telegram.say(ADA, "go")
    await telegram.until_shown(ADA, "done")
    await harness.delivered()
    edits = [request.time for request in telegram.requests if request.method == "editMessageText"]
    assert len(edits) <= 4
    assert telegram.texts(ADA)[0] == "⚙ current_time … done; 12 calls"


async def test_many_changes_keep_within_what_a_group_takes(open_harness, telegram):
    telegram.limits = {"private": (6, 1.9), "group": (6, 1.9)}
    pace = RateLimit(requests=6, seconds=2.0, soft_seconds=0.1)
    calls = [{"tool_calls": [{"name": "current_time"}], "sleep_ms": 60} for _ in range(12)]
    long = "\n\n".join("word " * 200 for _ in range(16))
    harness = await open_harness(MODEL=script(*calls, {"msg": long}), pace=pace, CONTROL_MAX_REPEATS="50")
    await telegram.say(ADA, f"@{BOT['username']} go", chat=GROUP, entities=MENTION)
    await harness.delivered()
    assert telegram.texts(GROUP)[0] == "⚙ current_time … done; 12 calls"
    assert "".join(telegram.texts(GROUP)[1:]).count("word") == 3200


async def test_a_message_whose_confirmation_got_lost_may_come_twice_and_never_not_at_all(
    open_harness, telegram
):
    harness = await open_harness(MODEL=script("msg:one"))
    telegram.trouble("sendMessage", LOST_AFTER)
    await telegram.say(ADA, "go")
    await harness.delivered()
    assert telegram.texts(ADA) == ["one", "one"]
    (sent,) = await harness.chat_events("reply.sent")
    assert sent["message_ids"] == [telegram.shown(ADA)[-1].message_id]


async def test_another_poller_is_told_and_waited_for(open_harness, telegram, caplog):
    telegram.trouble("getUpdates", CONFLICT, CONFLICT)
    await telegram.say(ADA, "hi")
    harness = await open_harness(MODEL=script("msg:one"))
    await telegram.until_shown(ADA, "one")
    await harness.delivered()
    assert "another program receives this bot's messages" in caplog.text


@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
async def test_a_wrong_token_stops_it_with_a_sentence(open_harness, telegram, method):
    telegram.trouble(method, UNAUTHORIZED)
    harness = await open_harness(MODEL=script("msg:one"), works=False)
    with pytest.raises(FatalError) as caught:
        async with asyncio.timeout(10):
            await asyncio.shield(harness.speaking)
    assert "Telegram rejects this token" in str(caught.value)
    assert telegram.token not in str(caught.value)


async def test_a_message_that_somebody_deleted_is_sent_anew(open_harness, telegram):
    calls = [{"msg": "", "tool_calls": [{"name": "current_time"}]}]
    items = [*calls, {"msg": "", "tool_calls": [{"name": "current_time"}], "sleep_ms": 500}, "msg:end"]
    harness = await open_harness(MODEL=script(*items))
    await telegram.say(ADA, "go")
    status = await telegram.until_shown(ADA, "⚙ current_time … done; 1 call")
    telegram.delete(ADA, status.message_id)
    await telegram.until_shown(ADA, "2 calls")
    await harness.delivered()
    assert sum("⚙" in text for text in telegram.texts(ADA)) == 1


async def test_what_telegram_does_not_take_with_places_is_sent_without(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:a **b** c"))
    telegram.trouble("sendMessage", InjectedFault(400, refusal(400, "Bad Request: can't parse entities")))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "a b c")
    await harness.delivered()
    assert shown.entities == []


async def test_an_answer_to_somebody_who_blocked_the_bot_is_given_up_and_told_in_the_log(
    open_harness, telegram
):
    harness = await open_harness(MODEL=script("msg:one"))
    telegram.trouble("sendMessage", BLOCKED)
    await telegram.say(ADA, "go")
    async with asyncio.timeout(10):
        while not await harness.query("SELECT 1 FROM events WHERE kind = 'reply.failed'"):
            await asyncio.sleep(0.02)
    (failed,) = await harness.chat_events("reply.failed")
    assert "blocked by the user" in failed["reason"]
    assert await harness.query("SELECT * FROM telegram_tasks") == []
    await harness.chat("b", "one", user=BOB)


async def test_a_session_that_is_deleted_leaves_nothing_to_tell(open_harness, telegram):
    harness = await open_harness(MODEL=script("sleep:60000"), WORKER_STOP_GRACE_SECONDS="0.1")
    await telegram.say(ADA, "go")
    await telegram.until(lambda: telegram.sent("sendChatAction"))
    await harness.agent_runtime.tasks.delete_session(await harness.chat_session(), who="test")
    async with asyncio.timeout(10):
        while await harness.query("SELECT * FROM telegram_tasks"):
            await asyncio.sleep(0.02)
    assert await harness.query("SELECT * FROM telegram_inbox") == []


@pytest.mark.parametrize(("days", "is_sent"), [(0, True), (3, False)])
async def test_a_place_from_long_ago_is_not_asked_for(tmp_path, monkeypatch, telegram, days, is_sent):
    """After a quiet week Telegram numbers updates anew; then an old place would hide all of them."""
    async with open_telegram_harness(
        tmp_path, monkeypatch, telegram, {"MODEL": script("msg:one", "msg:two")}
    ) as harness:
        await harness.chat("a", "one")
        await harness.delivered()
        await telegram.until(lambda: telegram.offset > 0)
    place = telegram.offset
    store = sqlite3.connect(tmp_path / "state" / "interlock.db")
    store.execute("UPDATE telegram_bots SET updated_us = updated_us - ?", (days * 86_400_000_000,))
    store.commit()
    store.close()
    asked = len(telegram.sent("getUpdates"))
    async with open_telegram_harness(
        tmp_path, monkeypatch, telegram, {"MODEL": script("msg:one", "msg:two")}
    ) as harness:
        await harness.chat("b", "two")
    assert telegram.sent("getUpdates")[asked].get("offset") == (place if is_sent else None)


async def test_what_was_left_is_gone_on_with_once_the_store_is_back(tmp_path, monkeypatch, telegram):
    """The first tries find the store away; the answer from before is told all the same."""
    given = {"MODEL": script("msg:one")}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given, works=False) as harness:
        await telegram.say(ADA, "hi")
        async with asyncio.timeout(10):
            while not await harness.query("SELECT 1 FROM tasks"):
                await asyncio.sleep(0.02)
    real, tries = TelegramStore.open_tasks, []

    async def away(self):
        tries.append(1)
        if len(tries) <= 3:
            raise StoreUnavailable("away for a moment")
        return await real(self)

    monkeypatch.setattr(TelegramStore, "open_tasks", away)
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given) as harness:
        await telegram.until_shown(ADA, "one")
        await harness.delivered()
    assert len(tries) > 3
    assert telegram.texts(ADA) == ["one"]


async def test_an_update_that_the_library_cannot_read_is_passed_over(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"))
    await telegram.say(ADA, "odd", date="yesterday")
    odd = telegram._next_update
    await telegram.say(ADA, "hi")
    await telegram.until_shown(ADA, "one")
    await harness.delivered()
    assert telegram.offset > odd
    assert await contents(harness) == ["hi"]
    (passed,) = harness.payloads("system", "channel.passed_over")
    assert passed == {
        "channel": "telegram",
        "update": str(odd),
        "reason": "the library cannot parse the update",
    }


async def test_an_update_that_we_cannot_read_is_passed_over(open_harness, telegram, monkeypatch):
    real = polling.read_update

    def reading(update, name):
        if update.message.text == "odd":
            raise AttributeError("odd")
        return real(update, name)

    monkeypatch.setattr(polling, "read_update", reading)
    harness = await open_harness(MODEL=script("msg:one"))
    await telegram.say(ADA, "odd")
    await telegram.say(ADA, "hi")
    await telegram.until_shown(ADA, "one")
    assert await contents(harness) == ["hi"]
    (passed,) = harness.payloads("system", "channel.passed_over")
    assert passed["reason"] == "AttributeError"
