"""Whoever deletes a session does not take away the proof of what was done in it."""

import asyncio
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, suppress

import pytest

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.embed import tool
from interlock.events.catalog import SessionRenamed
from interlock.events.feed import whole_stream
from interlock.events.verify import verify
from interlock.infra.errors import SessionBusy, SessionNotFound
from interlock.session.erasure import ERASE_MESSAGES
from interlock.session.models import Role
from interlock.store.driver import PostgresConnection, SqliteConnection
from interlock.wiring import open_runtime
from interlock.wiring.office import open_office
from tests.harness.runtime import call, script
from tests.harness.store import StoreHarness, open_store
from tests.integration.gateway.test_methods import new_session

TABLES = ("events", "messages", "sessions", "tasks", "questions", "runs", "run_nodes")


@asynccontextmanager
async def working_office(tmp_path, monkeypatch, model, *tools):
    for name, value in {
        "INTERLOCK_STATE_DIR": tmp_path / "state",
        "WORKSPACE_DIR": tmp_path / "workspace",
        "MODEL": model,
    }.items():
        monkeypatch.setenv(name, str(value))
    runtime = open_runtime(Settings(), opened=list(ToolMode), tools=tools)
    office = open_office(runtime)
    worker = office.worker()
    running = asyncio.create_task(worker.run())
    try:
        yield office
    finally:
        worker.stop()
        await running
        await office.close()
        await runtime.close()


def dump(office) -> str:
    with office.runtime.database.reading() as connection:
        return repr([connection.query(f"SELECT * FROM {table}") for table in TABLES])


def log_of(office, stream):
    with office.runtime.database.reading() as connection:
        return [(stored, stored.event()) for stored in whole_stream(connection, stream)]


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
    async with working_office(tmp_path, monkeypatch, model, deploy) as office:
        sessions, eraser = office.runtime.sessions, office.runtime.eraser
        session = (await sessions.create(opened_by="test", mode=ToolMode.coding, title="the-moon")).id
        await office.tasks.put(session, "deploy to the-moon", who="token:ada")
        await asyncio.wait_for(started.wait(), 60)
        await office.tasks.delete_session(session, who="token:eve")
        with pytest.raises(SessionBusy):
            await eraser.erase(session, who="operator")
        assert "the-moon" in dump(office)
        erasing = asyncio.create_task(eraser.erase(session, who="operator", wait_seconds=90))
        go_on.set()
        told = await erasing
        assert "the-moon" not in dump(office)
        log = log_of(office, session)
        assert await office.runtime.database.read(lambda db: verify(db).faults) == []
        *_, (_, recorded) = log_of(office, "system")
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
    for kind in (SqliteConnection, PostgresConnection):
        real = kind.change

        def change(self, statement, parameters=(), real=real):
            if statement == ERASE_MESSAGES:
                recording.append(asyncio.run_coroutine_threadsafe(other.log.append(session, late), loop))
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
