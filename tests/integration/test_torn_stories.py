"""What was noted and could not be written: nothing that builds on it is written after it."""

import pytest

from interlock.events.catalog import SessionRenamed
from interlock.infra.errors import StoreAway, may_pass
from interlock.session.models import Role


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
        raise StoreAway("the connection is lost")

    monkeypatch.setattr(writer, "_commit_once", away)
    lost = store.log.note(session, store.log.draft(renamed("lost")), token=lease.token)
    store.log.hurry()
    with pytest.raises(StoreAway):
        await lost
    return session, lease


async def test_nothing_that_follows_is_written_under_the_same_token(store, torn):
    session, lease = torn
    with pytest.raises(StoreAway) as raised:
        await store.log.append(session, renamed("after"), token=lease.token)
    assert may_pass(raised.value)
    with pytest.raises(StoreAway):
        await store.sessions.append_message(session, Role.assistant, "after", token=lease.token)
    assert store.query("SELECT kind FROM events WHERE stream = ?", session) == [("session.created",)]


async def test_others_and_people_are_not_kept_from_writing(store, torn):
    session, lease = torn
    await store.log.append(session, renamed("a person"))
    other = (await store.sessions.create(opened_by="test")).id
    elsewhere = await store.leases.take(other, "one")
    await store.log.append(other, renamed("elsewhere"), token=elsewhere.token)
    await store.leases.renew(lease)
    await store.leases.give_back(lease)
    again = await store.leases.take(session, "two")
    recorded = await store.log.append(session, renamed("two"), token=again.token)
    assert recorded[0].seq == 3


async def test_who_goes_on_from_the_log_writes_again(store, torn):
    session, lease = torn
    store.log.mend(session, lease.token)
    recorded = await store.log.append(session, renamed("again"), token=lease.token)
    assert recorded[0].seq == 2
