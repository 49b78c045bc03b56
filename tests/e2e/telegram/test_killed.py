"""SIGKILL at every moment that matters, and another start: nothing is lost, and nothing is done twice."""

import asyncio
import signal

import pytest

from tests.harness.bot_process import ADA

QUESTION = {"type": "confirmation", "message": "Go on?"}
ASKING = {"tool_calls": [{"name": "ask_user", "arguments": QUESTION}]}


full = pytest.mark.full


@pytest.mark.parametrize(
    "moment",
    [
        # Asked for, and nothing of it stored.
        pytest.param("TelegramStore.take_in:before:1", marks=full),
        # Stored, and Telegram not told.
        pytest.param("TelegramStore.take_in:after:1", marks=full),
        # It is decided which messages belong together, and nothing is put.
        pytest.param("TaskService.put:before:1", marks=full),
        # Put, and still in the inbox.
        "TaskService.put:after:1",
        # Answered, and nothing of it shown.
        pytest.param("BotApiClient.send:before:1", marks=full),
        # Shown and noted, and not recorded as sent.
        "TelegramStore.end:before:1",
    ],
)
async def test_a_message_becomes_one_task_and_one_answer(new_bot, telegram, moment):
    bot = new_bot("msg:the answer", "msg:a second answer")
    bot.start(dies_at=moment)
    await telegram.say(ADA, "one")
    await telegram.say(ADA, "two")
    assert await bot.ended() == -signal.SIGKILL, bot.output
    bot.start()
    await telegram.until_shown(ADA, "the answer", 40)
    await telegram.say(ADA, "/help")
    await telegram.until_shown(ADA, "/undo")
    await bot.replied()
    assert await bot.stop() == 0
    queued = bot.events("task.queued")
    assert len(queued) == 1
    assert telegram.texts(ADA).count("the answer") == 1
    assert len(bot.events("reply.sent")) == 1
    assert not bot.events("tool_call.failed")


async def test_a_question_is_not_put_again_and_its_button_still_works(new_bot, telegram):
    bot = new_bot(ASKING, "msg:Thank you.")
    bot.start()
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Go on?", 40)
    # Sent after the question was, so what shows the question is noted by then.
    await telegram.say(ADA, "/help")
    await telegram.until_shown(ADA, "/undo")
    bot.kill()
    await telegram.press(ADA, shown.message_id, "Yes")
    bot.start()
    await telegram.until_shown(ADA, "Thank you.", 40)
    await bot.replied()
    assert await bot.stop() == 0
    assert [text for text in telegram.texts(ADA) if "/undo" not in text] == [
        "Go on?\n\n✓ Yes",
        "Thank you.",
    ]
    assert len(bot.events("ask_user.answered")) == 1


async def test_an_answer_that_was_given_when_the_process_died_is_given_once(new_bot, telegram):
    bot = new_bot(ASKING, "msg:Thank you.")
    bot.start(dies_at="QuestionService.answer:after:1")
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Go on?", 40)
    await telegram.press(ADA, shown.message_id, "Yes")
    assert await bot.ended() == -signal.SIGKILL
    bot.start()
    await telegram.until_shown(ADA, "Thank you.", 40)
    await bot.replied()
    assert await bot.stop() == 0
    assert len(bot.events("ask_user.answered")) == 1
    assert telegram.texts(ADA)[0] == "Go on?\n\n✓ Yes"


@full
async def test_a_task_whose_worker_died_is_gone_on_with_in_the_same_messages(new_bot, telegram):
    bot = new_bot({"tool_calls": [{"name": "current_time"}]}, {"msg": "the answer", "sleep_ms": 700})
    bot.start(dies_at="TelegramStore.note_shown:after:1")
    await telegram.say(ADA, "go")
    assert await bot.ended() == -signal.SIGKILL, bot.output
    bot.start()
    await telegram.until_shown(ADA, "the answer", 40)
    await bot.replied()
    assert await bot.stop() == 0
    assert telegram.texts(ADA) == ["⚙ current_time … done; 1 call", "the answer"]
    assert len(bot.events("reply.sent")) == 1


@full
async def test_a_form_goes_on_at_the_field_it_was_at(new_bot, telegram):
    fields = [{"name": "a", "label": "First"}, {"name": "b", "label": "Second"}]
    form = {"type": "form", "message": "Who are you?", "fields": fields}
    bot = new_bot({"tool_calls": [{"name": "ask_user", "arguments": form}]}, "msg:Thank you.")
    bot.start()
    await telegram.say(ADA, "go")
    prompt = await telegram.until_shown(ADA, "(1 of 2) First", 40)
    await telegram.reply(ADA, prompt.message_id, "one")
    prompt = await telegram.until_shown(ADA, "(2 of 2) Second")
    await telegram.say(ADA, "/why")
    await telegram.until_shown(ADA, "No tool call was denied")
    bot.kill()
    bot.start()
    polls = telegram.polls
    await telegram.until(lambda: telegram.polls > polls + 1, 40)
    await telegram.reply(ADA, prompt.message_id, "two")
    await telegram.until_shown(ADA, "Thank you.", 40)
    await bot.replied()
    assert await bot.stop() == 0
    assert sum("Second" in text for text in telegram.texts(ADA)) == 2
    assert bot.events("ask_user.answered")[0]["answer"] == {"values": {"a": "one", "b": "two"}}


