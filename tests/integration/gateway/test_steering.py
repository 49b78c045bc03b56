"""A message that steers a running task, over sockets: where the model gets it, and what windows show."""

import pytest

from tests.harness.model_answers import called, said
from tests.harness.model_server import KEY, ModelServer
from tests.harness.scripted_model import Gate, held_back

TASK = "t_00000000000000ab"


@pytest.fixture
async def server():
    async with ModelServer() as opened:
        yield opened
    assert opened.faults == []


async def begun(open_harness, server):
    """A client whose task waits for its model."""
    harness = await open_harness(
        MODEL="openai", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.base_url, OPENAI_MODEL="m"
    )
    client = await harness.connect()
    session = (await client.ask("session.create"))["session"]["id"]
    task = (await client.ask("chat.send", session_id=session, content="go"))["task"]
    await client.until(lambda frame: frame["data"].get("kind") == "agent.started")
    return harness, client, session, task["id"]


def spoken(request) -> list[str]:
    """Who speaks, and what people say."""
    told = [each for each in request.messages if each["role"] != "system"]
    return [each["content"] if each["role"] == "user" else each["role"] for each in told]


async def test_the_model_gets_it_at_its_next_turn_behind_the_results_and_windows_where_it_stands(
    open_harness, server
):
    gate = Gate()
    server.add(held_back(gate, called(("current_time", {}))), said("Left it is."), said("And on."))
    harness, client, session, task = await begun(open_harness, server)
    steer = {"session_id": session, "content": "go left", "steer": True, "task_id": TASK}
    assert (await client.ask("chat.send", **steer))["task"]["status"] == "queued"
    gate.set()
    await client.until_end(task)
    assert [spoken(request) for request in server.asked] == [
        ["go"],
        ["go", "assistant", "tool", "go left"],
    ]
    # Sent again, because its arrival was unknown, it is the same.
    assert (await client.ask("chat.send", **steer))["task"]["status"] == "done"
    await client.talk(session, "and now?")
    assert spoken(server.asked[2]) == ["go", "assistant", "tool", "go left", "assistant", "and now?"]
    late = await harness.connect()
    await late.ask("session.subscribe", session_id=session, after_seq=0)
    for window in (client, late):
        (steered,) = (frame for frame in window.frames if frame["data"].get("kind") == "task.steered")
        data = steered["data"]
        assert (steered["task_id"], data["payload"]["into"]) == (TASK, task)
        assert data["message"] == {"role": "user", "content": "go left"}
        shown = [frame["data"].get("kind") or frame["type"] for frame in window.frames]
        assert shown.index("tool_result") < shown.index("task.steered") < len(shown) - 1


async def test_too_late_it_is_a_message_like_any_other(open_harness, server):
    gate = Gate()
    server.add(held_back(gate, said("Done.")), said("Left it is."))
    _, client, session, task = await begun(open_harness, server)
    late = (await client.ask("chat.send", session_id=session, content="go left", steer=True))["task"]
    gate.set()
    await client.until_end(task)
    await client.until_end(late["id"])
    assert [spoken(request) for request in server.asked] == [["go"], ["go", "assistant", "go left"]]


async def test_with_nothing_at_work_it_is_a_message_like_any_other(open_harness, server):
    server.add(said("Left it is."))
    harness = await open_harness(
        MODEL="openai", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.base_url, OPENAI_MODEL="m"
    )
    client = await harness.connect()
    alone = (await client.ask("chat.send", content="go left", steer=True))["task"]
    await client.until_end(alone["id"])
    assert [spoken(request) for request in server.asked] == [["go left"]]
