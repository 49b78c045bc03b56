"""Rows that decide something, changed behind the log's back: `events verify` tells each of them."""

import pytest

from interlock.config.modes import ToolMode
from interlock.log.checkpoint import write_checkpoint
from interlock.log.hash_chain import now_us
from interlock.log.retention import RetentionSweeper
from interlock.wiring.projections import verify
from tests.escape.victim import faults, new_session, renamed
from tests.harness.mcp import open_mcp_harness
from tests.harness.runtime import RuntimeHarness, call, open_runtime_harness, script
from tests.harness.store import StoreHarness

VERSION = "INSERT INTO settings_versions (version, document, changed_by, time_us) VALUES (?, ?, 'x', 0)"


# -- sessions and settings --


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE sessions SET mode = 'coding'", "was changed: mode"),
        ("UPDATE sessions SET kind = 'run'", "was changed: kind"),
        ("UPDATE sessions SET agent = 'other'", "was changed: agent"),
        ("UPDATE sessions SET opened_by = 'somebody'", "was changed: opened_by"),
        ("UPDATE sessions SET model = 'dear'", "was changed: model"),
        ("UPDATE sessions SET deleted_us = 5", "was changed: deleted_us"),
        ("UPDATE sessions SET title = 'harmless'", "was changed: title"),
        ("UPDATE sessions SET created_us = 5", "was changed: created_us"),
        ("UPDATE sessions SET archived_us = 5", "was changed: archived_us"),
        ("DELETE FROM sessions", "is missing"),
    ],
)
async def test_a_sessions_row_cannot_be_changed_unseen(store: StoreHarness, change, told):
    session = await new_session(store)
    await store.log.append(session, renamed())
    assert faults(store) == []
    store.execute(change)
    (fault,) = faults(store)
    assert told in fault


async def test_a_mode_that_people_switched_is_no_fault_and_one_that_was_set_back_is(store: StoreHarness):
    session = await new_session(store)
    await store.switch(*ToolMode).switch(session, ToolMode.coding, who="ada")
    await store.switch(*ToolMode).switch(session, ToolMode.chat, who="ada")
    await store.sessions.choose_model(session, "demo", who="ada")
    assert faults(store) == []
    store.execute("UPDATE sessions SET mode = 'coding'")
    assert "was changed: mode" in faults(store)[0]


async def test_a_stream_that_is_gone_as_a_whole_is_told_by_its_session(store: StoreHarness):
    session = await new_session(store)
    store.execute("DELETE FROM events WHERE stream = ?", session)
    store.execute("DELETE FROM stream_heads WHERE stream = ?", session)
    assert f"a session belongs to {session}, which has no events" in faults(store)[0]


async def test_a_session_that_is_gone_with_all_its_rows_is_told_by_a_checkpoint_alone(store: StoreHarness):
    """What cannot be seen without one; docs/security.md says so."""
    session = await new_session(store)
    anchor = await write_checkpoint(store.log)
    for table, column in (("events", "stream"), ("stream_heads", "stream"), ("sessions", "id")):
        store.execute(f"DELETE FROM {table} WHERE {column} = ?", session)
    assert "covers it" in faults(store)[0]
    store.execute("DELETE FROM events WHERE stream = 'system'")
    store.execute("UPDATE stream_heads SET seq = 0, hash = ? WHERE stream = 'system'", b"\0" * 32)
    assert faults(store) == []
    assert "anchored checkpoint is missing" in faults(store, anchors=[anchor])[0]


async def test_the_system_stream_cannot_go_as_a_whole(store: StoreHarness):
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
    store.execute("DELETE FROM events WHERE stream = 'system'")
    store.execute("DELETE FROM stream_heads WHERE stream = 'system'")
    assert "no head row" in faults(store)[0]


async def test_a_version_of_the_settings_cannot_be_slipped_in(store: StoreHarness):
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
    assert faults(store) == []
    store.execute(VERSION, 2, '{"tools": {"fs": {"enabled": true}}}')
    assert (await store.settings.current()).settings.tools.fs.enabled is True
    assert "no event describes settings version 2" in faults(store)[0]


# -- tasks --


