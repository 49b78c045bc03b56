"""A gateway and workers on machines of their own, over PostgreSQL and NATS: quick while NATS is there, and
whole when it is not.

Workers look by themselves only every thirty seconds here: whatever happens sooner came over NATS.
"""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from websockets.asyncio.client import connect

from tests.e2e.fleet.fleet import Fleet
from tests.harness.external_services import NatsServer, PostgresServer
from tests.harness.gateway import GatewayClient

pytestmark = pytest.mark.full

SECONDS = 5.0
SLOW = ["call:current_time {}", {"msg": "Here you are.", "sleep_ms": 200}] * 5
ENDLESS = ["sleep:60000", "msg:Much later."]


@pytest.fixture(scope="module")
def postgres():
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def nats(tmp_path):
    server = NatsServer(tmp_path / "nats").start()
    yield server
    server.stop()


@asynccontextmanager
async def fleet_of(folder, postgres, nats, *, workers=2, script=SLOW, poll="30"):
    variables = {
        "DATABASE_URL": postgres.url,
        "NATS_URL": nats.url,
        # Tests of this file share the database.
        "NATS_PREFIX": folder.name[:30].lower().replace(".", "-"),
        "MODEL": f"scripted:{json.dumps(script)}",
        "WORKER_POLL_SECONDS": poll,
        "SESSION_LEASE_SECONDS": "3",
    }
    fleet = Fleet(folder, variables)
    try:
        for _ in range(workers):
            fleet.add_worker()
        fleet.add_gateway()
        yield await fleet.opened()
    finally:
        await fleet.end()


@asynccontextmanager
async def page(fleet, place=0):
    address = f"ws://127.0.0.1:{fleet.gateways[place].port}/ws"
    socket = await connect(address, additional_headers={"Authorization": f"Bearer {fleet.token}"})
    client = GatewayClient(socket)
    try:
        yield client
    finally:
        await client.close()


async def ready(fleet):
    """Until the workers listen: their queue is there, and a first task went through."""
    async with page(fleet) as client:
        session_id = (await client.ask("session.create"))["session"]["id"]
        answer = await client.ask("chat.send", session_id=session_id, content="go")
        async with asyncio.timeout(60):
            while not any(frame["data"].get("done") for frame in client.of("stream_chunk")):
                await asyncio.sleep(0.05)
        return answer["task"]["id"]


async def test_a_worker_on_another_machine_answers_at_once_and_the_text_is_seen_as_it_comes(
    tmp_path, postgres, nats
):
    async with fleet_of(tmp_path, postgres, nats) as fleet:
        await asyncio.to_thread(_joined, nats, 3)
        async with page(fleet) as client:
            session_id = (await client.ask("session.create"))["session"]["id"]
            began = time.monotonic()
            answer = await client.ask("chat.send", session_id=session_id, content="go")
            end = await client.until_end(answer["task"]["id"])
            assert end["type"] == "stream_chunk"
            assert time.monotonic() - began < SECONDS
            texts = [frame for frame in client.of("stream_chunk") if frame["data"]["content"]]
            assert texts[0]["seq"] is None, "the text came from the log alone"
            assert "".join(frame["data"]["content"] for frame in texts) == "Here you are."


async def test_a_cancel_reaches_whichever_worker_it_is_at_once(tmp_path, postgres, nats):
    async with fleet_of(tmp_path, postgres, nats, script=ENDLESS) as fleet:
        await asyncio.to_thread(_joined, nats, 3)
        async with page(fleet) as client:
            session_id = (await client.ask("session.create"))["session"]["id"]
            task_id = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]["id"]
            await client.until(lambda frame: frame["data"].get("kind") == "agent.started")
            began = time.monotonic()
            await client.ask("chat.cancel", session_id=session_id)
            end = await client.until_end(task_id)
            assert end["data"]["code"] == "CANCELLED"
            assert time.monotonic() - began < SECONDS


async def test_without_nats_workers_look_for_themselves(tmp_path, postgres, nats):
    async with fleet_of(tmp_path, postgres, nats, poll="0.5") as fleet:
        await ready(fleet)
        nats.stop()
        async with page(fleet) as client:
            session_id = (await client.ask("session.create"))["session"]["id"]
            for _ in range(2):
                task_id = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]["id"]
                assert (await client.until_end(task_id))["type"] == "stream_chunk"
        assert "cannot be used" in (await asyncio.to_thread(fleet.interlock, "doctor"))
        nats.start()
        assert "connected" in (await asyncio.to_thread(fleet.interlock, "doctor"))


def _joined(nats: NatsServer, clients: int) -> None:
    """Until so many processes are connected."""
    deadline = time.monotonic() + 60
    while nats.clients() < clients:
        assert time.monotonic() < deadline, "the processes do not come"
        time.sleep(0.05)


async def test_what_another_machine_changed_is_taken_back_there(tmp_path, postgres, nats):
    """Earlier contents are kept where the worker was: elsewhere the person is told so."""
    async with fleet_of(tmp_path, postgres, nats, workers=0) as fleet:
        root = tmp_path / "root"
        root.mkdir()
        args = json.dumps({"path": "note.txt", "content": "text"})
        call = ("tool", "call", "write_file", "--mode", "coding", "--root", str(root), "--args", args)
        told = json.loads(await asyncio.to_thread(fleet.interlock, *call, "--json"))
        elsewhere = replace(fleet, variables={**fleet.variables}, folder=tmp_path / "elsewhere")
        with pytest.raises(AssertionError, match="must be undone there"):
            await asyncio.to_thread(elsewhere.interlock, "undo", told["session_id"])
        assert (root / "note.txt").exists()
        await asyncio.to_thread(fleet.interlock, "undo", told["session_id"])
        assert not (root / "note.txt").exists()
