"""The wire between processes of one machine: everybody hears everybody, whoever comes and goes."""

import asyncio
import stat
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.runtime.bus import (
    CancelRequested,
    LogAppended,
    ResyncRequested,
    SessionChanged,
    TextAppended,
    WorkAvailable,
)
from interlock.runtime.unix_socket_transport import (
    LOCK,
    MAX_LINE_BYTES,
    RETRY_SECONDS,
    SOCKET,
    UnixSocketTransport,
    _Peer,
)
from tests.harness.log_capture import capture_logs
from tests.harness.tasks import until

SPEAKER = """
import asyncio, sys
from pathlib import Path
from interlock.runtime.unix_socket_transport import UnixSocketTransport
from interlock.runtime.bus import WorkAvailable

async def main():
    wire = UnixSocketTransport(Path(sys.argv[1]))
    hear = lambda signal: print(signal.session_id, flush=True)
    running = asyncio.create_task(wire.run(hear, lambda: True))
    while not wire.is_connected:
        await asyncio.sleep(0.01)
    print("host" if wire.is_host else "joined", flush=True)
    wire.send(WorkAvailable("from-" + sys.argv[2]))
    await asyncio.sleep(60)

asyncio.run(main())
"""


class Station:
    def __init__(self, folder):
        self.bus = UnixSocketTransport(folder)
        self.heard = []

    async def on(self):
        await self.bus.run(self.heard.append, lambda: True)


@asynccontextmanager
async def stations(folder, count):
    made = [Station(folder) for _ in range(count)]
    tasks = []
    for station in made:
        tasks.append(asyncio.create_task(station.on()))
        await until(lambda station=station: station.bus.is_connected)
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_folder_that_nobody_has_made_yet_is_made_for_its_owner_alone(tmp_path):
    """The store may be elsewhere: then nobody else makes it."""
    folder = tmp_path / "not" / "there"
    async with stations(folder, 2) as (host, other):
        other.bus.send(WorkAvailable("s"))
        await until(lambda: host.heard == [WorkAvailable("s")])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_everybody_hears_everybody_but_themselves(tmp_path):
    async with stations(tmp_path, 3) as (host, one, other):
        assert [host.bus.is_host, one.bus.is_host, other.bus.is_host] == [True, False, False]
        await until(lambda: len(host.bus._ends) == 2)
        signals = [
            WorkAvailable("s"),
            TextAppended("s", "t", 1, 0, 'two\nlines "quoted" 文'),
            ResyncRequested("s"),
            CancelRequested("s"),
            LogAppended("s"),
            SessionChanged("s", 7),
        ]
        for speaker in (host, one, other):
            for signal in signals:
                speaker.bus.send(signal)
            for listener in {host, one, other} - {speaker}:
                await until(lambda listener=listener: len(listener.heard) >= len(signals))
                assert listener.heard == signals
                listener.heard.clear()
            assert speaker.heard == []


async def test_only_the_owner_can_reach_it(tmp_path):
    async with stations(tmp_path, 1):
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
    assert not (tmp_path / SOCKET).exists()


async def test_a_folder_that_lies_deep_is_no_trouble(tmp_path):
    deep = tmp_path / ("long" * 20) / ("name" * 20)
    deep.mkdir(parents=True)
    async with stations(deep, 2) as (host, one):
        one.bus.send(WorkAvailable("s"))
        await until(lambda: bool(host.heard))
        assert host.heard == [WorkAvailable("s")]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"[]\n",
        b'["work"]\n',
        b"{}\n",
        b'["odd", 1]\n',
        b'["work", 1]\n',
        b'["text", "s", "t", "1", 0, "x"]\n',
        b"\xff\n",
        b'["work", ""]\n',
        b'["work", "s\\u0000"]\n',
        b'["work", "' + b"s" * 65 + b'"]\n',
        b'["work", "s s"]\n',
        b'["text", "s", "t\\u202e", 1, 0, "x"]\n',
        b'["text", "s", "t", 1, -1, "x"]\n',
        b'["text", "s", "t", true, 0, "x"]\n',
        b'["session", "s", -1]\n',
        pytest.param(b"[" * 100_000 + b"\n", id="deep"),
    ],
)
async def test_what_is_no_signal_is_passed_over(tmp_path, garbage):
    async with stations(tmp_path, 2) as (host, one):
        end = next(iter(one.bus._ends))
        end.write(garbage)
        one.bus.send(WorkAvailable("after"))
        await until(lambda: bool(host.heard))
        assert host.heard == [WorkAvailable("after")]