@full
async def test_a_reply_to_a_form_fills_in_one_field(new_bot, telegram):
    fields = [{"name": "a", "label": "First"}, {"name": "b", "label": "Second"}]
    form = {"type": "form", "message": "Who are you?", "fields": fields}
    bot = new_bot({"tool_calls": [{"name": "ask_user", "arguments": form}]}, "msg:Thank you.")
    bot.start(dies_at="TelegramStore.note_state:after:1")
    await telegram.say(ADA, "go")
    prompt = await telegram.until_shown(ADA, "(1 of 2) First", 40)
    await telegram.reply(ADA, prompt.message_id, "one")
    assert await bot.ended() == -signal.SIGKILL, bot.output
    bot.start()
    prompt = await telegram.until_shown(ADA, "(2 of 2) Second", 40)
    await telegram.reply(ADA, prompt.message_id, "two")
    await telegram.until_shown(ADA, "Thank you.", 40)
    await bot.replied()
    assert await bot.stop() == 0
    assert [each["answer"] for each in bot.events("ask_user.answered")] == [
        {"values": {"a": "one", "b": "two"}}
    ]


@full
@pytest.mark.parametrize("moment", ["TelegramStore.note_answer:after:1", "QuestionService.answer:after:1"])
async def test_a_reply_that_was_an_answer_does_not_become_a_message_as_well(new_bot, telegram, moment):
    question = {"type": "feedback", "message": "How was it?", "comment": "required"}
    bot = new_bot(
        {"tool_calls": [{"name": "ask_user", "arguments": question}]}, "msg:Thank you.", "msg:No."
    )
    bot.start(dies_at="QuestionService.answer:after:1")
    await telegram.say(ADA, "go")
    prompt = await telegram.until_shown(ADA, "Your comment?", 40)
    await telegram.reply(ADA, prompt.message_id, "fine")
    assert await bot.ended() == -signal.SIGKILL, bot.output
    bot.start()
    await telegram.until_shown(ADA, "Thank you.", 40)
    await telegram.say(ADA, "/help")
    await telegram.until_shown(ADA, "/undo")
    await bot.replied()
    assert await bot.stop() == 0
    assert len(bot.events("task.queued")) == 1
    assert len(bot.events("ask_user.answered")) == 1


# Much longer than anybody waits here: whoever takes over does not wait for its end.
LONG_LEASE = {"SESSION_LEASE_SECONDS": "120"}


@full
async def test_the_next_one_speaks_at_once_after_a_kill(new_bot, telegram):
    bot = new_bot("msg:one", "msg:two", **LONG_LEASE)
    bot.start()
    await telegram.say(ADA, "a")
    await telegram.until_shown(ADA, "one", 40)
    await bot.replied()
    await bot.rests()
    bot.kill()
    bot.start()
    await telegram.say(ADA, "b")
    await telegram.until_shown(ADA, "two", 40)
    await bot.replied(2)
    assert await bot.stop() == 0
    assert telegram.texts(ADA) == ["one", "two"]
    assert "this process waits" not in bot.output


@full
async def test_a_second_bot_waits_in_one_line_and_takes_over_from_one_that_was_killed(new_bot, telegram):
    first = new_bot("msg:one", "msg:two", **LONG_LEASE)
    first.start()
    await telegram.say(ADA, "a")
    await telegram.until_shown(ADA, "one", 40)
    await first.replied()
    await first.rests()
    second = new_bot("msg:one", "msg:two", **LONG_LEASE)
    second.start()
    async with asyncio.timeout(40):
        while "takes over when that one exits" not in second.output:
            await asyncio.sleep(0.05)
    first.kill()
    await telegram.say(ADA, "b")
    await telegram.until_shown(ADA, "two", 40)
    await second.replied(2)
    assert await second.stop() == 0
    assert telegram.texts(ADA) == ["one", "two"]
    assert second.output.count("this process waits") == 1


@full
async def test_one_that_is_stopped_is_waited_for_and_says_nothing_when_it_wakes_up(new_bot, telegram):
    given = {"SESSION_LEASE_SECONDS": "2"}
    first, second = (new_bot("msg:one", "msg:two", "msg:three", **given) for _ in range(2))
    first.start()
    await telegram.say(ADA, "a")
    await telegram.until_shown(ADA, "one", 40)
    await first.replied()
    await first.rests()
    second.start()
    first.freeze()
    await telegram.say(ADA, "b")
    await telegram.until_shown(ADA, "two", 40)
    await second.replied(2)
    await second.rests()
    first.wake()
    # It has lost the bot, and waits until the other has gone.
    async with asyncio.timeout(40):
        while "this process waits" not in first.output.rpartition("lease_lost")[2]:
            await asyncio.sleep(0.05)
    second.kill()
    await telegram.say(ADA, "c")
    await telegram.until_shown(ADA, "three", 40)
    await first.replied(3)
    assert await first.stop() == 0
    assert telegram.texts(ADA) == ["one", "two", "three"]
