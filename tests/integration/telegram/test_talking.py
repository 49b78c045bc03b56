"""Messages become tasks, in order and once, and their answers arrive."""

import asyncio
import time

import pytest

from interlock.agent.loop import NO_WORDS
from interlock.channels.telegram import conversation
from interlock.channels.telegram.conversation import join_texts
from interlock.log.hash_chain import now_us
from tests.harness.telegram import ADA, BOB, script
from tests.harness.telegram_validation import wide

PNG = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]


async def contents(harness) -> list[str]:
    rows = await harness.query(
        "SELECT t.text FROM event_texts t JOIN events e ON e.stream = t.stream AND e.seq = t.seq "
        "WHERE e.facts LIKE '%\"user\"%' AND e.kind = 'message.appended' ORDER BY e.position"
    )
    return [row[0] for row in rows]


async def test_a_message_is_answered_and_the_log_tells_it(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:Hello **there**."))
    await telegram.say(ADA, "hi")
    shown = await telegram.until_shown(ADA, "Hello there.")
    await harness.delivered()
    assert shown.entities == [{"type": "bold", "offset": 6, "length": 5}]
    (sent,) = await harness.chat_events("reply.sent")
    assert sent["message_ids"] == [shown.message_id]
    (queued,) = await harness.chat_events("task.queued")
    assert queued["who"] == f"telegram:{ADA}"
    assert (await harness.chat_events("session.created"))[0]["opened_by"] == "telegram"
    assert {command["command"] for command in telegram.commands} >= {"new", "mode", "cancel", "help"}


async def test_a_chat_goes_on_in_its_session_and_new_begins_another(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one", "msg:two"))
    await harness.chat("a", "one")
    await harness.chat("b", "two")
    first = await harness.chat_session()
    await telegram.say(ADA, "/new")
    await telegram.until_shown(ADA, "Started a new conversation in chat_safe mode.")
    assert await harness.chat_session() != first
    await telegram.say(ADA, "c")
    await telegram.until(lambda: telegram.texts(ADA).count("one") == 2)


async def test_two_people_talk_in_sessions_of_their_own(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"))
    await asyncio.gather(harness.chat("a", "one"), harness.chat("b", "one", user=BOB))
    assert await harness.chat_session(ADA) != await harness.chat_session(BOB)


async def test_a_long_paste_that_telegram_cut_is_one_task(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:read"), TELEGRAM_PENDING_SECONDS="0.5")
    paste = "word " * 1800
    for begin in range(0, len(paste), 4096):
        await telegram.say(ADA, paste[begin : begin + 4096])
    await telegram.until_shown(ADA, "read")
    assert await contents(harness) == [paste]


def test_what_was_cut_goes_on_and_what_was_not_is_a_line_of_its_own():
    assert join_texts(["a", "b"]) == "a\nb"
    assert join_texts(["x" * 4096, "y"]) == "x" * 4096 + "y"


async def test_what_waited_while_the_bot_was_off_is_worked_on_in_order(open_harness, telegram):
    """Sent minutes apart, they are not thrown together because they arrive together."""
    now = int(time.time())
    for number in range(3):
        await telegram.say(ADA, f"old {number}", date=now - 600 + 60 * number)
    harness = await open_harness(MODEL=script("msg:answer 0", "msg:answer 1", "msg:answer 2"))
    await harness.delivered(3)
    assert await contents(harness) == ["old 0", "old 1", "old 2"]
    assert telegram.texts(ADA) == ["answer 0", "answer 1", "answer 2"]


async def test_more_messages_than_the_queue_takes_wait_for_room(open_harness, telegram):
    items = [{"msg": f"answer {number}", "sleep_ms": 60} for number in range(6)]
    now = int(time.time())
    for number in range(6):
        await telegram.say(ADA, f"m{number}", date=now - 600 + 60 * number)
    harness = await open_harness(MODEL=script(*items), SESSION_QUEUE_LIMIT="1")
    await harness.delivered(6)
    assert await contents(harness) == [f"m{number}" for number in range(6)]
    assert [text for text in telegram.texts(ADA) if text.startswith("answer")] == [
        f"answer {number}" for number in range(6)
    ]


async def test_only_text_is_understood_and_a_caption_is_text(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:about the picture"))
    await telegram.say(ADA, None, photo=PNG, media_group_id="a1")
    await telegram.say(ADA, None, photo=PNG, media_group_id="a1")
    await telegram.until_shown(ADA, "I can read only text")
    await telegram.say(ADA, None, photo=PNG, caption="what is this?")
    await telegram.until_shown(ADA, "about the picture")
    assert await contents(harness) == ["what is this?"]
    assert sum("only text" in text for text in telegram.texts(ADA)) == 1


async def test_a_long_answer_arrives_whole_in_several_messages(open_harness, telegram):
    code = "\n".join(f"line_{number} = {number}" for number in range(400))
    answer = f"Here 😀:\n\n```python\n{code}\n```\n\nThat is all."
    harness = await open_harness(MODEL=script({"msg": answer}))
    await telegram.say(ADA, "go")
    await telegram.until_shown(ADA, "That is all.")
    await harness.delivered()
    shown = telegram.shown(ADA)
    assert len(shown) >= 2
    assert all(wide(each.text) <= 4096 for each in shown)
    told = [line for each in shown for line in each.text.split("\n")]
    assert [line for line in told if line.startswith("line_")] == code.split("\n")
    assert sum(entity["type"] == "pre" for each in shown for entity in each.entities) >= 2
    (sent,) = await harness.chat_events("reply.sent")
    assert sent["message_ids"] == [each.message_id for each in shown]


async def test_text_streams_by_edits_and_ends_exact(open_harness, telegram):
    words = " ".join(f"word{number}" for number in range(60))
    harness = await open_harness(
        MODEL=script({"msg": "Let me look.", "tool_calls": [{"name": "current_time"}]}, {"msg": words})
    )
    await telegram.say(ADA, "go")
    await telegram.until_shown(ADA, "word59")
    await harness.delivered()
    looked, status, last = telegram.shown(ADA)
    assert looked.text == "Let me look."
    assert status.text == "⚙ current_time … done; 1 call"
    assert last.text == words


async def test_an_empty_answer_and_a_failure_are_told(open_harness, telegram):
    harness = await open_harness(MODEL=script("err:invalid_request"), CONTROL_MAX_RETRIES="0")
    await telegram.say(ADA, "go")
    await telegram.until_shown(ADA, "⚠")
    await harness.delivered()
    assert len(telegram.texts(ADA)) == 1


async def test_a_secret_in_a_message_is_nowhere(open_harness, telegram):
    key = "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2Yz3Ab4Cd5Ef6"
    harness = await open_harness(MODEL=script({"msg": f"You said {key}."}), works=False)
    await telegram.say(ADA, f"my key is {key}")
    await telegram.until(lambda: telegram.offset > 0)
    async with asyncio.timeout(10):
        while not await contents(harness):
            await asyncio.sleep(0.02)
    assert key not in str(await contents(harness))
    assert key not in str(await harness.query("SELECT document FROM telegram_inbox"))


@pytest.mark.parametrize("changed", ["edited_message", "channel_post"])
async def test_what_was_edited_or_posted_in_a_channel_is_no_message(open_harness, telegram, changed):
    harness = await open_harness(MODEL=script("msg:one"))
    message = {
        "message_id": 5,
        "date": int(time.time()),
        "chat": telegram.chat(ADA),
        "from": {"id": ADA, "is_bot": False, "first_name": "A"},
        "text": "do it",
    }
    number = await telegram.push({changed: message})
    await telegram.until(lambda: telegram.offset > number)
    assert await contents(harness) == []


async def test_a_clock_that_is_set_back_does_not_hold_a_message_up(open_harness, telegram, monkeypatch):
    day_us = 86_400 * 1_000_000
    monkeypatch.setattr(conversation, "now_us", lambda: now_us() - day_us)
    harness = await open_harness(MODEL=script("msg:one"))
    await harness.chat("a", "one")
    assert await contents(harness) == ["a"]


async def test_refused_calls_end_in_an_answer(open_harness, telegram):
    refused = [f'call:read_file {{"path": "{name}"}}' for name in "abc"]
    harness = await open_harness(MODEL=script(*refused, "msg:I may not read files here."))
    await telegram.say(ADA, "read it")
    await telegram.until_shown(ADA, "I may not read files here.")
    await harness.delivered()
    assert [event["status"] for event in await harness.chat_events("task.finished")] == ["done"]
    assert len(await harness.chat_events("control.limit_reached")) == 1


async def test_a_model_that_still_calls_tools_in_its_last_turn_gets_a_plain_answer_shown(
    open_harness, telegram
):
    refused = [f'call:read_file {{"path": "{name}"}}' for name in "abcd"]
    harness = await open_harness(MODEL=script(*refused))
    await telegram.say(ADA, "read it")
    await telegram.until_shown(ADA, NO_WORDS)
    await harness.delivered()
    assert [event["status"] for event in await harness.chat_events("task.finished")] == ["done"]
