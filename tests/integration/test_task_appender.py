"""A task's appends build on each other: nothing is written behind one that failed."""

import pytest

from interlock.core.errors import StoreUnavailable, is_transient
from interlock.log.kinds import SessionRenamed


@pytest.fixture
async def broken(store, monkeypatch):
    """A lease and its appender, whose first write meets a store that is unavailable."""
    session = (await store.sessions.create(opened_by="test")).id
    lease = await store.leases.take(session, "one")
    appender = store.log.appender(session, lease.token)
    writer = store.log._writer
    real = writer._commit_once

    def unavailable(_units):
        monkeypatch.setattr(writer, "_commit_once", real)
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(writer, "_commit_once", unavailable)
    return lease, appender


def titled(store, title):
    return store.log.draft(SessionRenamed(who="t", title=title))


async def test_nothing_is_written_behind_an_append_that_failed(store, broken):
    """Also what was queued before the failure was known, and what was held back."""
    lease, appender = broken
    appender.hold(titled(store, "held"))
    queued = [appender.append(titled(store, title)) for title in "abc"]
    appender.hold(titled(store, "later"))
    for writing in (*queued, appender.flush(), appender.append(titled(store, "last"))):
        with pytest.raises(StoreUnavailable) as raised:
            await writing
        assert is_transient(raised.value)
    kinds = store.query("SELECT kind FROM events WHERE stream = ?", lease.stream)
    assert kinds == [("session.created",)]


async def test_others_and_the_next_attempt_are_not_kept_from_writing(store, broken):
    lease, appender = broken
    with pytest.raises(StoreUnavailable):
        await appender.append(titled(store, "lost"))
    await store.log.append(lease.stream, titled(store, "a person"))
    await store.leases.renew(lease)
    again = store.log.appender(lease.stream, lease.token)
    (recorded,) = await again.append(titled(store, "again"))
    assert recorded.seq == 3


async def test_a_task_keeps_none_of_its_written_units_in_memory(store):
    session = (await store.sessions.create(opened_by="test")).id
    appender = store.log.appender(session)
    for title in "abc":
        await appender.append(titled(store, title))
    assert appender._last.follows is None
