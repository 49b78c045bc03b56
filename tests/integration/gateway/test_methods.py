"""Every method over a real socket: what it gives, and what it refuses."""

import json
from dataclasses import replace

import pytest

from interlock.log.task_events import TurnCompletedEvent
from interlock.sandbox.undo_store import UndoStore
from tests.harness.gateway import RequestRefused, task_of


async def new_session(client, **more) -> str:
    return (await client.ask("session.create", **more))["session"]["id"]


async def refused(client, method: str, /, **params) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        await client.ask(method, **params)
    return caught.value


# -- sessions ----------------------------------------------------------------------------------------


async def test_a_session_from_its_making_to_its_end(harness):
    client = await harness.connect()
    session_id = await new_session(client, title="First")
    [listed] = (await client.ask("session.list"))["sessions"]
    assert (listed["id"], listed["title"], listed["mode"], listed["opened_by"]) == (
        session_id,
        "First",
        "chat_safe",
        "tester",
    )
    renamed = await client.ask("session.rename", session_id=session_id, title="Second")
    assert renamed["session"]["title"] == "Second"
    assert (await client.ask("session.archive", session_id=session_id))["session"]["archived"] is True
    assert (await client.ask("session.list"))["sessions"] == []
    assert len((await client.ask("session.list", archived=True))["sessions"]) == 1
    assert await client.ask("session.delete", session_id=session_id) == {}
    assert (await refused(client, "session.get", session_id=session_id)).code == "SESSION_NOT_FOUND"
    assert (await refused(client, "session.subscribe", session_id=session_id)).code == "SESSION_NOT_FOUND"


async def test_sessions_of_single_commands_are_listed_when_asked_for(harness):
    client = await harness.connect()
    chat = await new_session(client)
    made = await harness.agent_runtime.runtime.sessions.create(opened_by="tool call")

    async def listed(**params):
        found = (await client.ask("session.list", **params))["sessions"]
        return {each["id"]: each["group"] for each in found}

    assert await listed() == {chat: "chats"}
    assert await listed(group="commands") == {made.id: "commands"}
    assert await listed(group="all") == {chat: "chats", made.id: "commands"}
    assert (await refused(client, "session.list", group="others")).code == "INVALID_PARAMS"


async def test_a_deleted_session_is_told_to_who_follows_it(harness):
    one, other = await harness.connect(), await harness.connect()
    session_id = await new_session(one)
    await other.ask("session.subscribe", session_id=session_id)
    await one.ask("session.delete", session_id=session_id)
    frame = await other.until(lambda frame: frame["data"].get("kind") == "session.deleted")
    assert frame["session_id"] == session_id


async def test_what_was_said_is_found_again(open_harness):
    harness = await open_harness(MODEL='scripted:["msg:The heron stands in the reeds."]')
    client = await harness.connect()
    session_id = await new_session(client, title="Birds")
    await client.talk(session_id, "tell me of herons")
    by_title = (await client.ask("session.search", query="bird"))["matches"]
    assert [match["session"]["id"] for match in by_title] == [session_id]
    said = (await client.ask("session.search", query="REEDS"))["matches"]
    assert "reeds" in said[0]["snippet"]
    assert (await client.ask("session.search", query="100%"))["matches"] == []
    history = await client.ask("chat.history", session_id=session_id)
    assert [message["role"] for message in history["messages"]] == ["user", "assistant"]
    first = await client.ask("chat.history", session_id=session_id, limit=1)
    assert first["has_more"] is True


async def test_modes_are_switched_only_when_the_operator_opened_some(harness):
    client = await harness.connect()
    session_id = await new_session(client)
    assert (await refused(client, "session.set_mode", session_id=session_id, mode="coding")).code == (
        "METHOD_NOT_FOUND"
    )
    assert (await refused(client, "session.create", mode="coding")).code == "MODE_NOT_OPEN"
    info = await client.ask("server.info")
    assert info["open_modes"] == ["chat_safe"]
    assert info["can_switch_modes"] is False
    assert "session.set_mode" not in info["methods"]


async def test_a_switch_is_told_and_lasts(open_harness):
    harness = await open_harness(SESSION_OPEN_MODES="coding")
    client = await harness.connect()
    session_id = await new_session(client)
    await client.ask("session.subscribe", session_id=session_id)
    switched = await client.ask("session.set_mode", session_id=session_id, mode="build")
    assert switched["mode"] == "coding"
    told = await client.until(lambda frame: frame["data"].get("kind") == "session.mode_changed")
    assert told["data"]["payload"] == {"who": "tester", "from_mode": "chat_safe", "to_mode": "coding"}
    assert (await refused(client, "session.set_mode", session_id=session_id, mode="plan")).code == (
        "MODE_NOT_OPEN"
    )
    assert (await refused(client, "session.set_mode", session_id=session_id, mode="root")).code == (
        "INVALID_PARAMS"
    )


