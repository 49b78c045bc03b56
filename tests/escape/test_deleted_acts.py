"""Whoever deletes a session does not take away the proof of what was done in it."""

import asyncio
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, suppress

import pytest

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.core.errors import SessionBusy, SessionNotFound
from interlock.db.driver import PostgresConnection, SqliteConnection
from interlock.embed import tool
from interlock.log.erasure import ERASE_TEXTS
from interlock.log.kinds import SessionRenamed
from interlock.log.read import iter_stream
from interlock.sessions.models import Role
from interlock.wiring import open_runtime
from interlock.wiring.agents import open_agent_runtime
from interlock.wiring.projections import verify
from tests.harness.runtime import call, script
from tests.harness.store import StoreHarness, open_store
from tests.integration.gateway.test_methods import new_session

TABLES = ("events", "event_texts", "sessions", "tasks", "questions", "runs", "run_nodes")


@asynccontextmanager
async def working_office(tmp_path, monkeypatch, model, *tools):
    for name, value in {
        "INTERLOCK_STATE_DIR": tmp_path / "state",
        "WORKSPACE_DIR": tmp_path / "workspace",
        "MODEL": model,
    }.items():
        monkeypatch.setenv(name, str(value))
    runtime = open_runtime(Settings(), opened=list(ToolMode), tools=tools)
    agent_runtime = open_agent_runtime(runtime)
    worker = agent_runtime.worker()
    running = asyncio.create_task(worker.run())
    try:
        yield agent_runtime
    finally:
        worker.stop()
        await running
        await agent_runtime.close()
        await runtime.close()


def dump(agent_runtime) -> str:
    with agent_runtime.runtime.database.reading() as connection:
        return repr([connection.query(f"SELECT * FROM {table}") for table in TABLES])


def log_of(agent_runtime, stream):
    with agent_runtime.runtime.database.reading() as connection:
        return [(stored, stored.event()) for stored in iter_stream(connection, stream)]


async def test_a_call_that_runs_while_its_session_is_deleted_and_erased_is_still_proved(
    tmp_path, monkeypatch
):
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool(modes=["coding"], effect="exec", switches=["shell"])
    async def deploy(target: str) -> str:
        """Deploy something."""
        started.set()
        with suppress(asyncio.CancelledError):
            await go_on.wait()
        await go_on.wait()
        return f"deployed {target}"

    model = script(tmp_path, {"tool_calls": [call("deploy", target="the-moon")]}, "msg:done")
    async with working_office(tmp_path, monkeypatch, model, deploy) as agent_runtime:
        sessions, eraser = agent_runtime.runtime.sessions, agent_runtime.runtime.eraser
        session = (await sessions.create(opened_by="test", mode=ToolMode.coding, title="the-moon")).id
        await agent_runtime.tasks.put(session, "deploy to the-moon", who="token:ada")
        await asyncio.wait_for(started.wait(), 60)
        await agent_runtime.tasks.delete_session(session, who="token:eve")
        with pytest.raises(SessionBusy):
            await eraser.erase(session, who="operator")
        assert "the-moon" in dump(agent_runtime)
        erasing = asyncio.create_task(eraser.erase(session, who="operator", wait_seconds=90))
        go_on.set()
        told = await erasing
        assert "the-moon" not in dump(agent_runtime)
        log = log_of(agent_runtime, session)
        assert await agent_runtime.runtime.database.read(lambda db: verify(db).faults) == []
        *_, (_, recorded) = log_of(agent_runtime, "system")
    assert recorded == told
    assert (told.who, told.of) == ("operator", session)
    by_kind = {event.kind: (stored, event) for stored, event in log}
    stored, intent = by_kind["tool_call.started"]
    assert stored.is_erased
    assert (intent.tool_name, intent.mode, intent.effect) == ("deploy", "coding", "exec")
    assert len(intent.authority_digest) == 64
    assert intent.arguments is None
    (outcome,) = [
        event
        for each, event in log
        if each.header.parent == stored.header.id and event.kind.startswith("tool_call.")
    ]
    assert (outcome.tool_name, outcome.mode) == ("deploy", "coding")
    assert by_kind["task.queued"][1].who == "token:ada"
    assert by_kind["session.deleted"][1].who == by_kind["task.cancelled"][1].who == "token:eve"


async def test_deleting_over_the_gateway_takes_nothing_from_the_log(harness):
    client = await harness.connect()
    session = await new_session(client)
    before = log_of(harness, session)
    assert await client.ask("session.delete", session_id=session) == {}
    after = log_of(harness, session)
    assert after[: len(before)] == before
    assert [event.kind for _, event in after[len(before) :]] == ["session.deleted"]


async def test_an_erased_text_cannot_be_guessed_from_its_hash(store):
    """Two sessions with the same short title: nothing that stays of them is the same."""
    hashes = []
    for _ in range(2):
        session = (await store.sessions.create(opened_by="test", title="yes")).id
        await store.delete(session)
        await store.erase(session)
        sql = "SELECT facts, content, salt, content_hash FROM events WHERE stream = ? AND seq = 1"
        ((facts, content, salt, content_hash),) = store.query(sql, session)
        assert (content, salt) == (None, None)
        assert "yes" not in facts
        hashes.append(bytes(content_hash))
    assert hashes[0] != hashes[1]


async def test_what_is_recorded_while_a_session_is_erased_loses_nothing_unseen(
    store: StoreHarness, monkeypatch
):
    """By another process, between the look at what is covered and the end of the transaction."""
    session = (await store.sessions.create(opened_by="test")).id
    await store.sessions.append_message(session, Role.user, "hello")
    await store.delete(session)
    other, loop = open_store(store.config), asyncio.get_running_loop()
    late = SessionRenamed(title="too late", who="test")
    recording: list[Future] = []

    async def record_late():
        return await other.log.append(session, late)

    for kind in (SqliteConnection, PostgresConnection):
        real = kind.change

        def change(self, statement, parameters=(), real=real):
            if statement == ERASE_TEXTS:
                recording.append(asyncio.run_coroutine_threadsafe(record_late(), loop))
                wait(recording, timeout=1)
            return real(self, statement, parameters)

        monkeypatch.setattr(kind, "change", change)
    try:
        told = await store.erase(session)
        with pytest.raises(SessionNotFound):
            await asyncio.wrap_future(recording[0])
    finally:
        other.close()
    assert told.messages == 1
    assert await store.database.read(lambda db: verify(db).faults) == []
