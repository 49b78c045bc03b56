"""Two processes for one bot on one store: one speaks, the other waits and takes over."""

import asyncio
import sqlite3

from tests.harness.telegram import ADA, open_telegram_harness, script


async def test_only_one_speaks_and_the_other_says_that_it_waits(tmp_path, monkeypatch, telegram):
    waiting, listening = [], []
    given = {"MODEL": script({"msg": "the answer", "sleep_ms": 1500}), "SESSION_LEASE_SECONDS": "3"}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given, announce=listening.append):
        await telegram.say(ADA, "go")
        await telegram.until(lambda: telegram.sent("sendChatAction"))
        told = {"announce": listening.append, "waits": waiting.append}
        async with open_telegram_harness(
            tmp_path, monkeypatch, telegram, given, works=False, **told
        ) as second:
            await telegram.until(lambda: waiting)
            polls = telegram.polls
            await telegram.until_shown(ADA, "the answer")
            await second.delivered()
            # Longer than the lease, which is renewed.
            await asyncio.sleep(3.5)
            assert telegram.texts(ADA) == ["the answer"]
            assert await second.query("SELECT count(*) FROM events WHERE kind = 'reply.sent'") == [(1,)]
            assert telegram.polls == polls
            assert (len(waiting), len(listening)) == (1, 1)


async def test_the_one_that_waits_takes_over_when_the_first_is_gone(tmp_path, monkeypatch, telegram):
    listening = []
    given = {"MODEL": script("msg:one", "msg:two"), "SESSION_LEASE_SECONDS": "1"}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given) as first:
        await first.chat("a", "one")
        await first.delivered()
        second = open_telegram_harness(
            tmp_path, monkeypatch, telegram, given, works=False, announce=listening.append
        )
        async with second as other:
            await asyncio.sleep(0.5)
            assert not listening
            first.speaking.cancel()
            await asyncio.wait({first.speaking})
            await first.front.close()
            await telegram.until(lambda: listening)
            await other.chat("b", "two")
            await other.delivered(2)
            assert telegram.texts(ADA) == ["one", "two"]


async def test_one_that_has_lost_the_bot_sends_nothing_and_begins_anew(tmp_path, monkeypatch, telegram):
    """Another took it while this one did not notice; when that one is gone, this one goes on."""
    listening = []
    given = {"MODEL": script({"msg": "the answer", "sleep_ms": 300}), "SESSION_LEASE_SECONDS": "1"}
    one = open_telegram_harness(tmp_path, monkeypatch, telegram, given, announce=listening.append)
    async with one as harness:
        await telegram.until(lambda: telegram.polls >= 2)
        store = sqlite3.connect(tmp_path / "state" / "interlock.db")
        taken = "token = token + 1, expires_ms = expires_ms + 3000, holder = 'another'"
        store.execute(f"UPDATE leases SET {taken} WHERE name LIKE 'bot:%'")
        store.commit()
        store.close()
        await telegram.say(ADA, "go")
        await asyncio.sleep(1.5)
        assert telegram.texts(ADA) == []
        assert await harness.query("SELECT 1 FROM tasks") == []
        await telegram.until_shown(ADA, "the answer", 30)
        await harness.delivered()
        assert telegram.texts(ADA) == ["the answer"]
        assert len(listening) == 2
