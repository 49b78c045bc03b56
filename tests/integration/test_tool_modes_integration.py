"""The integration tests that the tool-modes test plan names (S1 5.3), over a real socket."""

import orjson
import pytest

from interlock.config.modes import ToolMode
from tests.harness.gateway import GatewayHarness, text_of
from tests.integration.gateway.conftest import open_harness

__all__ = ["open_harness"]

SCRIPT = orjson.dumps(['call:read_file {"path": "a.txt"}', "msg:I may not read files here."]).decode()


@pytest.fixture
async def harness(open_harness) -> GatewayHarness:
    """Its model asks for a file in `chat_safe`, and then explains."""
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    (harness.root / "a.txt").write_text("never read")
    return harness


async def talked(harness: GatewayHarness) -> tuple[str, list[dict]]:
    client = await harness.connect()
    session = (await client.ask("session.create", title="t"))["session"]
    return session["id"], await client.talk(session["id"], "read a.txt")


async def test_tool_denied_websocket_frame(harness):
    """S1-A7: the six fields, all of them strings that say something, after the call they refuse."""
    _, frames = await talked(harness)
    [denied] = [frame for frame in frames if frame["type"] == "tool_denied"]
    [called] = [frame for frame in frames if frame["type"] == "tool_call"]
    assert denied["data"].keys() == {
        "call_id",
        "tool_name",
        "mode",
        "error_code",
        "message",
        "next_action",
    }
    assert all(isinstance(value, str) and value for value in denied["data"].values())
    assert denied["data"]["tool_name"] == "read_file"
    assert denied["data"]["mode"] == "chat_safe"
    assert denied["data"]["error_code"] == "MODE_DENIED"
    assert denied["data"]["call_id"] == called["data"]["call_id"]
    assert frames.index(called) < frames.index(denied)


async def test_tool_denied_then_text_continues(harness):
    """S1-A8: the denial ends nothing; text and the end of the stream still come."""
    _, frames = await talked(harness)
    kinds = [frame["type"] for frame in frames]
    rest = frames[kinds.index("tool_denied") :]
    assert text_of(rest) == "I may not read files here."
    assert rest[-1]["type"] == "stream_chunk"
    assert rest[-1]["data"]["done"] is True
    assert "error" not in kinds


async def test_chat_safe_allowed_tool_works(open_harness):
    """S1-A1, A2: what the mode allows is carried out, and its result is told."""
    script = orjson.dumps(["call:current_time {}", 'call:memory_search {"query": "x"}', "msg:done"])
    harness = await open_harness(MODEL=f"scripted:{script.decode()}")
    _, frames = await talked(harness)
    results = [frame["data"] for frame in frames if frame["type"] == "tool_result"]
    assert [result["tool_name"] for result in results] == ["current_time", "memory_search"]
    assert all(result["result"]["ok"] for result in results)
    assert "UTC" in results[0]["result"]["stdout"]
    assert not [frame for frame in frames if frame["type"] == "tool_denied"]


async def test_denial_persisted_to_transcript(harness):
    """S1-C3: it is stored as the tool message that the model reads, under its call's id."""
    session_id, frames = await talked(harness)
    [denied] = [frame["data"] for frame in frames if frame["type"] == "tool_denied"]
    messages = await harness.runtime.sessions.transcript(session_id)
    [stored] = [message for message in messages if message.role == "tool"]
    assert stored.tool_call_id == denied["call_id"]
    told = orjson.loads(stored.content)
    assert told["ok"] is False
    assert {name: told[name] for name in ("error_code", "tool_name", "mode", "message", "next_action")} == {
        name: denied[name] for name in ("error_code", "tool_name", "mode", "message", "next_action")
    }


async def test_tool_denied_type_distinguishable(harness):
    """S1-C4: no other type of frame tells of it, and none of them is made up for it."""
    _, frames = await talked(harness)
    [denied] = [frame["data"] for frame in frames if frame["type"] == "tool_denied"]
    others = [frame for frame in frames if frame["type"] in {"stream_chunk", "error", "tool_result"}]
    assert others
    assert all("MODE_DENIED" not in orjson.dumps(frame).decode() for frame in others)
    call = next(frame["data"] for frame in frames if frame["type"] == "tool_call")
    assert "arguments" in call
    assert "arguments" not in denied


async def test_get_mode_reads_from_db(open_harness):
    """S1-B2: what counts is what the row says, within the modes that are open."""
    harness = await open_harness(SESSION_OPEN_MODES="plan")
    client = await harness.connect()
    session = (await client.ask("session.create"))["session"]
    assert session["mode"] == "chat_safe"
    assert await harness.runtime.sessions.get_mode(session["id"]) is ToolMode.chat_safe
    await client.ask("session.set_mode", session_id=session["id"], mode="plan")
    assert await harness.runtime.sessions.get_mode(session["id"]) is ToolMode.plan
    assert (await client.ask("session.get", session_id=session["id"]))["mode"] == "plan"