async def test_a_line_without_an_end_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr("interlock.runtime.unix_socket_transport.MAX_LINE_BYTES", 1000)
    async with stations(tmp_path, 2) as (host, one):
        await until(lambda: bool(host.bus._ends))
        cut = set(host.bus._ends)
        next(iter(one.bus._ends)).write(b"x" * 5000)
        # It comes back by itself.
        await until(lambda: bool(host.bus._ends) and not host.bus._ends & cut)
        assert len(host.bus._ends) == 1
        one.bus.send(WorkAvailable("again"))
        await until(lambda: bool(host.heard))
        assert host.heard == [WorkAvailable("again")]


async def test_a_line_that_comes_byte_by_byte_keeps_nobody_waiting(tmp_path):
    """Looking through what is there for each byte would take minutes, of everything this process does."""
    bus = UnixSocketTransport(tmp_path)
    heard = []
    bus._receive = heard.append
    end = _Peer(bus)
    began = time.process_time()
    for _ in range(MAX_LINE_BYTES // 16):
        end.data_received(b"x")
    assert time.process_time() - began < 3
    end.data_received(b'\n["work", "s"]\n["wo')
    end.data_received(b'rk", "t"]\n')
    assert heard == [WorkAvailable("s"), WorkAvailable("t")]


async def test_a_switchboard_that_sends_everybody_away_is_not_asked_without_a_pause(tmp_path):
    came = 0

    def send_away(_reader, writer):
        nonlocal came
        came += 1
        writer.close()

    server = await asyncio.start_unix_server(send_away, tmp_path / SOCKET)
    running = asyncio.create_task(UnixSocketTransport(tmp_path).run(lambda _signal: None, lambda: True))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    server.close()
    await server.wait_closed()
    assert 1 <= came <= 2 / RETRY_SECONDS


async def test_a_lock_that_leads_elsewhere_is_not_followed_and_told_once(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / LOCK).symlink_to(tmp_path / "elsewhere")
    running = asyncio.create_task(
        (bus := UnixSocketTransport(folder)).run(lambda _signal: None, lambda: True)
    )
    with capture_logs() as logs:
        await until(lambda: len(logs) >= 3)
        assert not bus.is_connected
        assert not (tmp_path / "elsewhere").exists()
        # It was tried several times, and told once.
        assert [line["log_level"] for line in logs[:3]] == ["warning", "debug", "debug"]
        # Once it was there in between, it is news again.
        came = asyncio.Event()
        server = await asyncio.start_unix_server(lambda _, end: (came.set(), end.close()), folder / SOCKET)
        await asyncio.wait_for(came.wait(), 30)
        server.close()
        await server.wait_closed()
        await until(lambda: any(line["log_level"] == "warning" for line in logs[3:]))
    (folder / LOCK).unlink()
    await until(lambda: bus.is_host)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_when_the_host_is_killed_another_takes_its_place(tmp_path):
    """Real processes: the first holds the switchboard and dies; what is said afterwards is still heard."""

    def speaker(name):
        command = [sys.executable, "-c", SPEAKER, str(tmp_path), name]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    host = speaker("host")
    try:
        assert host.stdout.readline() == "host\n"
        async with stations(tmp_path, 2) as (one, other):
            host.kill()
            host.wait()
            await until(lambda: one.bus.is_host or other.bus.is_host)
            await until(lambda: one.bus.is_connected and other.bus.is_connected)
            await until(lambda: bool(one.bus._ends and other.bus._ends))
            one.bus.send(WorkAvailable("still"))
            await until(lambda: other.heard == [WorkAvailable("still")])
            late = await asyncio.to_thread(speaker, "late")
            try:
                await until(
                    lambda: (
                        WorkAvailable("from-late") in one.heard
                        and WorkAvailable("from-late") in other.heard
                    )
                )
            finally:
                late.kill()
                late.wait()
                late.stdout.close()
    finally:
        host.kill()
        host.wait()
        host.stdout.close()


def open_sockets():
    return sorted(fd.name for fd in Path("/proc/self/fd").iterdir() if fd.is_socket())


async def test_a_switchboard_that_cannot_be_opened_leaves_no_socket(tmp_path):
    (tmp_path / SOCKET).mkdir()
    before = open_sockets()
    # The exception keeps the frames that it passed, and what they held.
    with pytest.raises(OSError) as failed:  # noqa: PT011 - what it is differs with the file system
        await UnixSocketTransport(tmp_path)._host()
    assert open_sockets() == before
    assert failed.value.filename


@pytest.mark.parametrize("steps", range(4))
async def test_a_switchboard_that_is_told_to_end_while_it_opens_leaves_no_socket(tmp_path, steps):
    before = open_sockets()
    hosting = asyncio.create_task(UnixSocketTransport(tmp_path)._host())
    for _ in range(steps):
        await asyncio.sleep(0)
    hosting.cancel()
    await asyncio.gather(hosting, return_exceptions=True)
    await asyncio.sleep(0)
    assert open_sockets() == before
    assert not (tmp_path / SOCKET).exists()
