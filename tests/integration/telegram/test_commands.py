"""What begins with a slash, and who may write it."""

import asyncio

from tests.harness.telegram import ADA, BOB, GROUP, script
from tests.harness.telegram_chats import BOT

ASKING = {
    "name": "ask_user",
    "arguments": {"type": "confirmation", "message": "Go on?"},
}


async def test_help_tells_every_command(open_harness, telegram):
    await open_harness(MODEL=script("msg:one"))
    await telegram.say(ADA, "/start")
    shown = await telegram.until_shown(ADA, "/undo")
    for name in ("new", "mode", "tools", "why", "cancel", "undo", "help", "compact", "steer"):
        assert f"/{name}" in shown.text
    await telegram.say(ADA, "/nothing")
    await telegram.until_shown(ADA, "Unknown command. Type /help for a list.")


async def test_tools_tells_what_can_be_used_and_what_not_and_why(open_harness, telegram):
    await open_harness(MODEL=script("msg:one"))
    await telegram.say(ADA, "/tools")
    shown = await telegram.until_shown(ADA, "In chat_safe mode:")
    assert "✓ ask_user" in shown.text
    assert "✗ write_file" in shown.text


async def test_a_denial_is_told_in_plain_words_and_why_tells_it_in_full(open_harness, telegram):
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
    harness = await open_harness(MODEL=script({"tool_calls": [call]}, "msg:I may not."))
    await telegram.say(ADA, "/why")
    await telegram.until_shown(ADA, "No tool call was denied in this conversation.")
    await harness.chat("write it", "I may not.")
    status = await telegram.until_shown(ADA, "⚙ write_file a.txt … denied; 1 call")
    assert "⛔ " in status.text
    assert "→ " in status.text
    assert "/why shows it in full" in status.text
    await telegram.say(ADA, "/why")
    shown = await telegram.until_shown(ADA, "MODE_DENIED in chat_safe mode")
    assert "Decided by the tool's own declaration" in shown.text


async def test_switching_is_suggested_to_people_who_may_switch_and_to_no_others(open_harness, telegram):
    reads = {"name": "read_file", "arguments": {"path": "a.txt"}}
    harness = await open_harness(
        MODEL=script(*[{"tool_calls": [reads]}, "msg:I may not."] * 2), SESSION_OPEN_MODES="chat"
    )
    for user in (ADA, BOB):
        await harness.chat("read it", "I may not.", user=user)
    suggested = {
        user: (harness.payloads(await harness.chat_session(user), "tool_call.denied"))[0]
        for user in (ADA, BOB)
    }
    assert "(/mode chat)" in suggested[ADA]["next_action"]
    assert suggested[BOB]["next_action"] == (
        "This session is in chat_safe mode; read_file needs chat mode. Only an operator can "
        "switch it here; continue without it."
    )


async def test_why_tells_each_person_of_a_group_what_they_can_do(open_harness, telegram):
    reads = {"name": "read_file", "arguments": {"path": "a.txt"}}
    await open_harness(MODEL=script({"tool_calls": [reads]}, "msg:I may not."), SESSION_OPEN_MODES="chat")
    name = f"@{BOT['username']}"
    mention = [{"type": "mention", "offset": 0, "length": len(name)}]
    await telegram.say(ADA, f"{name} read it", chat=GROUP, entities=mention)
    await telegram.until_shown(GROUP, "I may not.")
    await telegram.say(BOB, "/why", chat=GROUP)
    shown = await telegram.until_shown(GROUP, "What to do: ")
    assert "Only an operator can switch it here" in shown.text
    assert "/mode" not in shown.text