def found(person: RuntimeHarness) -> list[str]:
    with person.agent_runtime.runtime.database.reading() as connection:
        return [str(fault) for fault in verify(connection).faults]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE tasks SET status = 'queued'", "was changed"),
        ("UPDATE tasks SET mode = 'coding'", "was changed"),
        ("UPDATE tasks SET who = 'somebody'", "was changed"),
        ("UPDATE tasks SET credential_id = 'c_0123456789abcdef'", "was changed"),
        ("UPDATE tasks SET message_seq = 5", "was changed"),
        ("UPDATE tasks SET attempts = 0", "was changed"),
        ("UPDATE tasks SET ended_us = 5", "was changed: ended_us"),
        ("UPDATE tasks SET reason = 'it was late'", "was changed: reason"),
        ("UPDATE tasks SET cancel_requested_by = 'ada'", "was changed: cancel_requested_by"),
        ("UPDATE tasks SET id = 't_0123456789abcdef'", "is missing"),
        ("DELETE FROM tasks", "is missing"),
    ],
)
async def test_a_tasks_row_cannot_be_changed_unseen(tmp_path, monkeypatch, change, told):
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": script(tmp_path, "msg:hello")}) as ada:
        session = await ada.session(ToolMode.chat)
        await ada.say(session, "hello")
        assert found(ada) == []
        await ada.agent_runtime.runtime.log.transact(session, lambda unit: unit.connection.change(change))
        (fault,) = found(ada)
        assert told in fault


async def test_a_task_that_nobody_asked_for_is_told(tmp_path, monkeypatch):
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": script(tmp_path, "msg:hello")}) as ada:
        session = await ada.session(ToolMode.chat)
        await ada.say(session, "hello")
        row = """INSERT INTO tasks (id, session_id, message_seq, status, who, created_us, attempts,
            interruptions, queued_event) VALUES ('t_x', ?, 1, 'queued', 'ada', 0, 0, 0, '')"""
        await ada.agent_runtime.runtime.log.transact(
            session, lambda unit: unit.connection.change(row, (session,))
        )
        assert "no event describes task t_x" in found(ada)[0]


async def test_tasks_that_waited_failed_and_were_swept_and_deleted_are_no_fault(tmp_path, monkeypatch):
    question = call("ask_user", type="confirmation", message="Shall I?")
    model = script(tmp_path, {"tool_calls": [question]}, "msg:done", "err:auth")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as ada:
        session, runtime = await ada.session(ToolMode.chat), ada.agent_runtime.runtime
        waiting = await ada.say(session, "hello")
        assert waiting.status == "waiting"
        assert found(ada) == []
        await ada.agent_runtime.tasks.cancel(waiting.id, who="ada")
        await ada.say(session, "hello again")
        await ada.say(session, "and again")
        await runtime.mode_switch.switch(session, ToolMode.coding, who="ada")
        assert found(ada) == []
        later = now_us() + 3 * 86_400_000_000
        swept = await RetentionSweeper(runtime.log, runtime.database, 1, lambda: later).sweep()
        assert swept.messages
        assert found(ada) == []
        await ada.agent_runtime.tasks.delete_session(session, who="ada")
        assert found(ada) == []


# -- MCP servers --


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("""UPDATE mcp_tools SET class = replace(class, '"coding"', '"chat"')""", "was changed: class"),
        ("UPDATE mcp_tools SET class = NULL", "was changed: class"),
        ("UPDATE mcp_tools SET hash = 'x'", "was changed: hash"),
        ("UPDATE mcp_tools SET is_listed = 0", "was changed: is_listed"),
        ("UPDATE mcp_servers SET added_by = 'root'", "was changed: added_by"),
        (
            """UPDATE mcp_servers SET definition = replace(definition, 'well', 'evil')""",
            "server bad was",
        ),
        ("DELETE FROM mcp_servers", "MCP server bad is missing"),
    ],
)
async def test_what_opens_a_foreign_tool_cannot_be_changed_unseen(tmp_path, monkeypatch, change, told):
    monkeypatch.setenv("SOME_WORDS", "correct-horse-battery")
    async with open_mcp_harness(tmp_path, monkeypatch) as mcp:
        await mcp.ready("well", environment=("API_TOKEN=env:SOME_WORDS",))
        database = mcp.runtime.database
        assert await database.read(lambda db: verify(db).faults) == []
        await mcp.runtime.log.transact("system", lambda unit: unit.connection.change(change))
        (fault,) = await database.read(lambda db: verify(db).faults)
        assert told in str(fault)


# -- budgets --


async def test_deleting_sessions_gives_no_day_a_new_budget(tmp_path, monkeypatch):
    model = script(tmp_path, "msg:one", "msg:two")
    variables = {"MODEL": model, "CONTROL_MAX_DAY_TOKENS": "10"}
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as ada:
        first = await ada.session(ToolMode.chat_safe)
        assert (await ada.say(first, "say something")).status == "done"
        await ada.agent_runtime.tasks.delete_session(first, who="ada")
        again = await ada.say(await ada.session(ToolMode.chat_safe), "say something")
        assert "the limit per day is 10" in (again.reason or "")
        assert found(ada) == []