async def test_a_model_is_chosen_from_the_list(open_harness):
    harness = await open_harness(MODELS='scripted:["ok"]')
    client = await harness.connect()
    session_id = await new_session(client)
    info = await client.ask("server.info")
    assert info["models"] == ["demo", 'scripted:["ok"]']
    chosen = await client.ask("session.set_model", session_id=session_id, model=info["models"][1])
    assert chosen["session"]["model"] == info["models"][1]
    assert (await client.ask("session.set_model", session_id=session_id))["session"]["model"] is None
    assert (
        "not allowed here"
        in (await refused(client, "session.set_model", session_id=session_id, model="gpt-9")).message
    )


async def test_agents_are_listed_with_what_is_wrong_with_them(harness, tmp_path):
    folder = tmp_path / "workspace" / "agents"
    folder.mkdir(parents=True)
    (folder / "reviewer.md").write_text("---\nname: reviewer\ndescription: Looks twice.\n---\nYou look.\n")
    (folder / "broken.md").write_text("---\nname: other\nnonsense: 1\n---\nHello\n")
    client = await harness.connect()
    agents = {agent["name"]: agent for agent in (await client.ask("agents.list"))["agents"]}
    assert agents["reviewer"]["description"] == "Looks twice."
    assert agents["reviewer"]["problem"] is None
    assert "nonsense" in agents["broken"]["problem"]
    created = await client.ask("session.create", agent="reviewer")
    assert created["session"]["kind"] == "agent"
    assert (await refused(client, "session.create", agent="nobody")).code == "AGENT_NOT_FOUND"


# -- rules -------------------------------------------------------------------------------------------


async def test_a_limit_that_is_changed_acts_from_the_next_turn(open_harness):
    script = json.dumps(
        ['call:read_file {"path": "a.txt"}', "msg:1", 'call:read_file {"path": "a.txt"}', "msg:2"]
    )
    harness = await open_harness(MODEL=f"scripted:{script}", SESSION_OPEN_MODES="chat")
    (harness.root / "a.txt").write_text("x" * 400)
    client = await harness.connect()
    session_id = await new_session(client, mode="chat")
    before = await client.ask("settings.get")
    assert before["version"] == 0
    assert before["settings"]["tools"]["fs"]["max_read_bytes"] == 524288
    await client.talk(session_id, "first")
    stored = await client.ask("settings.update", patch={"tools": {"fs": {"enabled": False}}})
    assert stored["version"] == 1
    await client.talk(session_id, "second")
    assert [
        frame["type"] for frame in client.frames if frame["type"] in {"tool_result", "tool_denied"}
    ] == [
        "tool_result",
        "tool_denied",
    ]
    assert client.of("tool_denied")[0]["data"]["error_code"] == "TOOL_NOT_AVAILABLE"
    emptied = await client.ask("settings.update", patch={"tools": {"fs": {"max_read_bytes": ""}}})
    assert emptied["settings"]["tools"]["fs"]["max_read_bytes"] == 524288
    assert emptied["settings"]["tools"]["fs"]["enabled"] is False


async def test_a_preview_shows_the_matrix_and_stores_nothing(open_harness):
    harness = await open_harness(SESSION_OPEN_MODES="chat,coding")
    client = await harness.connect()

    def cell(matrix, tool, mode):
        return next(row for row in matrix["tools"] if row["name"] == tool)["modes"][mode]

    now = await client.ask("policy.matrix")
    assert cell(now, "read_file", "chat") == {"allowed": True}
    assert cell(now, "read_file", "chat_safe")["decided_by"]
    would = await client.ask("settings.preview", patch={"tools": {"fs": {"enabled": False}}})
    assert cell(would["matrix"], "read_file", "chat")["error_code"] == "TOOL_NOT_AVAILABLE"
    assert (await client.ask("settings.get"))["version"] == 0
    assert cell(await client.ask("policy.matrix"), "read_file", "chat") == {"allowed": True}
    wrong = await refused(client, "settings.update", patch={"tools": {"fs": {"max_read_bytes": -1}}})
    assert wrong.code == "INVALID_SETTINGS"
    assert wrong.message.startswith("tools.fs.max_read_bytes")


