"""The configuration for NATS that operators are given, on a real server: enough for Interlock, no more."""

import socket
import subprocess
import time
from pathlib import Path

import nats
import pytest

from interlock.runtime.bus import CancelRequested, TextAppended, WorkAvailable
from interlock.runtime.nats_transport import NatsServers, NatsTransport, check_nats_servers
from tests.harness.external_services import NATS_PROGRAM
from tests.harness.tasks import until
from tests.integration.runtime.test_nats_wire import Station, on_air

GIVEN = Path(__file__).parents[3] / "deploy" / "compose" / "nats.conf"
PASSWORD = "a-password-of-the-test"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port(tmp_path):
    port = free_port()
    text = GIVEN.read_text().replace("/data", str(tmp_path / "data")).replace("4222", str(port))
    (tmp_path / "nats.conf").write_text(text.replace("0.0.0.0", "127.0.0.1"))
    (tmp_path / "nats_password").write_text(f'NATS_PASSWORD: "{PASSWORD}"\n')
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([NATS_PROGRAM, "-c", tmp_path / "nats.conf"], stdout=log, stderr=log)
    deadline = time.monotonic() + 20
    while not answers(port) and time.monotonic() < deadline:
        assert server.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.02)
    yield port
    server.terminate()
    server.wait()


def servers(port, password=PASSWORD):
    return NatsServers([f"nats://127.0.0.1:{port}"], "interlock", password)


class Ours(Station):
    """With the prefix that the permissions are for."""

    def __init__(self, port, *, room=0):
        self.bus = NatsTransport(servers(port), "interlock")
        self.heard = []
        self.room = room


async def test_rings_and_running_answers_go_over_it(port):
    gateway, worker = Ours(port), Ours(port, room=1)
    assert await check_nats_servers(servers(port), "interlock") == ""
    async with on_air(gateway, worker):
        gateway.bus.watch("s_1")
        gateway.bus.send(WorkAvailable("s_1"))
        await until(lambda: worker.of(WorkAvailable) == [WorkAvailable("s_1")])
        gateway.bus.send(CancelRequested("s_1"))
        await until(lambda: worker.of(CancelRequested) == [CancelRequested("s_1")])
        piece = TextAppended("s_1", "t_1", 1, 0, "Hello")

        async def told():
            worker.bus.send(piece)
            return bool(gateway.of(TextAppended))

        await until(told)


@pytest.mark.parametrize("password", ["wrong-password", ""])
async def test_nobody_comes_in_without_the_password(port, password):
    assert (
        "authorization violation"
        in (await check_nats_servers(servers(port, password), "interlock")).lower()
    )


@pytest.mark.parametrize(
    "subject", ["other.work.s_1", "$JS.API.STREAM.CREATE.other", "$SYS.REQ.SERVER.PING"]
)
async def test_what_is_not_interlocks_is_out_of_reach(port, subject):
    refused = []

    async def hear(error):
        refused.append(str(error))

    client = await nats.connect(
        f"nats://127.0.0.1:{port}", user="interlock", password=PASSWORD, error_cb=hear
    )
    await client.publish(subject, b"{}")
    await client.flush()
    await until(lambda: refused)
    assert "permissions violation" in refused[0].lower()
    await client.close()
