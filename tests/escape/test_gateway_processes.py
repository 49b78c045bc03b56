"""Attacks on the process that serves: stopped in the middle, a port that is taken, other machines."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from contextlib import AsyncExitStack

import pytest
from websockets.asyncio.client import connect

from interlock.gateway.server import ListenAddress, listening_socket
from interlock.gateway.uvicorn_protocols import SPARE_CONNECTIONS
from interlock.wiring.gateway import open_server
from tests.escape.gateway_attacker import Child, Wire, head
from tests.harness.gateway import GatewayClient, text_of
from tests.harness.model_answers import HangForever, said
from tests.harness.model_server import KEY, ModelServer

STOP_SECONDS = 8


async def joined(child: Child) -> GatewayClient:
    headers = {"Authorization": f"Bearer {child.token}"}
    return GatewayClient(await connect(f"ws://127.0.0.1:{child.port}/ws", additional_headers=headers))


async def test_stopped_in_the_middle_of_an_answer_nothing_is_lost_or_doubled(tmp_path):
    """Whoever follows is told to come back, and the next start goes on with the task."""
    whole = said("This is the whole answer.", size=5)
    broken = type(whole)((*whole.steps[:3], HangForever()))
    async with ModelServer([broken, whole]) as model:
        settings = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.base_url, "OPENAI_MODEL": "m"}
        settings |= {"MODEL": "openai", "WORKER_STOP_GRACE_SECONDS": "1"}
        child = await asyncio.to_thread(Child(tmp_path, **settings).start)
        client = await joined(child)
        session = (await client.ask("session.create"))["session"]["id"]
        task = (await client.ask("chat.send", session_id=session, content="go"))["task"]["id"]
        await client.until(lambda frame: frame["type"] == "stream_chunk")
        code, seconds = await asyncio.to_thread(child.stop)
        assert (code, await client.closed()) == (0, 1012), child.complaints()
        assert seconds < STOP_SECONDS
        assert "Traceback" not in child.complaints()
        await client.close()

        await asyncio.to_thread(child.start)
        client = await joined(child)
        await client.ask("session.subscribe", session_id=session)
        await client.until_end(task)
        history = (await client.ask("chat.history", session_id=session))["messages"]
        assert [message["content"] for message in history] == ["go", "This is the whole answer."]
        assert text_of(client.frames) == "This is the whole answer."
        tasks = (await client.ask("tasks.list", session_id=session))["tasks"]
        assert [(each["id"], each["status"]) for each in tasks] == [(task, "done")]
        assert (await client.ask("events.verify"))["ok"]
        await client.close()
        assert (await asyncio.to_thread(child.stop))[0] == 0


async def test_clients_that_do_not_go_do_not_keep_it(tmp_path):
    """Silent ones, deaf ones and halves of requests are no reason to wait."""
    child = await asyncio.to_thread(Child(tmp_path).start)
    wires = [await Wire.open(child.port) for _ in range(10)]
    wires += [await Wire.socket(child.port, child.token, window=4096) for _ in range(10)]
    for wire in wires[:5]:
        await wire.send(b"GET / HTTP/1.1\r\nX: ")
    code, seconds = await asyncio.to_thread(child.stop)
    for wire in wires:
        await wire.close()
    assert code == 0, child.complaints()
    assert seconds < STOP_SECONDS
    assert "Traceback" not in child.complaints()


async def test_if_a_part_of_it_dies_so_does_the_rest_with_its_fault(harness):
    """Half a server, that takes messages and answers nobody, would be worse than none."""
    listening = listening_socket("127.0.0.1", 0)
    address = ListenAddress("127.0.0.1", listening.getsockname()[1])
    server = open_server(harness.gateway, harness.runtime, address)
    client = await harness.connect()

    async def dies() -> None:
        await asyncio.sleep(0.2)
        raise LookupError("the worker's end")

    with pytest.raises(LookupError):
        async with asyncio.timeout(STOP_SECONDS):
            await server.run(listening, [dies], asyncio.Event())
    assert await client.closed() == 1012
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", address.port)


def refused(child: Child, *arguments: str) -> str:
    """One line that says why, and no more."""
    done = child.interlock("serve", *arguments)
    assert done.returncode not in {0, None}
    assert done.stdout == ""
    assert done.stderr.startswith("interlock: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert str(port) in refused(Child(tmp_path), "--port", str(port))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.test"])
def test_beyond_this_machine_it_listens_only_encrypted_or_when_told(tmp_path, host):
    assert "GATEWAY_TLS_CERT" in refused(Child(tmp_path), "--host", host, "--port", "0")


@pytest.fixture
def certificate(tmp_path) -> dict[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)
    return {"GATEWAY_TLS_CERT": str(cert), "GATEWAY_TLS_KEY": str(key)}


async def test_with_a_certificate_nothing_is_said_in_the_open(tmp_path, certificate):
    home = tmp_path / "home"
    home.mkdir()
    child = await asyncio.to_thread(Child(home, **certificate).start)
    assert child.link.scheme == "https"
    trusting = ssl.create_default_context(cafile=certificate["GATEWAY_TLS_CERT"])
    headers = {"Authorization": f"Bearer {child.token}"}
    address = f"wss://localhost:{child.port}/ws"
    async with connect(address, ssl=trusting, additional_headers=headers) as client:
        await client.send(json.dumps({"type": "request", "id": 1, "method": "server.info"}))
        assert json.loads(await client.recv())["data"]["who"] == "attacker"
    wire = await Wire.open(child.port)
    await wire.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert not (await wire.rest()).startswith(b"HTTP")
    await wire.close()
    assert (await asyncio.to_thread(child.stop))[0] == 0
    assert "Traceback" not in child.complaints()


async def test_handshakes_that_do_not_go_on_take_neither_memory_nor_files(tmp_path, certificate):
    home = tmp_path / "home"
    home.mkdir()
    child = await asyncio.to_thread(Child(home, **certificate).start)
    trusting = ssl.create_default_context(cafile=certificate["GATEWAY_TLS_CERT"])

    async def asked() -> bytes:
        reader, writer = await asyncio.open_connection("localhost", child.port, ssl=trusting)
        writer.write(head("/readyz", child.port, {"Connection": "close"}))
        said = await reader.read(15)
        writer.close()
        return said

    assert await asked() == b"HTTP/1.1 200 OK"
    files, megabytes = child.open_files, child.megabytes
    async with AsyncExitStack() as held:
        for number in range(3 * SPARE_CONNECTIONS):
            wire = await Wire.open(child.port)
            held.push_async_callback(wire.close)
            # The beginning of a hello, from every other one.
            await wire.send(b"\x16\x03\x01\x02\x00" * (number % 2))
        assert await asked() == b"HTTP/1.1 200 OK"
        assert child.open_files - files < SPARE_CONNECTIONS + 30
        assert child.megabytes - megabytes < 100
    assert (await asyncio.to_thread(child.stop))[0] == 0
    assert "Traceback" not in child.complaints()


def test_a_certificate_that_is_none_is_named(tmp_path, certificate):
    (tmp_path / "cert.pem").write_text("no certificate")
    assert "GATEWAY_TLS_CERT" in refused(Child(tmp_path, **certificate), "--port", "0")
