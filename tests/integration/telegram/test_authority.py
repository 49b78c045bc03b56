"""Whose tasks they are: who is listed no more has none, and in a group nobody decides about another's."""

import asyncio

import pytest

from interlock.wiring import local_actor
from tests.harness.telegram import ADA, BOB, GROUP, open_telegram_harness, script
from tests.harness.telegram_chats import BOT
from tests.integration.telegram.test_admission import MENTION

CAT = 503
NAME = f"@{BOT['username']}"
PEOPLE = {"TELEGRAM_ALLOWED_USERS": f"{ADA},{BOB},{CAT}"}
ASKING = {"tool_calls": [{"name": "ask_user", "arguments": {"type": "confirmation", "message": "Go on?"}}]}
WRITING = {"tool_calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}]}


async def until(harness, sql, *parameters):
    async with asyncio.timeout(10):
        while not (rows := await harness.query(sql, *parameters)):
            await asyncio.sleep(0.02)
    return rows


@pytest.mark.parametrize("is_told", [True, False])
async def test_what_a_removed_person_had_asked_for_is_cancelled_and_not_begun(
    tmp_path, monkeypatch, telegram, is_told
):
    """Also where an earlier start has given up telling them of it."""
    given = {"MODEL": script("msg:one"), "SESSION_OPEN_MODES": "coding"}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given, works=False) as harness:
        await telegram.say(ADA, "/mode coding")
        await telegram.until_shown(ADA, "switches to coding mode")
        await telegram.say(ADA, "first")
        await telegram.say(BOB, "hi")
        await until(harness, "SELECT * FROM (SELECT count(*) AS n FROM tasks) counted WHERE n = 2")
        if not is_told:
            (task,) = [task for task in await harness.front._records.open_tasks() if task.user_id == ADA]
            await harness.front._shift._record_failure(task, "given up")
    fewer = {
        "MODEL": script(WRITING, "msg:written"),
        "SESSION_OPEN_MODES": "coding",
        "TELEGRAM_ALLOWED_USERS": str(BOB),
        "TELEGRAM_OPERATORS": "",
    }
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, fewer) as harness:
        await telegram.until_shown(BOB, "written")
        rows = await harness.query(
            "SELECT status, cancel_requested_by, reason FROM tasks WHERE who = 'telegram:501'"
        )
        reason = "telegram:501 is no longer allowed to use the bot"
        assert rows == [("cancelled", local_actor(), reason)]
        (cancelled,) = await harness.chat_events("task.cancelled")
        assert (cancelled["who"], cancelled["reason"]) == (local_actor(), reason)
        assert await harness.chat_events("task.started") == []
        assert not (harness.root / "a.txt").exists()


async def test_what_runs_for_a_removed_person_is_stopped(tmp_path, monkeypatch, telegram):
    """By another process, which knows nothing of the list."""
    given = {"MODEL": script("sleep:60000"), "SESSION_LEASE_SECONDS": "1"}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given) as harness:
        await telegram.say(ADA, "go")
        await until(harness, "SELECT 1 FROM tasks WHERE status = 'running'")
        fewer = {**given, "TELEGRAM_ALLOWED_USERS": str(BOB), "TELEGRAM_OPERATORS": ""}
        async with open_telegram_harness(tmp_path, monkeypatch, telegram, fewer, works=False) as second:
            await until(second, "SELECT 1 FROM tasks WHERE status = 'cancelled'")


async def test_what_a_removed_person_was_asked_is_closed_with_its_task(tmp_path, monkeypatch, telegram):
    given = {"MODEL": script(ASKING, "msg:done")}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, given):
        await telegram.say(ADA, "go")
        await telegram.until_shown(ADA, "Go on?")
    fewer = {**given, "TELEGRAM_ALLOWED_USERS": str(BOB), "TELEGRAM_OPERATORS": ""}
    async with open_telegram_harness(tmp_path, monkeypatch, telegram, fewer, works=False) as harness:
        assert harness.dismissed == 1
        assert await harness.query("SELECT status FROM tasks") == [("cancelled",)]
        assert await harness.query("SELECT status, closed_by FROM questions") == [
            ("expired", local_actor())
        ]


