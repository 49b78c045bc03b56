"""A revocation is seen by other processes and by sockets that are open."""

import asyncio

from interlock.gateway import auth
from interlock.gateway.auth import Credentials, Kind, Who
from interlock.redaction.redactor import Redactor
from tests.conftest import open_store
from tests.unit.gateway.credential_book import Clock


async def test_what_another_process_revoked_is_refused_here(store_config, credentials):
    token = await credentials.add_token("ci", who="x")
    who = await credentials.check_bearer(token.secret)
    assert who is not None
    assert await credentials.still_valid(who)
    other = open_store(store_config)
    try:
        await Credentials(other.database, other.log, Redactor()).revoke("ci", who="elsewhere")
        assert await credentials.check_bearer(token.secret) is None
        async with asyncio.timeout(2):
            while await credentials.still_valid(who):
                await asyncio.sleep(0.05)
    finally:
        other.close()


async def test_an_open_socket_is_told_of_a_revocation_at_the_next_look(credentials):
    token = await credentials.add_token("ci", who="x")
    who = await credentials.check_bearer(token.secret)
    assert await credentials.still_valid(who)
    await credentials.revoke("ci", who="x")
    assert not await credentials.still_valid(who)
    assert not await credentials.still_valid(Who("ci", "c_0000000000000000", Kind.token))


async def test_many_open_sockets_ask_the_store_once(store, monkeypatch):
    clock = Clock()
    credentials = Credentials(store.database, store.log, Redactor(), clock=clock)
    token = await credentials.add_token("ci", who="x")
    who = Who("ci", token.id, Kind.token)
    looked = []
    glance = store.database.glance
    monkeypatch.setattr(store.database, "glance", lambda *given: looked.append(given) or glance(*given))
    assert all(await asyncio.gather(*(credentials.still_valid(who) for _ in range(500))))
    assert len(looked) == 1
    clock.now += auth.CHECKED_SECONDS
    assert await credentials.still_valid(who)
    assert len(looked) == 2


async def test_what_is_remembered_of_sockets_is_bounded(credentials, monkeypatch):
    monkeypatch.setattr(auth, "MAX_CHECKED", 10)
    for number in range(50):
        await credentials.still_valid(Who("x", f"c_{number}", Kind.token))
    assert len(credentials._checked) <= 10