async def test_one_call_is_explained_and_does_not_run(open_harness):
    harness = await open_harness(SESSION_OPEN_MODES="coding")
    client = await harness.connect()
    arguments = {"path": "new.txt", "content": "x"}
    allowed = await client.ask("policy.explain", tool_name="write", mode="coding", arguments=arguments)
    assert (allowed["allowed"], allowed["tool_name"]) == (True, "write_file")
    assert not (harness.root / "new.txt").exists()
    outside = await client.ask(
        "policy.explain", tool_name="read_file", mode="coding", arguments={"path": "/etc/passwd"}
    )
    assert (outside["allowed"], outside["error_code"]) == (False, "PATH_DENIED")
    assert outside["next_action"]
    closed = await client.ask("policy.explain", tool_name="read_file", mode="chat")
    assert closed["allowed"] is False
    unknown = await client.ask("policy.explain", tool_name="nothing", mode="coding")
    assert unknown["error_code"] == "TOOL_NOT_FOUND"


# -- facts -------------------------------------------------------------------------------------------


@pytest.fixture
async def written(open_harness):
    """A house where a task has written a file, and its client, session and task."""
    script = json.dumps(['call:write_file {"path": "made.txt", "content": "hello"}', "msg:Written."])
    harness = await open_harness(MODEL=f"scripted:{script}", SESSION_OPEN_MODES="coding")
    client = await harness.connect()
    session_id = await new_session(client, mode="coding")
    frames = await client.talk(session_id, "write it")
    return harness, client, session_id, task_of(frames)


async def test_a_tasks_changes_are_taken_back(written):
    harness, client, _, task_id = written
    assert (harness.root / "made.txt").read_text() == "hello"
    undone = await client.ask("tasks.undo", task_id=task_id)
    assert not (harness.root / "made.txt").exists()
    assert undone["left"] == []
    assert undone["undo_id"]
    assert undone["restored"] == [str(harness.root / "made.txt")]
    assert (await refused(client, "tasks.undo", task_id="t_0000000000000000")).code == "TASK_NOT_FOUND"


async def test_an_undo_of_a_task_can_be_redone(written):
    harness, client, session_id, task_id = written
    undone = await client.ask("tasks.undo", task_id=task_id)
    assert not (harness.root / "made.txt").exists()
    redone = await client.ask("tasks.undo", task_id=task_id, undo_id=undone["undo_id"])
    assert (harness.root / "made.txt").read_text() == "hello"
    assert redone["restored"] == [str(harness.root / "made.txt")]
    assert redone["undo_id"] != undone["undo_id"]
    for other in (session_id, task_id, undone["undo_id"]):
        again = await refused(client, "tasks.undo", task_id=task_id, undo_id=other)
        assert again.code == "NOTHING_TO_UNDO"
    assert (harness.root / "made.txt").exists()
    await client.ask("tasks.undo", task_id=task_id)
    assert not (harness.root / "made.txt").exists()


async def test_a_task_is_looked_for_in_its_own_session_only(written, tmp_path):
    """However much is kept of others, it is not read."""
    harness, client, session_id, task_id = written
    kept = UndoStore(tmp_path / "state" / "kept", max_bytes=1 << 20)
    [own] = kept.entries(session_id)
    kept.keep(replace(own.change, session_id="s_another", parts=("theirs.txt",)))
    assert len(kept.find(task_id)) == 2
    undone = await client.ask("tasks.undo", task_id=task_id)
    assert undone["restored"] == [str(harness.root / "made.txt")]
    assert undone["left"] == []


async def test_what_was_changed_since_is_left_and_named(written):
    harness, client, _, task_id = written
    (harness.root / "made.txt").write_text("somebody else was here")
    undone = await client.ask("tasks.undo", task_id=task_id)
    assert undone["restored"] == []
    [left] = undone["left"]
    assert left["path"] == str(harness.root / "made.txt")
    assert left["reason"]


async def test_tasks_are_listed_shown_and_retried(written):
    _, client, session_id, task_id = written
    [task] = (await client.ask("tasks.list", session_id=session_id, status="done"))["tasks"]
    assert task["id"] == task_id
    assert task["message"] == "write it"
    assert (await client.ask("tasks.get", task_id=task_id))["task"]["status"] == "done"
    assert (await refused(client, "tasks.retry", task_id=task_id)).code == "TASK_STATUS"
    assert (await refused(client, "tasks.cancel", task_id=task_id)).code == "TASK_STATUS"
    assert (await refused(client, "tasks.list", status="odd")).code == "INVALID_PARAMS"
    assert (await refused(client, "chat.cancel", session_id=session_id)).code == "TASK_STATUS"


