"""What was noted and could not be written: nothing that builds on it is written after it."""

import asyncio
import threading

import pytest

from interlock.core.errors import StoreUnavailable, is_transient
from interlock.log.kinds import SessionRenamed
from interlock.sessions.models import Role


def renamed(title):
    return SessionRenamed(who="t", title=title)


@pytest.fixture
async def torn(store, monkeypatch):
    """A holder, the first of whose notes met a store that was away for a moment."""
    session = (await store.sessions.create(opened_by="test")).id
    lease = await store.leases.take(session, "one")
    writer = store.log._writer
    real = writer._commit_once

    def away(_units):
        monkeypatch.setattr(writer, "_commit_once", real)
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(writer, "_commit_once", away)
    lost = store.log.note(session, store.log.draft(renamed("lost")), token=lease.token)
    store.log.flush()
    with pytest.raises(StoreUnavailable):
        await lost
    return session, lease


async def test_nothing_that_follows_is_written_under_the_same_token(store, torn):
    session, lease = torn
    with pytest.raises(StoreUnavailable) as raised:
        await store.log.append(session, renamed("after"), token=lease.token)
    assert is_transient(raised.value)
    with pytest.raises(StoreUnavailable):
        await store.sessions.append_message(session, Role.assistant, "after", token=lease.token)
    assert store.query("SELECT kind FROM events WHERE stream = ?", session) == [("session.created",)]


async def test_others_and_people_are_not_kept_from_writing(store, torn):
    session, lease = torn
    await store.log.append(session, renamed("a person"))
    other = (await store.sessions.create(opened_by="test")).id
    elsewhere = await store.leases.take(other, "one")
    await store.log.append(other, renamed("elsewhere"), token=elsewhere.token)
    await store.leases.renew(lease)
    await store.leases.release(lease)
    again = await store.leases.take(session, "two")
    recorded = await store.log.append(session, renamed("two"), token=again.token)
    assert recorded[0].seq == 3


async def test_who_goes_on_from_the_log_writes_again(store, torn):
    session, lease = torn
    store.log.clear_failed(session, lease.token)
    recorded = await store.log.append(session, renamed("again"), token=lease.token)
    assert recorded[0].seq == 2


async def test_a_hole_that_shows_after_that_keeps_nobody_from_writing(store, monkeypatch):
    """Whoever was cancelled does not wait for what it noted, and its session goes on."""
    session = (await store.sessions.create(opened_by="test")).id
    lease = await store.leases.take(session, "one")
    writer = store.log._writer
    real, may_fail = writer._commit_once, threading.Event()

    def away(_units):
        monkeypatch.setattr(writer, "_commit_once", real)
        may_fail.wait(10)
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(writer, "_commit_once", away)
    lost = store.log.note(session, store.log.draft(renamed("lost")), token=lease.token)
    store.log.flush()
    store.log.clear_failed(session, lease.token)
    after = asyncio.ensure_future(store.log.append(session, renamed("after"), token=lease.token))
    await asyncio.sleep(0)
    may_fail.set()
    with pytest.raises(StoreUnavailable):
        await lost
    await asyncio.wait_for(asyncio.wait({after}), 10)
    recorded = await store.log.append(session, renamed("again"), token=lease.token)
    assert recorded[0].seq in {2, 3}


async def test_a_session_that_is_given_back_leaves_nothing_in_memory(store):
    session = (await store.sessions.create(opened_by="test")).id
    async with store.leases.held(session, "one") as lease:
        await store.log.append(session, renamed("told"), token=lease.token)
        assert store.log._stories
    assert not store.log._stories
