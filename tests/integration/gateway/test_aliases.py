"""A model that calls a tool by an alias: one `tool_name` everywhere, and beside it the name it used."""

import orjson
import pytest

from interlock.agent.events import ToolCallInfo
from interlock.channels.terminal.agent_events import AgentEventReader
from interlock.feed.entries import read_entries
from interlock.feed.render import render_entry
from interlock.log.kinds import merge_payload
from interlock.sessions.models import Role

SCRIPT = orjson.dumps(
    ['call:read {"path": "a.txt"}', 'call:fs.write {"path": "b"}', "call:current_time {}", "msg:done"]
).decode()


@pytest.fixture
async def harness(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}", SESSION_OPEN_MODES="chat")
    (harness.root / "a.txt").write_text("text\n")
    return harness


async def talked(harness) -> tuple[str, list[dict]]:
    client = await harness.connect()
    session = (await client.ask("session.create", title="t", mode="chat"))["session"]
    return session["id"], await client.talk(session["id"], "go")


async def test_frames_have_the_tool_s_own_name_and_the_one_that_was_used(harness):
    session_id, live = await talked(harness)
    client = await harness.connect()
    await client.ask("session.subscribe", session_id=session_id, after_seq=0)
    for frames in (live, client.frames):
        data = {
            kind: [f["data"] for f in frames if f["type"] == kind]
            for kind in ("tool_call", "tool_result", "tool_denied")
        }
        assert [(each["tool_name"], each.get("called_as")) for each in data["tool_call"]] == [
            ("read_file", "read"),
            ("write_file", "fs.write"),
            ("current_time", None),
        ]
        assert [each["tool_name"] for each in data["tool_result"]] == ["read_file", "current_time"]
        [denied] = data["tool_denied"]
        assert denied["tool_name"] == "write_file"
        assert denied["called_as"] == "fs.write"
        assert len(denied) == 7
        assert denied["call_id"] == data["tool_call"][1]["call_id"]


async def test_the_log_the_transcript_and_who_follows_agree(harness):
    session_id, _ = await talked(harness)
    runtime = harness.runtime
    with runtime.database.reading() as connection:
        rows = connection.query(
            "SELECT facts, content FROM events WHERE stream = ? AND kind LIKE 'tool_call.%' ORDER BY seq",
            (session_id,),
        )
    told = [merge_payload(*row) for row in rows]
    names = {(each["tool_name"], each["requested_name"]) for each in told if "requested_name" in each}
    assert names == {("read_file", "read"), ("write_file", "fs.write"), ("current_time", "current_time")}
    messages = await runtime.sessions.transcript(session_id)
    entries = await runtime.database.read(lambda db: read_entries(db, session_id, after=0, limit=99))
    reader = AgentEventReader()
    followed = [event for entry in entries for item in render_entry(entry) for event in reader.read(item)]
    assert [(e.tool_name, e.called_as) for e in followed if isinstance(e, ToolCallInfo)] == [
        ("read_file", "read"),
        ("write_file", "fs.write"),
        ("current_time", ""),
    ]
    answers = [orjson.loads(message.content) for message in messages if message.role is Role.tool]
    assert [answer["tool_name"] for answer in answers if "tool_name" in answer] == ["write_file"]
