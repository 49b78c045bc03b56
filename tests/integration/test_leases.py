"""Leases on both databases: one holder, by the database's clock, and a late one writes nothing."""

import asyncio

import pytest

from interlock.core.errors import SessionBusy, SessionFenced, SessionNotFound, StoreUnavailable
from interlock.db.leases import Leases
from interlock.log.kinds import SessionRenamed
from interlock.redaction.redactor import Redactor
from interlock.sessions.models import Role
from tests.harness.store import StoreHarness, open_store

EXPIRE = "UPDATE leases SET expires_ms = 1 WHERE name = 'session:' || ?"


async def new_session(store: StoreHarness) -> str:
    return (await store.sessions.create(opened_by="test")).id


async def test_one_holder_at_a_time(store):
    session = await new_session(store)
    first = await store.leases.take(session, "one")
    assert await store.leases.take(session, "two") is None
    await store.leases.release(first)
    second = await store.leases.take(session, "two")
    assert second.token > first.token


async def test_one_who_stops_wanting_it_while_it_is_written_down_gives_it_back(store):
    session = await new_session(store)
    taking = asyncio.create_task(store.leases.take(session, "one"))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await store.leases.take(session, "two") is not None


async def test_many_who_want_it_at_once_get_it_once(store):
    session = await new_session(store)
    other = open_store(store.config)
    leases = [Leases(part.log, seconds=30) for part in (store, other)]
    taken = await asyncio.gather(*(leases[n % 2].take(session, f"w{n}") for n in range(40)))
    assert len([lease for lease in taken if lease is not None]) == 1
    other.close()


async def test_a_holder_writes_and_a_late_one_does_not(store):
    session = await new_session(store)
    late = await store.leases.take(session, "late")
    message = await store.sessions.append_message(session, Role.user, "in time", token=late.token)
    assert message.seq == 2
    store.execute(EXPIRE, session)
    with pytest.raises(SessionFenced):
        await store.sessions.append_message(session, Role.user, "too late", token=late.token)
    present = await store.leases.take(session, "present")
    with pytest.raises(SessionFenced):
        await store.log.append(session, SessionRenamed(who="late", title="x"), token=late.token)
    await store.log.append(session, SessionRenamed(who="present", title="y"), token=present.token)
    assert [m.content for m in await store.sessions.transcript(session)] == ["in time"]
    assert (await store.sessions.get(session)).last_seq == 3


async def test_old_and_new_holder_in_one_group_are_told_apart(store):
    """Both write in the same commit: one of them is fenced, the other is written, in order."""
    session = await new_session(store)
    late = await store.leases.take(session, "late")
    store.execute(EXPIRE, session)
    present = await store.leases.take(session, "present")
    outcomes = await asyncio.gather(
        *(
            store.log.append(session, SessionRenamed(who=str(n), title="x"), token=lease.token)
            for n in range(10)
            for lease in (late, present)
        ),
        return_exceptions=True,
    )
    assert all(isinstance(outcome, SessionFenced) for outcome in outcomes[::2])
    assert [outcome[0].seq for outcome in outcomes[1::2]] == list(range(2, 12))