async def test_only_operators_switch_the_mode_and_only_to_open_ones(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one"), SESSION_OPEN_MODES="chat")
    await telegram.say(BOB, "/mode chat")
    await telegram.until_shown(BOB, "Only operators can switch the mode here.")
    assert telegram.shown(BOB)[-1].buttons == []
    await telegram.say(ADA, "/mode")
    shown = await telegram.until_shown(ADA, "Open modes: chat_safe, chat.")
    assert shown.labels == ["chat_safe", "chat"]
    await telegram.say(ADA, "/mode coding")
    await telegram.until_shown(ADA, "Coding mode is not open")
    await telegram.press(ADA, shown.message_id, "chat")
    await telegram.until_shown(ADA, "switches to chat mode")
    (changed,) = await harness.chat_events("session.mode_changed")
    assert changed == {"who": f"telegram:{ADA}", "from_mode": "chat_safe", "to_mode": "chat"}


async def test_a_mode_button_is_looked_at_anew_when_it_is_pressed(open_harness, telegram):
    """By whom it is pressed, for which conversation, and whether that mode is open."""
    harness = await open_harness(MODEL=script("msg:one"), SESSION_OPEN_MODES="chat")
    await harness.chat("a", "one", user=BOB)
    session = await harness.chat_session(BOB)
    shown = telegram.shown(BOB)[-1]
    by_bob = await telegram.press_data(BOB, shown.message_id, f"m:{session}:chat")
    await telegram.until(lambda: telegram.presses[by_bob])
    assert telegram.presses[by_bob] == "Only operators can switch the mode here."
    elsewhere = await telegram.press_data(ADA, shown.message_id, f"m:{session}:chat")
    await telegram.until(lambda: telegram.presses[elsewhere])
    assert telegram.presses[elsewhere] == "That button belongs to another conversation. Type /mode again."
    assert harness.payloads(session, "session.mode_changed") == []


async def test_cancel_ends_what_runs_and_what_waits(open_harness, telegram):
    harness = await open_harness(MODEL=script("sleep:60000", "msg:two"))
    await telegram.say(ADA, "/cancel")
    await telegram.until_shown(ADA, "No task is running or queued.")
    await telegram.say(ADA, "first")
    await telegram.until(lambda: any(each["action"] for each in telegram.sent("sendChatAction")))
    await telegram.say(ADA, "/help")
    await telegram.say(ADA, "second")
    await telegram.say(ADA, "/cancel")
    await telegram.until_shown(ADA, "Cancelling 2 tasks.")
    await telegram.until(lambda: telegram.texts(ADA).count("Cancelled.") == 2)
    rows = await harness.query("SELECT status, cancel_requested_by FROM tasks")
    assert rows == [("cancelled", f"telegram:{ADA}")] * 2


async def test_undo_takes_back_the_last_task(open_harness, telegram):
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x\n"}}
    harness = await open_harness(
        MODEL=script({"tool_calls": [call]}, "msg:written"), SESSION_OPEN_MODES="coding"
    )
    await telegram.say(ADA, "/mode coding")
    await telegram.until_shown(ADA, "switches to coding mode")
    await harness.chat("write", "written")
    path = harness.root / "a.txt"
    assert path.read_text() == "x\n"
    await telegram.say(ADA, "/undo")
    shown = await telegram.until_shown(ADA, "removed: ")
    assert "a.txt" in shown.text
    assert not path.exists()
    await telegram.say(ADA, "/undo")
    await telegram.until(lambda: len(telegram.texts(ADA)) >= 5)
    assert not path.exists()


async def test_a_new_conversation_leaves_the_old_one_its_answer(open_harness, telegram):
    harness = await open_harness(MODEL=script({"msg": "late answer", "sleep_ms": 600}))
    await telegram.say(ADA, "first")
    await telegram.until(lambda: telegram.sent("sendChatAction"))
    await telegram.say(ADA, "/new")
    await telegram.until_shown(ADA, "Started a new conversation")
    await telegram.until_shown(ADA, "late answer")
    await harness.delivered()
    told, answer = telegram.texts(ADA)
    assert told.startswith("Started a new conversation")
    assert answer == "late answer"


async def test_a_command_that_telegram_gives_again_is_not_carried_out_again(open_harness, telegram):
    await open_harness(MODEL=script("msg:one"))
    taken = telegram._updates
    await telegram.say(ADA, "/help")
    (update,) = taken
    await telegram.until_shown(ADA, "/undo")
    await telegram.until(lambda: telegram.offset > update["update_id"])
    telegram.repeated = [update]
    await telegram.say(ADA, "/why")
    await telegram.until_shown(ADA, "No tool call was denied")
    await telegram.say(ADA, "/cancel")
    await telegram.until_shown(ADA, "No task is running")
    assert len(telegram.texts(ADA)) == 3


async def test_the_data_of_a_button_is_a_claim_and_odd_ones_change_nothing(
    open_harness, telegram, capfd, caplog
):
    """Who has a client of their own can send any."""
    harness = await open_harness(MODEL=script("msg:one"), SESSION_OPEN_MODES="chat,coding")
    await telegram.say(ADA, "/mode")
    shown = await telegram.until_shown(ADA, "Open modes: ")
    session = await harness.chat_session()
    forged = [
        f"m:{session}:root",
        f"m:{session}:",
        "m::coding",
        "m",
        ":",
        "q:y",
        "x" * 64,
        f"m:s_{'0' * 16}:coding",
    ]
    for data in forged:
        press = await telegram.press_data(ADA, shown.message_id, data)
        await telegram.until(
            lambda press=press: telegram.presses.get(press) is not None or press in telegram.presses
        )
    await telegram.say(ADA, "/why")
    await telegram.until_shown(ADA, "No tool call was denied")
    assert await harness.chat_events("session.mode_changed") == []
    assert "Traceback" not in capfd.readouterr().err + caplog.text


async def test_compact_has_older_messages_summarised_with_the_next(open_harness, telegram):
    harness = await open_harness(MODEL=script("msg:one", "msg:two"))
    await telegram.say(ADA, "/compact")
    await telegram.until_shown(ADA, "No messages yet.")
    for words, answer in (("first", "one"), ("second", "two")):
        await harness.chat(words, answer)
    await telegram.say(ADA, "/compact")
    await telegram.until_shown(
        ADA, "Older messages will be summarised for the model with your next message."
    )
    # The scripted model finds its place in what it is sent, and that is shorter now.
    await telegram.say(ADA, "third")
    await telegram.until(lambda: telegram.texts(ADA).count("one") == 2)
    session = await harness.chat_session(ADA)
    (asked,) = harness.payloads(session, "context.compact_requested")
    assert asked["who"] == f"telegram:{ADA}"
    assert len(harness.payloads(session, "context.compacted")) == 1


SLOW = {"tool_calls": [{"name": "current_time", "arguments": {}}], "sleep_ms": 1500}


async def started(harness) -> str:
    """The session of the task at work."""
    while not (rows := await harness.query("SELECT session_id FROM tasks WHERE status = 'running'")):
        await asyncio.sleep(0.02)
    return rows[0][0]


async def test_steer_gives_a_message_to_the_running_task(open_harness, telegram):
    harness = await open_harness(MODEL=script(SLOW, "msg:Left it is.", "msg:And on."))
    await telegram.say(ADA, "/steer")
    await telegram.until_shown(ADA, "Write the message after the command: /steer TEXT.")
    await telegram.say(ADA, "go")
    session = await started(harness)
    await telegram.say(ADA, "/steer go left")
    await telegram.until_shown(ADA, "The running task got this message.")
    await telegram.until_shown(ADA, "Left it is.")
    assert len(harness.payloads(session, "task.steered")) == 1
    assert [turn["turn"] for turn in harness.payloads(session, "turn.completed")] == [1, 2]
    # With nothing at work it is a message like any other.
    await telegram.say(ADA, "/steer and on")
    await telegram.until_shown(ADA, "And on.")


async def test_what_steers_the_task_from_elsewhere_is_shown(open_harness, telegram):
    harness = await open_harness(MODEL=script(SLOW, "msg:Left it is."))
    await telegram.say(ADA, "go")
    session = await started(harness)
    await harness.agent_runtime.tasks.put(session, "go left, _please_", who="ann", steer=True)
    shown = await telegram.until_shown(ADA, "a message that was sent elsewhere:")
    assert shown.text.endswith("go left, _please_")
    await telegram.until_shown(ADA, "Left it is.")
