"""A revocation is seen by other processes and by sockets that are open."""

import asyncio

import pytest

from interlock.core.errors import UserError
from interlock.gateway import auth
from interlock.gateway.auth import ClientIdentity, CredentialKind, CredentialService
from interlock.redaction.redactor import Redactor
from interlock.wiring.projections import verify
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness
from tests.unit.gateway.credential_book import Clock


async def test_what_another_process_revoked_is_refused_here(store_config, credentials):
    token = await credentials.add_token("ci", who="x")
    who = await credentials.check_bearer(token.secret)
    assert who is not None
    assert await credentials.still_valid(who)
    other = open_store(store_config)
    try:
        others = CredentialService(other.database, other.log, Redactor())
        await others.revoke("ci", TaskHarness(other).runs, who="elsewhere")
        assert await credentials.check_bearer(token.secret) is None
        async with asyncio.timeout(2):
            while await credentials.still_valid(who):
                await asyncio.sleep(0.05)
    finally:
        other.close()


async def test_an_open_socket_is_told_of_a_revocation_at_the_next_look(credentials, runs):
    token = await credentials.add_token("ci", who="x")
    who = await credentials.check_bearer(token.secret)
    assert await credentials.still_valid(who)
    await credentials.revoke("ci", runs, who="x")
    assert not await credentials.still_valid(who)
    assert not await credentials.still_valid(
        ClientIdentity("ci", "c_0000000000000000", CredentialKind.token)
    )


async def test_many_open_sockets_ask_the_store_once(store, monkeypatch):
    clock = Clock()
    credentials = CredentialService(store.database, store.log, Redactor(), clock=clock)
    token = await credentials.add_token("ci", who="x")
    who = ClientIdentity("ci", token.id, CredentialKind.token)
    looked = []
    glance = store.database.fetch
    monkeypatch.setattr(store.database, "fetch", lambda *given: looked.append(given) or glance(*given))
    assert all(await asyncio.gather(*(credentials.still_valid(who) for _ in range(500))))
    assert len(looked) == 1
    clock.now += auth.CHECKED_SECONDS
    assert await credentials.still_valid(who)
    assert len(looked) == 2


async def test_what_is_remembered_of_sockets_is_bounded(credentials, monkeypatch):
    monkeypatch.setattr(auth, "MAX_CHECKED", 10)
    for number in range(50):
        await credentials.still_valid(ClientIdentity("x", f"c_{number}", CredentialKind.token))
    assert len(credentials._checked) <= 10


async def test_what_is_put_while_its_token_is_revoked_is_refused_or_cancelled(store_config, store):
    """By another process, at the same time: none is left that goes on."""
    credentials, other = CredentialService(store.database, store.log, Redactor()), open_store(store_config)
    putting, revoking = TaskHarness(store), TaskHarness(other)
    elsewhere = CredentialService(other.database, other.log, Redactor())
    try:
        for number in range(10):
            token = await credentials.add_token(f"ci-{number}", who="x")
            sessions = [(await store.sessions.create(opened_by="x")).id for _ in range(4)]
            puts = [
                putting.tasks.put(session_id, "go", who="ci", credential_id=token.id)
                for session_id in sessions
                for _ in range(3)
            ]
            *put, revoked = await asyncio.gather(
                *puts,
                elsewhere.revoke(token.id, revoking.runs, who="x"),
                return_exceptions=True,
            )
            refused = [each for each in put if isinstance(each, UserError)]
            statuses = [
                status
                for session_id in sessions
                for (status,) in store.query("SELECT status FROM tasks WHERE session_id = ?", session_id)
            ]
            assert statuses == ["cancelled"] * revoked.ended.tasks
            assert len(statuses) + len(refused) == len(puts)
            with pytest.raises(UserError, match="was revoked; nothing was started"):
                await putting.tasks.put(sessions[0], "go", who="ci", credential_id=token.id)
    finally:
        other.close()


async def test_a_revocation_that_cannot_be_written_cancels_nothing(store, credentials, runs, monkeypatch):
    token = await credentials.add_token("ci", who="x")
    session = await store.sessions.create(opened_by="x")
    shop = TaskHarness(store)
    task = await shop.tasks.put(session.id, "go", who="ci", credential_id=token.id)
    with monkeypatch.context() as patched:
        patched.setattr(auth, "AuthTokenRevoked", lambda **_given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await credentials.revoke("ci", runs, who="x")
    assert (await shop.tasks.get(task.id)).status == "queued"
    assert await credentials.check_bearer(token.secret) is not None
    # The streams of its sessions go on where they were.
    await shop.tasks.put(session.id, "more", who="ci", credential_id=token.id)
    assert (await credentials.revoke("ci", runs, who="x")).ended.tasks == 2
    with store.database.reading() as connection:
        assert verify(connection).faults == []