async def test_a_fenced_unit_does_not_hurt_the_others_of_its_group(store):
    one, two = await new_session(store), await new_session(store)
    outcomes = await asyncio.gather(
        store.log.append(one, SessionRenamed(who="t", title="x"), token=99),
        store.log.append(two, SessionRenamed(who="t", title="x")),
        store.sessions.append_message(one, Role.user, "x", token=99),
        store.sessions.append_message(two, Role.user, "x"),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == [
        "SessionFenced",
        "list",
        "SessionFenced",
        "Message",
    ]
    assert (await store.sessions.get(one)).last_seq == 1
    assert (await store.sessions.get(two)).last_seq == 3


async def test_a_lease_of_another_name_is_none_on_its_stream(store):
    session = await new_session(store)
    lease = await store.leases.take(session, "bot", name="bot:7")
    assert await store.leases.take(session, "other", name="bot:7") is None
    with pytest.raises(SessionFenced):
        await store.log.append(session, SessionRenamed(who="t", title="x"), token=lease.token)
    assert await store.leases.take(session, "worker") is not None


async def test_people_need_no_lease(store):
    session = await new_session(store)
    await store.leases.take(session, "worker")
    assert (await store.sessions.append_message(session, Role.user, "hello")).seq == 2


async def test_a_heartbeat_keeps_it_and_leaving_gives_it_back(store):
    session = await new_session(store)
    leases = Leases(store.log, seconds=1.0)
    async with leases.held(session, "worker") as lease:
        before = store.query("SELECT expires_ms FROM leases")[0][0]
        while store.query("SELECT expires_ms FROM leases")[0][0] == before:
            await asyncio.sleep(0.05)
        with pytest.raises(SessionBusy):
            async with leases.held(session, "other"):
                pass
        await store.sessions.append_message(session, Role.user, "held", token=lease.token)
    assert await leases.take(session, "other") is not None


async def test_a_holder_learns_that_it_lost_the_session(store):
    session = await new_session(store)
    leases = Leases(store.log, seconds=1.0)
    async with leases.held(session, "worker") as lease:
        store.execute("UPDATE leases SET token = token + 1")
        assert lease.is_held()
        await asyncio.wait_for(lease.lost.wait(), 5)
        assert not lease.is_held()


async def test_a_renewal_after_expiry_is_refused(store):
    session = await new_session(store)
    lease = await store.leases.take(session, "worker")
    await store.leases.renew(lease)
    store.execute(EXPIRE, session)
    with pytest.raises(SessionFenced):
        await store.leases.renew(lease)
    assert lease.lost.is_set()


async def test_a_worker_records_what_it_did_in_a_deleted_session_and_nothing_once_it_is_erased(store):
    session = await new_session(store)
    lease = await store.leases.take(session, "worker")
    await store.delete(session, who="test")
    await store.log.append(session, SessionRenamed(who="t", title="x"), token=lease.token)
    with pytest.raises(SessionBusy):
        await store.erase(session)
    await store.leases.release(lease)
    await store.erase(session)
    with pytest.raises(SessionNotFound):
        await store.log.append(session, SessionRenamed(who="t", title="x"), token=lease.token)
    with pytest.raises(SessionNotFound):
        await store.log.append(session, SessionRenamed(who="t", title="x"))
    with pytest.raises(SessionNotFound):
        await store.leases.take(session, "other")


async def test_there_is_no_lease_on_nothing(store):
    with pytest.raises(SessionNotFound):
        await store.leases.take("nobody", "worker")


async def test_a_take_over_waits_for_a_write_that_is_under_way(postgres_server):
    """PostgreSQL: the old holder has passed its fence but not committed; nobody gets the session yet."""
    with postgres_server.database() as config:
        store = open_store(config)
        session = await new_session(store)
        lease = await store.leases.take(session, "old")
        old = config.connect()
        old.begin(write=True)
        from interlock.log.stream_appender import NO_SCOPE, EventDraft, StreamAppender
        from interlock.wiring.projections import PROJECTIONS

        ledger = StreamAppender(old, {}, PROJECTIONS)
        ledger.add(
            session,
            lease.token,
            [EventDraft(SessionRenamed(who="o", title="o"), NO_SCOPE, Redactor())],
            print,
        )
        ledger.flush()
        expiring = asyncio.create_task(asyncio.to_thread(store.execute, EXPIRE, session))
        await asyncio.sleep(0.3)
        assert not expiring.done()
        old.commit()
        await expiring
        assert (await store.leases.take(session, "new")).token > lease.token
        old.close()
        store.close()


async def test_by_its_own_clock_a_holder_knows_how_long_it_is_sure(store):
    session = await new_session(store)
    leases = Leases(store.log, seconds=1)
    lease = await leases.take(session, "one")
    assert lease.is_held()
    await asyncio.sleep(0.6)
    await leases.renew(lease)
    await asyncio.sleep(0.6)
    assert lease.is_held()
    await asyncio.sleep(0.5)
    assert not lease.is_held()


async def test_a_lost_lease_is_not_held(store):
    session = await new_session(store)
    lease = await store.leases.take(session, "one")
    lease.lost.set()
    assert not lease.is_held()


async def test_a_session_is_given_back_as_soon_as_the_store_is_back(store, monkeypatch):
    session = await new_session(store)
    leases, real, times = Leases(store.log, seconds=30), store.log.transact, []

    async def away(*arguments, **keywords):
        times.append(1)
        if len(times) < 4:
            raise StoreUnavailable("the connection was lost")
        return await real(*arguments, **keywords)

    async with leases.held(session, "one"):
        monkeypatch.setattr(store.log, "transact", away)
    assert len(times) == 4
    assert await leases.take(session, "two") is not None


async def test_what_was_given_back_is_not_held(store):
    session = await new_session(store)
    async with store.leases.held(session, "one") as lease:
        assert lease.is_held()
    assert not lease.is_held()
