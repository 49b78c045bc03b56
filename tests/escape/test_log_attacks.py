"""Attacks on the log that once worked, on both databases where both were open to them."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from interlock.core.errors import (
    SessionFenced,
    SessionNotFound,
    StoreError,
    StoreFull,
)
from interlock.db.database import StoreConfig, open_database
from interlock.db.driver import DbConnection, SqliteConnection
from interlock.db.upgrade import upgrade
from interlock.log.checkpoint import write_checkpoint
from interlock.log.read import LOG_START, read_all
from interlock.log.stream_appender import NO_SCOPE, EventScope
from interlock.sessions.models import Role
from interlock.wiring.projections import verify
from tests.escape.victim import faults, new_session, renamed
from tests.harness.store import StoreHarness, open_store

# -- groups --


async def test_a_stream_that_vanished_does_not_take_acknowledged_events_along(store):
    """Its head is still cached; the refusal reaches its own units and nobody else's."""
    one, ghost = await new_session(store), await new_session(store)
    store.execute("DELETE FROM stream_heads WHERE stream = ?", ghost)
    store.execute("DELETE FROM events WHERE stream = ?", ghost)
    outcomes = await asyncio.gather(
        store.log.append(one, renamed()),
        store.log.append(ghost, renamed()),
        store.leases.take(one, "worker"),
        store.log.append(one, renamed()),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["list", "SessionNotFound", "Lease", "list"]
    assert store.query("SELECT max(seq) FROM events WHERE stream = ?", one) == [(3,)]
    assert faults(store) == [f"broken: system #0: a session belongs to {ghost}, which has no events"]


async def test_after_a_failed_commit_nothing_of_it_is_remembered(sqlite_store, monkeypatch):
    """A session whose creation was rolled back must not live on in the cache of heads."""
    commit = SqliteConnection.commit

    def fail_once(self):
        monkeypatch.setattr(SqliteConnection, "commit", commit)
        raise StoreFull("no space left")

    monkeypatch.setattr(SqliteConnection, "commit", fail_once)
    with pytest.raises(StoreFull):
        await sqlite_store.sessions.create(opened_by="test", session_id="ghost")
    assert "ghost" not in sqlite_store.log._heads
    with pytest.raises(SessionNotFound):
        await sqlite_store.log.append("ghost", renamed())
    await sqlite_store.sessions.create(opened_by="test", session_id="ghost")
    assert faults(sqlite_store) == []


@pytest.mark.parametrize("name", ["a\0b", "nope\0x", "\ud800", "", "x" * 1000, "a b"])
async def test_a_name_no_database_can_hold_hurts_only_whoever_asked(store, name):
    session = await new_session(store)

    async def append(stream, scope=NO_SCOPE):
        return await store.log.append(stream, renamed(), scope=scope)

    outcomes = await asyncio.gather(
        append(session),
        append(name),
        store.leases.take(name, "w"),
        append(session, EventScope("task\0", "parent\ud800")),
        store.leases.take(session, "holder\0"),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == [
        *("list", "SessionNotFound", "SessionNotFound", "list", "Lease")
    ]


async def test_work_whose_statement_is_refused_hurts_only_whoever_asked(store):
    session = await new_session(store)

    def bad(transaction):
        transaction.connection.query("SELECT nonsense FROM nowhere")

    outcomes = await asyncio.gather(
        store.log.append(session, renamed()),
        store.log.transact(session, bad),
        store.sessions.append_message(session, Role.user, "hello"),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["list", "StatementRefused", "Message"]
    assert faults(store) == []


async def test_work_that_asks_the_interpreter_to_exit_does_not_end_the_writer(store):
    session = await new_session(store)

    def leave(_transaction):
        raise SystemExit

    with pytest.raises(StoreError, match="SystemExit"):
        await store.log.transact(session, leave)
    assert (await store.log.append(session, renamed()))[0].seq == 2


async def test_a_late_holder_changes_nothing_even_where_it_records_nothing(store):
    session = await new_session(store)
    lease = await store.leases.take(session, "late")
    store.execute("UPDATE leases SET expires_ms = 1")

    def steal(transaction):
        transaction.connection.change("UPDATE sessions SET title = 'stolen'")

    with pytest.raises(SessionFenced):
        await store.log.transact(session, steal, token=lease.token)
    assert store.query("SELECT title FROM sessions") == [("",)]


def test_closing_while_others_submit_leaves_nobody_waiting(sqlite_config):
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            store = open_store(sqlite_config)

            async def write(store=store):
                session = await new_session(store)
                while True:
                    await store.log.append(session, renamed())

            def run(write=write):
                with pytest.raises(StoreError, match="closed"):
                    asyncio.run(write())

            thread = threading.Thread(target=run)
            thread.start()
            time.sleep(0.02)
            store.log.close()
            thread.join(timeout=20)
            assert not thread.is_alive()
            store.close()
    finally:
        sys.setswitchinterval(switch)


HOLD = "SELECT 1 FROM stream_heads WHERE stream = ? FOR UPDATE"


@contextmanager
def opened(config: StoreConfig, count: int) -> Iterator[list[StoreHarness]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(open_store(config))) for _ in range(count)]


@contextmanager
def connected(config: StoreConfig, count: int) -> Iterator[list[DbConnection]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(config.connect())) for _ in range(count)]


async def waiting(connection: DbConnection, count: int) -> None:
    """Until so many transactions of this database wait for a lock."""
    sql = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    async with asyncio.timeout(20):
        while connection.query(sql) != [(count,)]:
            await asyncio.sleep(0.01)


async def test_two_processes_that_move_the_same_heads_do_not_deadlock(postgres_server):
    with postgres_server.database() as config, opened(config, 2) as stores:
        a, b = await new_session(stores[0]), await new_session(stores[0])
        leases = [await stores[0].leases.take(name, "w") for name in (a, b)]

        async def mixed(store: StoreHarness, free: str, lease) -> None:
            for _ in range(60):
                await asyncio.gather(
                    store.log.append(free, renamed()),
                    store.log.append(lease.stream, renamed(), token=lease.token),
                )

        began = time.monotonic()
        await asyncio.gather(mixed(stores[0], b, leases[0]), mixed(stores[1], a, leases[1]))
        assert time.monotonic() - began < 30
        assert stores[0].query("SELECT sum(seq) FROM stream_heads") == [(2 + 240,)]
        assert stores[0].deadlocks() == 0
        assert faults(stores[0]) == []


async def test_a_group_that_waits_for_one_head_holds_none_behind_it(postgres_server):
    """A head read for the first time used to be locked out of turn: a known one only at the end."""
    with (
        postgres_server.database() as config,
        opened(config, 2) as (store, other),
        connected(config, 3) as (gate, holder, third),
    ):
        known, behind = sorted([await new_session(other), await new_session(other)])
        queued_first = await new_session(other)
        await store.log.append(known, renamed())
        for connection, session in ((gate, queued_first), (holder, known)):
            connection.begin(write=True)
            connection.query(HOLD, (session,))

        # Whatever is queued while the writer stands at the gate becomes one group.
        writes = [store.log.append(queued_first, renamed())]
        await waiting(third, 1)
        writes += [store.log.append(session, renamed()) for session in (known, behind)]
        gate.commit()
        await writes[0]
        await waiting(third, 1)
        assert third.query(f"{HOLD} SKIP LOCKED", (behind,)) == [(1,)]
        holder.commit()
        await asyncio.gather(*writes)
        assert faults(store) == []


# -- deleted sessions --


async def test_a_deleted_session_gives_nothing_any_more(store):
    from interlock.config.modes import ToolMode

    session = await new_session(store)
    await store.switch(*ToolMode).switch(session, ToolMode.coding, who="ada")
    await store.delete(session, who="test")
    assert await store.manager(ToolMode.coding).get_mode(session) is ToolMode.chat_safe
    for call in (
        store.tasks().put(session, "go on", who="eve"),
        store.sessions.append_message(session, Role.user, "go on"),
        store.switch(*ToolMode).switch(session, ToolMode.coding, who="eve"),
    ):
        with pytest.raises(SessionNotFound):
            await call
    await store.erase(session)
    with pytest.raises(SessionNotFound):
        await store.log.append(session, renamed())
    with pytest.raises(SessionNotFound):
        await store.leases.take(session, "w")


async def test_what_was_erased_cannot_be_filled_in_again_unseen(store):
    session = await new_session(store)
    await store.sessions.append_message(session, Role.user, "x")
    await store.delete(session, who="test")
    await store.erase(session)
    assert faults(store) == []
    store.execute("UPDATE events SET content = '{}' WHERE kind = 'message.appended'")
    assert "its content was changed" in faults(store)[0]


# -- proofs --


async def test_a_settings_row_cannot_be_changed_unseen(store):
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
    assert faults(store) == []
    store.execute("UPDATE settings_versions SET document = '{}'")
    assert "settings version 1 was changed" in faults(store)[0]
    store.execute("DELETE FROM settings_versions")
    assert "settings version 1 is missing" in faults(store)[0]


async def test_nothing_beside_the_chain_decides_what_a_checkpoint_covers(store):
    session = await new_session(store)
    store.execute("INSERT INTO store_info (key, value) VALUES ('checkpoint_cursor', '0.999999999')")
    anchor = await write_checkpoint(store.log)
    store.execute("DELETE FROM events WHERE stream = ?", session)
    store.execute("DELETE FROM stream_heads WHERE stream = ?", session)
    assert any("cut" in fault for fault in faults(store, anchors=[anchor]))


async def test_an_event_cannot_be_moved_behind_the_checkpoint_that_saw_it(sqlite_store):
    """Between two checkpoints the order of different streams is not proved."""
    for name in ("one", "two"):
        await sqlite_store.sessions.create(opened_by="test", session_id=name)
    await sqlite_store.log.append("one", renamed())
    await write_checkpoint(sqlite_store.log)
    await sqlite_store.log.append("two", renamed())
    places = {
        name: sqlite_store.query("SELECT position FROM events WHERE stream = ? AND seq = 2", name)[0][0]
        for name in ("one", "two")
    }
    assert faults(sqlite_store) == []
    sqlite_store.execute("UPDATE events SET position = 1000 WHERE stream = 'one' AND seq = 2")
    sqlite_store.execute("UPDATE events SET position = ? WHERE stream = 'two' AND seq = 2", places["one"])
    sqlite_store.execute("UPDATE events SET position = ? WHERE position = 1000", places["two"])
    assert "it was moved after that" in faults(sqlite_store)[0]


async def test_the_order_of_a_stream_cannot_be_changed_unseen(sqlite_store):
    session = await new_session(sqlite_store)
    await sqlite_store.log.append(session, renamed())
    sqlite_store.execute("UPDATE events SET position = -position")
    assert "its position in the order" in faults(sqlite_store)[0]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET hash = 'text'",
        "UPDATE events SET hash = 99999999999",
        "UPDATE events SET facts = x'ff00'",
        "UPDATE events SET id = x'ff'",
        "UPDATE events SET facts = 5",
        "UPDATE events SET content = x'ff00'",
        "UPDATE events SET salt = 5",
        "UPDATE stream_heads SET seq = 'many'",
        "UPDATE event_texts SET text = x'ff'",
        "UPDATE events SET time_us = 'noon'",
    ],
)
async def test_rows_of_the_wrong_shape_are_a_finding_and_not_a_crash(sqlite_store, damage):
    session = await new_session(sqlite_store)
    await sqlite_store.sessions.append_message(session, Role.user, "x")
    sqlite_store.execute(damage)
    assert any("broken" in fault or "cut" in fault for fault in faults(sqlite_store))


