"""`interlock telegram` from its start to its end, as an operator and a person see it."""

import asyncio
import json
import subprocess
import sys
import time

import pytest

from tests.harness.bot_process import ADA, EVE
from tests.harness.telegram_faults import UNAUTHORIZED
from tests.harness.telegram_server import TOKEN


async def test_a_whole_conversation(new_bot, telegram, tmp_path):
    """Tools, a denial, a question, the mode, and the way of a message in the log."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "notes.txt").write_text("remember the milk\n")
    question = {"type": "confirmation", "message": "Shall I read it?"}
    bot = new_bot(
        {"msg": "Let me see.", "tool_calls": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]},
        {"tool_calls": [{"name": "ask_user", "arguments": question}]},
        "msg:Not in this mode.",
        {"tool_calls": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]},
        "msg:**Milk.**",
        TOOL_ALLOWED_ROOTS=str(root),
        TOOL_SANDBOX="off",
        TELEGRAM_OPERATORS=str(ADA),
    )
    bot.start("--open", "chat")
    await telegram.say(ADA, "What is in my notes?")
    asked = await telegram.until_shown(ADA, "Shall I read it?", 40)
    await telegram.until_shown(ADA, "⛔")
    await telegram.press(ADA, asked.message_id, "Yes")
    await telegram.until_shown(ADA, "Not in this mode.")
    await telegram.say(EVE, "and mine?")
    await telegram.say(ADA, "/mode chat")
    await telegram.until_shown(ADA, "switches to chat mode")
    await telegram.say(ADA, "Now?")
    await telegram.until_shown(ADA, "Milk.")
    await telegram.until_shown(ADA, "⚙ read_file notes.txt … done; 1 call")
    assert await bot.stop() == 0
    sent = bot.events("reply.sent")
    assert [each["chat"] for each in sent] == [str(ADA)] * 2
    assert "listening for 2 people" in bot.output
    session = bot.interlock("sessions", "list", "--json")
    tree = bot.interlock("events", "tree", json.loads(session)[0]["id"])
    places = [
        tree.index(kind) for kind in ("task.queued", "turn.completed", "tool_call.denied", "reply.sent")
    ]
    assert places == sorted(places)
    assert '"ok": true' in bot.interlock("events", "verify", "--json")
    assert TOKEN not in bot.output
    assert len(bot.events("channel.refused")) == 1


async def test_it_stops_quickly_in_the_middle_of_a_long_poll(new_bot, telegram):
    bot = new_bot("msg:one")
    bot.start()
    await telegram.until(lambda: telegram.polls >= 2, 40)
    begin = time.monotonic()
    assert await bot.stop() == 0
    assert time.monotonic() - begin < 15


async def test_stopped_in_the_middle_of_a_task_it_tells_the_answer_first(new_bot, telegram):
    bot = new_bot({"msg": "the answer", "sleep_ms": 1500})
    bot.start()
    await telegram.say(ADA, "go")
    await telegram.until(lambda: telegram.sent("sendChatAction"), 40)
    assert await bot.stop() == 0
    assert telegram.texts(ADA) == ["the answer"]
    assert len(bot.events("reply.sent")) == 1


async def test_without_a_worker_of_its_own_others_do_the_work(new_bot, telegram):
    bot = new_bot("msg:by another")
    bot.start("--no-worker")
    await telegram.say(ADA, "go")
    await telegram.until(lambda: telegram.offset > 0, 40)
    command = [sys.executable, "-m", "interlock", "worker"]
    worker = subprocess.Popen(command, env=bot.environment, stderr=subprocess.DEVNULL)
    try:
        await telegram.until_shown(ADA, "by another", 40)
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait, 30)
    assert await bot.stop() == 0


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"TELEGRAM_BOT_TOKEN_FILE": ""}, "TELEGRAM_BOT_TOKEN is not set"),
        ({}, "TELEGRAM_BOT_TOKEN: Telegram rejects this token"),
    ],
)
async def test_without_a_token_that_is_known_it_ends_with_one_line(new_bot, telegram, variables, sentence):
    telegram.trouble("getMe", UNAUTHORIZED)
    bot = new_bot("msg:one", **variables)
    bot.start()
    assert await bot.ended() == 1
    assert bot.output.startswith(f"interlock: {sentence}")
    assert bot.output.count("\n") == 1
    assert TOKEN not in bot.output
    telegram._troubles.clear()


def test_without_the_library_it_says_what_to_install(tmp_path):
    hidden = "import sys; sys.modules['telegram'] = None\n"
    hidden += "from interlock.cli.main import main; main(['telegram'])"
    environment = {
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path),
        "HOME": "/",
    }
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr == (
        "interlock: the Telegram library is not installed: pip install 'interlock-runtime[telegram]'\n"
    )


async def test_the_way_of_a_message_can_be_read_from_the_supervisor_down_to_the_call(new_bot, telegram):
    """S3-4.1, S3-4.4: Telegram, inbox, worker, model, tools, reply; each call under its own turn."""
    bot = new_bot("call:current_time {}", 'call:current_time {"timezone": "Asia/Tokyo"}', "msg:Late.")
    bot.start("--workers", "2")
    await telegram.say(ADA, "How late is it?")
    await telegram.until_shown(ADA, "Late.", 60)
    await telegram.until(lambda: bot.events("reply.sent"), 20)
    assert await bot.stop() == 0
    [session] = json.loads(bot.interlock("sessions", "list", "--json"))
    tree = json.loads(bot.interlock("events", "tree", session["id"], "--processes", "--json"))
    supervisor = tree[-1]
    assert (supervisor["kind"], supervisor["payload"]["role"]) == ("process.started", "supervisor")
    way = ["worker.spawned", "worker.started", "task.started", "agent.started"]
    node = supervisor
    for kind in way:
        [node] = [child for child in node["children"] if child["kind"] == kind]
    turns = [child for child in node["children"] if child["kind"] == "turn.completed"]
    calls = [[child["kind"] for child in turn["children"]].count("tool_call.started") for turn in turns]
    assert calls == [1, 1, 0]
    [sent] = bot.events("reply.sent")
    assert sent["chat"] == str(ADA)