async def test_in_a_group_only_who_asked_or_an_operator_answers(open_harness, telegram):
    harness = await open_harness(MODEL=script(ASKING, "msg:done", ASKING, "msg:again"), **PEOPLE)
    await telegram.say(BOB, f"{NAME} go", chat=GROUP, entities=MENTION)
    asked = await telegram.until_shown(GROUP, "Go on?")
    press = await telegram.press(CAT, asked.message_id, "Yes", chat=GROUP)
    await telegram.until(lambda: telegram.presses[press])
    assert telegram.presses[press] == "Only the person who started this task, or an operator, can answer."
    assert await harness.query("SELECT status FROM questions") == [("open",)]
    await telegram.press(BOB, asked.message_id, "Yes", chat=GROUP)
    await telegram.until_shown(GROUP, "done")
    await harness.delivered()
    await telegram.say(BOB, f"{NAME} go", chat=GROUP, entities=MENTION)
    await telegram.until(lambda: telegram.texts(GROUP)[-1] == "Go on?")
    await telegram.press(ADA, telegram.shown(GROUP)[-1].message_id, "No", chat=GROUP)
    await telegram.until_shown(GROUP, "again")
    rows = await harness.query("SELECT closed_by FROM questions ORDER BY closed_by")
    assert rows == [(f"telegram:{ADA}",), (f"telegram:{BOB}",)]


async def test_in_a_group_nobody_replies_to_a_question_for_another(open_harness, telegram):
    fields = [{"name": "a", "label": "Name"}]
    question = {"type": "form", "message": "Who are you?", "fields": fields}
    asking = {"tool_calls": [{"name": "ask_user", "arguments": question}]}
    harness = await open_harness(MODEL=script(asking, "msg:done"), **PEOPLE)
    await telegram.say(BOB, f"{NAME} go", chat=GROUP, entities=MENTION)
    prompt = await telegram.until(lambda: next((s for s in telegram.shown(GROUP) if s.wants_reply), None))
    await telegram.reply(CAT, prompt.message_id, "Cat", chat=GROUP)
    await telegram.until_shown(GROUP, "Only the person who started this")
    assert await harness.query("SELECT status FROM questions") == [("open",)]
    await telegram.reply(BOB, prompt.message_id, "Bob", chat=GROUP)
    await telegram.until_shown(GROUP, "done")


async def test_in_a_group_nobody_cancels_what_another_asked_for(open_harness, telegram):
    harness = await open_harness(MODEL=script("sleep:60000"), **PEOPLE)
    await telegram.say(BOB, f"{NAME} go", chat=GROUP, entities=MENTION)
    await until(harness, "SELECT 1 FROM tasks WHERE status = 'running'")
    await telegram.say(CAT, "/cancel", chat=GROUP)
    await telegram.until_shown(GROUP, "Another person started the running task")
    assert await harness.query("SELECT cancel_requested_by FROM tasks") == [(None,)]
    await telegram.say(BOB, "/cancel", chat=GROUP)
    await telegram.until_shown(GROUP, "Cancelling 1 task.")
    await telegram.until_shown(GROUP, "Cancelled.")


async def test_in_a_group_nobody_takes_back_what_another_changed(open_harness, telegram):
    harness = await open_harness(
        MODEL=script(WRITING, "msg:written"), SESSION_OPEN_MODES="coding", **PEOPLE
    )
    await telegram.say(ADA, "/mode coding", chat=GROUP)
    await telegram.until_shown(GROUP, "switches to coding mode")
    await telegram.say(BOB, f"{NAME} write", chat=GROUP, entities=MENTION)
    await telegram.until_shown(GROUP, "written")
    await telegram.say(CAT, "/undo", chat=GROUP)
    await telegram.until_shown(GROUP, "Only operators can undo the changes of other people.")
    assert (harness.root / "a.txt").exists()
    await telegram.say(ADA, "/undo", chat=GROUP)
    await telegram.until_shown(GROUP, "removed: ")
    assert not (harness.root / "a.txt").exists()


async def test_in_a_group_nobody_steers_the_task_of_another(open_harness, telegram):
    slow = {"tool_calls": [{"name": "current_time", "arguments": {}}], "sleep_ms": 1500}
    harness = await open_harness(MODEL=script(slow, "msg:For Bob.", "msg:For Cat."), **PEOPLE)
    await telegram.say(BOB, f"{NAME} go", chat=GROUP, entities=MENTION)
    await until(harness, "SELECT 1 FROM tasks WHERE status = 'running'")
    await telegram.say(CAT, f"/steer{NAME} go left", chat=GROUP)
    await telegram.until_shown(GROUP, "For Cat.")
    assert await harness.query("SELECT 1 FROM events WHERE kind = 'task.steered'") == []