async def test_a_postgres_moved_with_its_own_tools_is_noticed_and_adopted(postgres_server):
    """Rows of another server carry transaction numbers that mean nothing here."""
    with postgres_server.database() as config:
        store = open_store(config)
        session = await new_session(store)
        await store.log.append(session, renamed())
        store.execute("UPDATE events SET txid = 4000000000000 WHERE seq = 2")
        store.close()
        with pytest.raises(StoreError, match="another PostgreSQL"):
            open_database(config)
        upgrade(config)
        again = open_store(config)
        with again.database.reading() as connection:
            assert len(read_all(connection, after=LOG_START)) == 2
        again.close()


async def test_a_moved_postgres_is_adopted_as_a_whole_so_that_checkpoints_stay_right(postgres_server):
    """The checkpoint's own number may be small enough for the new server, and those after it not."""
    with postgres_server.database() as config:
        store = open_store(config)
        session = await new_session(store)
        await write_checkpoint(store.log)
        await store.log.append(session, renamed(), renamed())
        store.execute("UPDATE events SET txid = 4000000000000 WHERE stream = ? AND seq = 2", session)
        store.close()
        upgrade(config)
        with closing(open_store(config)) as again:
            assert faults(again) == []
            await write_checkpoint(again.log)
            assert faults(again) == []
            with again.database.reading() as connection:
                assert verify(connection).coverage.unchecked_events == 0