async def test_the_tree_of_a_task_has_its_turns_and_calls(written):
    _, client, session_id, task_id = written

    def walk(node):
        yield node
        for child in node["children"]:
            yield from walk(child)

    tree = await client.ask("events.tree", task_id=task_id)
    nodes = [node for root in tree["roots"] for node in walk(root)]
    kinds = [node["kind"] for node in nodes]
    assert {"task.queued", "task.started", "agent.started", "turn.completed", "tool_call.started"} <= set(
        kinds
    )
    turn = next(node for node in nodes if node["kind"] == "turn.completed")
    assert "tool_call.started" in [child["kind"] for child in turn["children"]]
    assert turn["duration_ms"] >= 0
    tail = await client.ask("events.tail", session_id=session_id, kinds=["tool_call.completed"])
    assert [event["payload"]["tool_name"] for event in tail["events"]] == ["write_file"]
    system = await client.ask("events.tail")
    assert "auth.token_added" in [event["kind"] for event in system["events"]]


async def test_the_log_verifies_and_a_change_is_found(written):
    harness, client, session_id, _ = written
    fine = await client.ask("events.verify")
    assert fine["ok"] is True
    assert fine["problems"] == []
    assert fine["streams"] >= 2
    covered = ("checkpoints", "signed", "anchors", "after_anchor", "notes")
    assert [fine[name] for name in covered] == [0, 0, 0, fine["after_checkpoint"], []]
    assert fine["after_checkpoint"] == fine["events"]
    connection = harness.runtime.database.config.connect()
    connection.change(
        "UPDATE events SET facts = '{}' WHERE stream = ? AND kind = 'tool_call.started'", (session_id,)
    )
    connection.close()
    found = await client.ask("events.verify")
    assert found["ok"] is False
    assert session_id in found["problems"][0]


async def test_figures_count_what_was_done(written):
    _, client, _, _ = written
    stats = await client.ask("stats.get", days=2)
    assert len(stats["days"]) == 2
    today = stats["days"][-1]
    assert (today["turns"], today["tasks"], today["calls"], today["denials"]) == (2, 1, 1, 0)
    names = ("turns", "calls", "input_tokens", "output_tokens", "seconds", "cost", "cost_at_least")
    used = {name: today[name] for name in names}
    assert stats["by_agent"] == {"": used}
    assert list(stats["by_actor"].values()) == list(stats["by_session"].values()) == [used]


async def test_a_price_that_is_not_known_is_not_nothing(open_harness):
    """An empty day cost 0. A day with a model of unknown price cost at least what the others did."""
    harness = await open_harness(MODEL="demo", CONTROL_PRICES='{"dear": [1000000, 1000000]}')
    client = await harness.connect()

    async def today() -> tuple:
        before, day = (await client.ask("stats.get", days=2))["days"]
        assert (before["cost"], before["cost_at_least"]) == (0.0, 0.0)
        return day["cost"], day["cost_at_least"]

    async def used(model: str) -> None:
        made = await harness.runtime.sessions.create(opened_by="test")
        numbers = {"input_tokens": 2, "output_tokens": 1, "tool_calls": 0, "latency_ms": 1.0}
        turn = TurnCompletedEvent(turn=1, model=model, finish_reason="stop", **numbers)
        await harness.runtime.log.append(made.id, turn)

    assert await today() == (0.0, 0.0)
    await used("demo")
    assert await today() == (0.0, 0.0)
    await used("nobody knows")
    assert await today() == (None, 0.0)
    await used("dear")
    assert await today() == (None, 3.0)


async def test_questions_are_listed_while_they_are_open(open_harness):
    question = {"type": "selection", "message": "Which?", "options": [{"value": "a", "label": "A"}]}
    script = json.dumps([f"call:ask_user {json.dumps(question)}", "msg:ok"])
    harness = await open_harness(MODEL=f"scripted:{script}")
    client = await harness.connect()
    session_id = await new_session(client)
    await client.send("chat.send", session_id=session_id, content="go")
    asked = await client.until(lambda frame: frame["type"] == "ask_user")
    await client.until(lambda frame: frame["data"].get("kind") == "task.waiting")
    [listed] = (await client.ask("questions.list", session_id=session_id))["questions"]
    assert listed["id"] == asked["data"]["question_id"]
    given = await client.ask("session.get", session_id=session_id)
    assert [question["id"] for question in given["questions"]] == [listed["id"]]
    assert [task["status"] for task in given["tasks"]] == ["waiting"]
    idle = await new_session(client)
    work = {each["id"]: each["work"] for each in (await client.ask("session.list"))["sessions"]}
    assert work == {session_id: "waiting", idle: None}
    wrong = await refused(client, "ask_user.answer", question_id=listed["id"], answer={"selected": "zzz"})
    assert wrong.code == "INVALID_ANSWER"
    await client.ask("chat.cancel", session_id=session_id)
    late = await refused(client, "ask_user.answer", question_id=listed["id"], answer={"selected": ["a"]})
    assert late.code == "QUESTION_CLOSED"
