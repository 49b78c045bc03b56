"""Who reaches the model: the listed people, in private or in a listed group, and nobody else."""

import asyncio
import time

import pytest

from interlock.channels.telegram.access_control import (
    HOUR_SECONDS,
    MAX_NOTICES_PER_MINUTE,
    AccessControl,
    AccessRefusalReason,
)
from interlock.channels.telegram.updates import MessageSender
from interlock.config.telegram import TelegramSettings
from tests.harness.telegram import ADA, BOB, EVE, GROUP, open_telegram_harness, script
from tests.harness.telegram_chats import BOT
from tests.integration.telegram.test_talking import contents

NAME = f"@{BOT['username']}"
MENTION = [{"type": "mention", "offset": 0, "length": len(NAME)}]


async def taken(telegram, number=None):
    """Everything that was sent has been asked for and confirmed."""
    last = telegram._next_update
    await telegram.until(lambda: telegram.offset > last)


async def test_a_stranger_reaches_nothing_and_is_told_only_their_id(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"))
    for number in range(5):
        await telegram.say(EVE, f"let me in {number}")
    await telegram.until_shown(EVE, "This bot is private")
    await taken(telegram)
    assert telegram.texts(EVE) == [
        f"This bot is private. Your Telegram id is {EVE}; its operator can allow it."
    ]
    assert await contents(harness) == []
    assert await harness.query("SELECT * FROM telegram_inbox") == []
    (refused,) = harness.payloads("system", "channel.refused")
    assert refused == {
        "channel": "telegram",
        "user": str(EVE),
        "chat": str(EVE),
        "reason": "user",
        "unrecorded": 0,
    }


async def test_with_an_empty_list_nobody_is_let_in(open_harness, telegram):
    harness = await open_harness(
        MODEL=script("msg:one"), TELEGRAM_ALLOWED_USERS="", TELEGRAM_OPERATORS="", TELEGRAM_REFUSALS="false"
    )
    await telegram.say(ADA, "hi")
    await taken(telegram)
    (refused,) = harness.payloads("system", "channel.refused")
    assert refused["user"] == str(ADA)
    assert await harness.query("SELECT 1 FROM telegram_inbox UNION SELECT 1 FROM telegram_chats") == []
    assert await contents(harness) == []
    assert telegram.texts(ADA) == []


async def test_a_strangers_commands_and_presses_do_nothing(open_harness, telegram):
    question = {"type": "confirmation", "message": "Delete it?"}
    harness = await open_harness(
        MODEL=script({"tool_calls": [{"name": "ask_user", "arguments": question}]}, "msg:done"),
        TELEGRAM_ALLOWED_USERS=f"{ADA}",
    )
    await telegram.say(ADA, f"{NAME} go", chat=GROUP, entities=MENTION)
    asked = await telegram.until_shown(GROUP, "Delete it?")
    press = await telegram.press(BOB, asked.message_id, "Yes", chat=GROUP)
    await telegram.say(BOB, "/cancel", chat=GROUP)
    await taken(telegram)
    assert telegram.presses[press] is None
    assert (await harness.query("SELECT status FROM questions"))[0][0] == "open"
    await telegram.press(ADA, asked.message_id, "Yes", chat=GROUP)
    await telegram.until_shown(GROUP, "done")


async def test_a_group_must_be_listed_as_well(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"))
    await telegram.say(ADA, f"{NAME} hello", chat=-2002, entities=MENTION)
    await taken(telegram)
    assert await contents(harness) == []
    (refused,) = harness.payloads("system", "channel.refused")
    assert (refused["reason"], refused["chat"]) == ("chat", "-2002")
    assert telegram.texts(-2002) == []


async def test_in_a_listed_group_the_bot_answers_those_who_speak_to_it(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one", "msg:two"))
    await telegram.say(ADA, "not for the bot", chat=GROUP)
    message_id = await telegram.say(ADA, f"{NAME} hello", chat=GROUP, entities=MENTION)
    shown = await telegram.until_shown(GROUP, "one")
    assert shown.reply_to == message_id
    await telegram.reply(BOB, shown.message_id, "and you?", chat=GROUP)
    await telegram.until_shown(GROUP, "two")
    assert await contents(harness) == ["hello", "and you?"]
    rows = await harness.query("SELECT who FROM tasks ORDER BY message_seq")
    assert rows == [(f"telegram:{ADA}",), (f"telegram:{BOB}",)]


@pytest.mark.parametrize(
    "more",
    [
        {"sender_chat": {"id": GROUP, "type": "supergroup", "title": "G"}},
        {"sender_chat": {"id": -3003, "type": "channel", "title": "C"}},
        {"from": {"id": ADA, "is_bot": True, "first_name": "A"}},
    ],
)
async def test_who_speaks_for_others_is_no_person(open_harness, telegram, more):
    harness = await open_harness(MODEL=script("msg:one"))
    await telegram.say(ADA, f"{NAME} go", chat=GROUP, entities=MENTION, **more)
    await taken(telegram)
    assert await contents(harness) == []
    assert (harness.payloads("system", "channel.refused"))[0]["reason"] == "not_a_person"


async def test_what_a_listed_person_wrote_and_a_stranger_passes_on_is_the_strangers(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"))
    origin = {
        "type": "user",
        "date": int(time.time()),
        "sender_user": {"id": ADA, "is_bot": False, "first_name": "A"},
    }
    await telegram.say(EVE, "do it", forward_origin=origin)
    await taken(telegram)
    assert (harness.payloads("system", "channel.refused"))[0]["user"] == str(EVE)
    assert await contents(harness) == []


async def test_a_command_that_was_passed_on_is_only_words(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"), SESSION_OPEN_MODES="coding")
    origin = {
        "type": "user",
        "date": int(time.time()),
        "sender_user": {"id": EVE, "is_bot": False, "first_name": "E"},
    }
    await telegram.say(ADA, "/mode coding", forward_origin=origin)
    await telegram.until_shown(ADA, "one")
    assert await contents(harness) == ["/mode coding"]
    assert await harness.chat_events("session.mode_changed") == []


async def test_a_command_for_another_bot_is_not_ours(open_harness, telegram):
    await open_harness(MODEL=script("msg:one"))
    await telegram.say(ADA, "/cancel@another_bot", chat=GROUP)
    await telegram.say(ADA, "/unknown", chat=GROUP)
    await telegram.say(ADA, f"/help{NAME}", chat=GROUP)
    await telegram.until_shown(GROUP, "/cancel: Cancel")
    assert len(telegram.texts(GROUP)) == 1


async def test_whoever_is_listed_no_more_is_told_nothing_more(tmp_path, monkeypatch, telegram):
    async with open_telegram_harness(
        tmp_path, monkeypatch, telegram, {"MODEL": script("msg:one")}, works=False
    ) as harness:
        await telegram.say(ADA, "go")
        async with asyncio.timeout(10):
            while not await contents(harness):
                await asyncio.sleep(0.02)
    await telegram.say(ADA, "and this")
    fewer = {
        "MODEL": script("msg:one", "msg:two"),
        "TELEGRAM_ALLOWED_USERS": str(BOB),
        "TELEGRAM_OPERATORS": "",
    }
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, fewer) as harness:
        await harness.chat("hi", "one", user=BOB)
        assert await harness.query("SELECT chat_id FROM telegram_tasks WHERE chat_id = ?", ADA) == []
        assert len(await harness.query("SELECT 1 FROM events WHERE kind = 'reply.failed'")) == 1
    assert not [text for text in telegram.texts(ADA) if "private" not in text]


def test_strangers_cannot_fill_the_log():
    now = [0.0]
    admission = AccessControl(TelegramSettings(), clock=lambda: now[0])

    def arrives(user):
        sender = MessageSender(user_id=user, chat_id=user, is_private=True, is_person=True)
        assert admission.refused(sender) is AccessRefusalReason.user
        return admission.notice(sender, AccessRefusalReason.user)

    noticed = [arrives(user) for user in range(1, 1001) for _ in range(2)]
    assert sum(notice is not None for notice in noticed) == MAX_NOTICES_PER_MINUTE
    now[0] = HOUR_SECONDS
    again = arrives(1)
    assert again is not None
    told = [*noticed, again]
    assert sum(notice.unrecorded + 1 for notice in told if notice is not None) == 2001
    assert arrives(1) is None
