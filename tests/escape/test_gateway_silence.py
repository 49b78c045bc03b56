"""Attacks by too little: connections that say nothing, or half of it, or never listen to the answer."""

import asyncio
import json
import time
from contextlib import AsyncExitStack

import pytest

from interlock.core.errors import StoreError
from interlock.feed import follow as hub_module
from interlock.gateway import uvicorn_protocols
from interlock.gateway.connection import MAX_SUBSCRIPTIONS
from interlock.sessions.models import Role
from tests.escape.gateway_attacker import UPGRADE, Wire, asking, get, head
from tests.harness.gateway import RequestRefused, text_of
from tests.harness.model_answers import Delay, said
from tests.harness.model_server import KEY, ModelServer

PATIENCE_SECONDS = 0.4


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(uvicorn_protocols, "REQUEST_SECONDS", PATIENCE_SECONDS)


async def is_cut_off(wire: Wire, drip: bytes = b"") -> bool:
    """Within a few times the patience, although something drips in all the time."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS * 6):
            while True:
                if drip:
                    wire.writer.write(drip)
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS / 10):
                        if not await wire.reader.read(4096):
                            return True
                except TimeoutError:
                    continue
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        await wire.close()


async def test_whoever_begins_and_does_not_go_on_is_cut_off(harness, impatient):
    whole = head("/healthz", harness.port)
    handshake = head("/ws", harness.port, UPGRADE)
    length = {"Content-Length": "60000", "Origin": harness.url}
    beginnings = {
        "nothing": (b"", b""),
        "half a line": (b"GET /hea", b""),
        "half a head": (whole[:-2], b""),
        "half a handshake": (handshake[:-2], b""),
        "a head, byte by byte": (whole[:-2] + b"X: ", b"a"),
        "a handshake, byte by byte": (handshake[:-2] + b"X: ", b"a"),
        "a second request, byte by byte": (whole + whole[:-2] + b"X: ", b"a"),
        "a body after the answer": (head("/healthz", harness.port, length), b"a"),
    }
    for name, (beginning, drip) in beginnings.items():
        wire = await Wire.open(harness.port)
        await wire.send(beginning)
        assert await is_cut_off(wire, drip), name


async def test_a_body_that_does_not_come_is_a_wrong_code(harness, monkeypatch):
    monkeypatch.setattr("interlock.gateway.app.BODY_SECONDS", PATIENCE_SECONDS)
    wire = await Wire.open(harness.port)
    given = {"Content-Length": "60000", "Origin": harness.url, "Connection": "close"}
    await wire.send(head("/login", harness.port, given, method="POST") + b'{"code": "')
    assert (await wire.reader.readline()).startswith(b"HTTP/1.1 401")
    await wire.close()


async def test_silent_connections_keep_nobody_out(harness):
    """More than there may be: the oldest of them go, and whoever asks is answered at once."""
    client = await harness.connect()
    silent = []
    for _ in range(3):
        silent += await asyncio.gather(
            *(Wire.open(harness.port) for _ in range(uvicorn_protocols.SPARE_CONNECTIONS))
        )
        began = time.monotonic()
        assert (await get(harness.port, "/healthz"))[0] == 200
        await client.ask("server.info")
        await (await harness.connect()).ask("server.info")
        assert time.monotonic() - began < 5
    gone = 0
    for wire in silent:
        gone += wire.reader.at_eof() or wire.reader.exception() is not None
        await wire.close()
    assert gone >= len(silent) - uvicorn_protocols.SPARE_CONNECTIONS - 3


@pytest.mark.parametrize("kind", ["answers nobody reads", "bodies that do not come"])
async def test_half_done_requests_of_strangers_keep_nobody_out(narrow_harness, kind):
    """They are answered and take nothing, or are asked and say no more: still the oldest of them go."""
    harness = await narrow_harness()
    given = {"Content-Length": "60000", "Origin": harness.url}
    asked = {
        "answers nobody reads": head("/static/views.css", harness.port) * 8,
        "bodies that do not come": head("/login", harness.port, given, method="POST") + b"{",
    }[kind]
    async with AsyncExitStack() as held:
        for _ in range(uvicorn_protocols.SPARE_CONNECTIONS + 20):
            wire = await Wire.open(harness.port, window=4096)
            held.push_async_callback(wire.close)
            await wire.send(asked)
        assert (await get(harness.port, "/healthz"))[0] == 200
        assert (await (await harness.connect()).ask("server.info"))["who"]


async def test_a_download_outlasts_any_number_of_strangers(narrow_harness):
    harness = await narrow_harness()
    client = await harness.connect()
    session = (await client.ask("session.create", title="long"))["session"]["id"]
    for _ in range(30):
        await harness.runtime.sessions.append_message(session, Role.user, "x" * 50_000)
    async with AsyncExitStack() as held:
        wire = await Wire.open(harness.port, window=4096)
        held.push_async_callback(wire.close)
        given = {"Authorization": f"Bearer {await harness.token('reader')}", "Connection": "close"}
        await wire.send(head(f"/export/session/{session}.jsonl", harness.port, given))
        await wire.reader.readline()
        for _ in range(uvicorn_protocols.SPARE_CONNECTIONS + 20):
            held.push_async_callback((await Wire.open(harness.port)).close)
        assert len(await wire.rest()) > 1_500_000


async def test_a_download_that_nobody_reads_is_cut_off(narrow_harness, impatient):
    harness = await narrow_harness()
    client = await harness.connect()
    session = (await client.ask("session.create", title="long"))["session"]["id"]
    for _ in range(30):
        await harness.runtime.sessions.append_message(session, Role.user, "x" * 50_000)
    given = {"Authorization": f"Bearer {await harness.token('reader')}"}
    target = f"/export/session/{session}.jsonl"
    wire = await Wire.open(harness.port, window=4096)
    await wire.send(head(target, harness.port, given))
    await asyncio.sleep(PATIENCE_SECONDS * 4)
    assert len(await wire.rest(2)) < 500_000
    await wire.close()
    # One that reads, if slowly, gets all of it.
    assert len((await get(harness.port, target, given))[1]) > 1_500_000


@pytest.mark.full
async def test_a_follower_that_does_not_read_is_cut_off_and_slows_nobody(narrow_harness):
    answer = said("Some words of a long answer. " * 12_000, size=2900)
    slow = tuple(step for each in answer.steps for step in (Delay(0.005), each))
    async with ModelServer([type(answer)(slow)]) as model:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.base_url, "OPENAI_MODEL": "m"}
        harness = await narrow_harness(MODEL="openai", GATEWAY_QUEUE_BYTES="65536", **environment)
        client = await harness.connect()
        session = (await client.ask("session.create"))["session"]["id"]
        deaf = await Wire.socket(harness.port, await harness.token("deaf"), window=4096)
        await deaf.send(asking("session.subscribe", session_id=session))
        await client.ask("session.subscribe", session_id=session)
        frames = await client.talk(session, "go")
        assert frames[-1]["data"].get("done"), frames[-1]
        assert len(text_of(client.frames)) == 29 * 12_000
    async with asyncio.timeout(4):
        while len(harness.gateway.sockets) > 1:
            await asyncio.sleep(0.05)
    await asyncio.sleep(uvicorn_protocols.CLOSE_SECONDS)
    assert len(await deaf.rest(1)) < 200_000
    await deaf.close()


async def test_who_reads_gets_a_long_session_whole(open_harness):
    """Catching up on more than may wait for one socket is no reason to cut it off."""
    harness = await open_harness(GATEWAY_QUEUE_BYTES="65536")
    owner = await harness.connect()
    session = (await owner.ask("session.create"))["session"]["id"]
    for number in range(60):
        await harness.runtime.sessions.append_message(session, Role.user, f"{number} " + "ö" * 20_000)
    client = await harness.connect()
    last = (await client.ask("session.subscribe", session_id=session))["last_seq"]
    await client.until(lambda frame: frame["seq"] == last)
    numbers = [frame["seq"] for frame in client.frames if frame["seq"] is not None]
    assert numbers == list(range(1, last + 1))


async def test_much_is_given_in_parts(harness):
    client = await harness.connect()
    session = (await client.ask("session.create"))["session"]["id"]
    for number in range(60):
        await harness.runtime.sessions.append_message(
            session, Role.user, f"{number} " + "\U0001f600" * 90_000
        )
    seen, after, has_more = [], 0, True
    while has_more:
        page = await client.ask("chat.history", session_id=session, after_seq=after, limit=1000)
        has_more, after = page["has_more"], page["messages"][-1]["seq"]
        seen += [message["seq"] for message in page["messages"]]
    assert seen == list(range(2, 62))
    before, earlier = 62, []
    while before > 1:
        page = await client.ask("session.earlier", session_id=session, before_seq=before, limit=400)
        earlier = [frame["seq"] for frame in page["frames"]] + earlier
        before = page["from_seq"] + 1
    assert [seq for seq in earlier if seq is not None] == list(range(1, 62))
    assert client.socket.close_code is None


async def test_thousands_of_subscriptions_are_a_few_hundred(open_harness, monkeypatch):
    assert MAX_SUBSCRIPTIONS <= 256
    most = 30
    monkeypatch.setattr("interlock.gateway.methods.chat.MAX_SUBSCRIPTIONS", most)
    harness = await open_harness(GATEWAY_REQUESTS_PER_SECOND="100000")
    client = await harness.connect()
    sessions = [(await harness.runtime.sessions.create(opened_by="test")).id for _ in range(most + 5)]
    answers = [await client.send("session.subscribe", session_id=session) for session in sessions]
    given = await asyncio.gather(*map(client.answer_to, answers), return_exceptions=True)
    assert [each.code for each in given if isinstance(each, RequestRefused)] == ["INVALID_PARAMS"] * 5
    for _ in range(20):
        await asyncio.gather(*(client.ask("session.subscribe", session_id=sessions[0]) for _ in range(50)))
    hub = harness.gateway.services.hub
    assert [len(feed.subscribers) for feed in hub._feeds.values()] == [1] * most
    await client.close()
    async with asyncio.timeout(5):
        while hub._feeds:
            await asyncio.sleep(0.05)


async def test_following_leaving_and_deleting_at_once_leaves_nothing_behind(open_harness):
    harness = await open_harness(GATEWAY_REQUESTS_PER_SECOND="100000")
    owner = await harness.connect()
    for _ in range(10):
        session = (await owner.ask("session.create"))["session"]["id"]
        clients = [await harness.connect() for _ in range(4)]
        for client in clients:
            for _ in range(5):
                await client.send("session.subscribe", session_id=session)
                await client.send("session.unsubscribe", session_id=session)
        await asyncio.gather(owner.ask("session.delete", session_id=session), clients[0].close())
        for client in clients[1:]:
            await client.close()
    async with asyncio.timeout(5):
        while harness.gateway.services.hub._feeds:
            await asyncio.sleep(0.05)
    assert json.dumps(await owner.ask("server.info"))


async def test_a_store_that_fails_for_a_moment_is_not_the_end_of_a_channel(harness, monkeypatch):
    """Nor is an event of a shape that nobody foresaw: it is tried again, and nothing is missed."""
    monkeypatch.setattr(hub_module, "PAUSE_SECONDS", 0.05)
    client = await harness.connect()
    session = (await client.ask("session.create"))["session"]["id"]
    await client.ask("session.subscribe", session_id=session)
    faults: list[Exception] = [StoreError("the disk is gone"), KeyError("id"), RuntimeError("who knows")]
    read = hub_module.read_entries

    def failing(*given, **more):
        if faults:
            raise faults.pop()
        return read(*given, **more)

    monkeypatch.setattr(hub_module, "read_entries", failing)
    # What this process wrote is handed over: as if another had written it.
    monkeypatch.setattr(hub_module, "entry_of_event", lambda _event: None)
    await client.ask("session.rename", session_id=session, title="another")
    await client.until(lambda frame: frame["data"].get("kind") == "session.renamed")
    assert not faults
    assert [frame["seq"] for frame in client.frames if frame["seq"] is not None] == [1, 2]


async def test_what_strangers_say_badly_does_not_fill_the_log(harness, caplog):
    """Each of these was a line, or a page of one, for every time that somebody sent it."""
    given = {"Content-Length": "100", "Origin": harness.url}
    upgrade = {"Upgrade": "h2c", "Connection": "Upgrade"}
    for sent in (
        b"\x16\x03\x01 this is not HTTP\r\n\r\n",
        head("/healthz", harness.port, upgrade),
        head("/login", harness.port, given, method="POST") + b"{",
    ):
        for _ in range(12):
            wire = await Wire.open(harness.port)
            await wire.send(sent)
            if b"Content-Length" not in sent:
                await wire.reader.readline()
            await wire.close()
    assert (await get(harness.port, "/healthz"))[0] == 200
    await asyncio.sleep(0.1)
    told = [record for record in caplog.records if record.name == "uvicorn.error"]
    assert len(told) <= 10
    assert not any(record.exc_info for record in told)
