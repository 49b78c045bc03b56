"""`session.watch`: every client that watches is told which sessions changed, whoever changed them."""

import asyncio
import json

import pytest

from interlock.gateway import session_watch
from interlock.wiring import open_runtime


async def watching(harness):
    client = await harness.connect()
    await client.ask("session.watch")
    return client


def changes(client, session_id):
    """What the frames told of the session, in order."""
    frames = [frame for frame in client.of("session_changed") if frame["session_id"] == session_id]
    return [frame["data"]["session"] for frame in frames]


async def told(client, session_id, fits):
    return await client.until(
        lambda frame: (
            frame["type"] == "session_changed"
            and frame["session_id"] == session_id
            and fits(frame["data"]["session"])
        )
    )


@pytest.fixture
def unpolled(monkeypatch):
    """Only messages of the bus count."""
    monkeypatch.setattr(session_watch, "POLL_SECONDS", 600)


async def test_all_who_watch_see_a_session_from_its_creation_to_its_end(open_harness, unpolled):
    question = {"type": "confirmation", "message": "Go on?"}
    script = json.dumps([f"call:ask_user {json.dumps(question)}", "msg:Done."])
    harness = await open_harness(MODEL=f"scripted:{script}")
    one, two, other = await watching(harness), await watching(harness), await harness.connect()
    sent = await other.ask("chat.send", content="hello there")
    session_id = sent["session"]["id"]
    for client in (one, two):
        await told(client, session_id, lambda session: session["title"] == "hello there")
        await told(client, session_id, lambda session: session["work"] == "waiting")
    [asked] = (await other.ask("session.get", session_id=session_id))["questions"]
    await other.ask("ask_user.answer", question_id=asked["id"], answer={"confirmed": True})
    await other.ask("session.rename", session_id=session_id, title="another")
    for client in (one, two):
        await told(
            client,
            session_id,
            lambda session: session["work"] is None and session["title"] == "another",
        )
    listed = (await other.ask("session.list"))["sessions"]
    assert changes(one, session_id)[-1] == next(each for each in listed if each["id"] == session_id)
    await other.ask("session.archive", session_id=session_id)
    await told(one, session_id, lambda session: session["archived"])
    await other.ask("session.delete", session_id=session_id)
    for client in (one, two):
        await told(client, session_id, lambda session: session is None)
    assert not other.of("session_changed"), "only who watches is told"


@pytest.mark.parametrize("is_connected", [True, False])
async def test_what_another_process_changes_is_told_as_well(harness, monkeypatch, is_connected):
    """By the bus; and where that is silent, by looking."""
    monkeypatch.setattr(session_watch, "POLL_SECONDS", 600 if is_connected else 0.1)
    client = await watching(harness)
    other = open_runtime(harness.runtime.settings)
    connected = asyncio.create_task(other.bus.run()) if is_connected else None
    try:
        while connected is not None and not other.bus._transport.is_connected:
            await asyncio.sleep(0.01)
        session = await other.sessions.create(opened_by="elsewhere", title="from afar")
        await told(client, session.id, lambda shown: shown["title"] == "from afar")
        await other.sessions.rename(session.id, "nearer", who="them")
        await told(client, session.id, lambda shown: shown["title"] == "nearer")
    finally:
        if connected is not None:
            connected.cancel()
            await asyncio.gather(connected, return_exceptions=True)
        await other.close()
    await asyncio.sleep(0.5)
    titles = [session["title"] for session in changes(client, session.id)]
    assert titles in (["from afar", "nearer"], ["nearer"]), "each change is told once"


async def test_what_changed_while_nobody_watched_is_not_told_later(open_harness, monkeypatch):
    monkeypatch.setattr(session_watch, "POLL_SECONDS", 0.05)
    harness = await open_harness()
    session_id = (await (await harness.connect()).ask("session.create"))["session"]["id"]
    first = await watching(harness)
    await asyncio.sleep(0.3)
    assert first.of("session_changed") == []
    await first.close()
    await harness.runtime.sessions.rename(session_id, "unseen", who="x")
    second = await watching(harness)
    await asyncio.sleep(0.3)
    assert second.of("session_changed") == []
    await harness.runtime.sessions.rename(session_id, "seen", who="x")
    await told(second, session_id, lambda session: session["title"] == "seen")
    assert len(changes(second, session_id)) == 1


async def test_a_secret_in_a_title_is_masked_as_in_the_list(harness, unpolled):
    secret = "sk-" + "a1B2" * 12
    client = await watching(harness)
    session_id = (await client.ask("session.create", title=f"key {secret}"))["session"]["id"]
    await told(client, session_id, lambda session: True)
    assert secret not in json.dumps(client.frames)
