"""The wire between machines, over a real NATS server that comes and goes."""

import asyncio
from contextlib import asynccontextmanager, suppress

import nats
import nats.js.errors
import pytest

from interlock.runtime.bus import (
    CancelRequested,
    LogAppended,
    ResyncRequested,
    TextAppended,
    WorkAvailable,
    encode_message,
)
from interlock.runtime.nats_transport import CONSUMER, NatsServers, NatsTransport, check_nats_servers
from tests.harness.external_services import NatsServer
from tests.harness.log_capture import capture_logs
from tests.harness.tasks import until


@pytest.fixture
def server(tmp_path):
    made = NatsServer(tmp_path / "nats").start()
    yield made
    made.stop()


class Station:
    def __init__(self, server, *, room=0, password=None):
        servers = NatsServers([server.address], server.user, password or server.password)
        self.bus = NatsTransport(servers, "test")
        self.heard = []
        self.room = room

    def has_room(self):
        return len(self.of(WorkAvailable)) < self.room

    async def on(self):
        await self.bus.run(self.heard.append, self.has_room)

    def of(self, kind):
        return [signal for signal in self.heard if isinstance(signal, kind)]


@asynccontextmanager
async def on_air(*stations):
    tasks = [asyncio.create_task(station.on()) for station in stations]
    try:
        for station in stations:
            await until(lambda station=station: station.bus.is_connected)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def looking(server):
    """A client of its own, to look at what the server has."""
    client = await nats.connect(server.address, user=server.user, password=server.password)
    try:
        yield client.jetstream()
    finally:
        await client.close()


async def queue_is_open(server):
    async with looking(server) as stream:
        with suppress(nats.js.errors.NotFoundError):
            await stream.consumer_info("test-work", CONSUMER)
            return True
    return False


async def opened(server):
    while not await queue_is_open(server):
        await asyncio.sleep(0.05)


async def test_each_ring_is_taken_by_one_worker_that_has_room(server):
    gateway, one, other = Station(server), Station(server, room=99), Station(server, room=99)
    async with on_air(gateway, one, other):
        await opened(server)
        wanted = {f"s_{number}" for number in range(20)}
        for session in wanted:
            gateway.bus.send(WorkAvailable(session))
        await until(lambda: len(one.heard) + len(other.heard) >= 20)
        heard = [signal.session_id for signal in [*one.heard, *other.heard]]
        assert sorted(heard) == sorted(wanted)
        assert gateway.heard == []


async def test_who_has_no_room_leaves_the_ring_to_another(server):
    gateway, full, free = Station(server), Station(server, room=2), Station(server)
    async with on_air(gateway, full, free):
        await opened(server)
        for number in range(5):
            gateway.bus.send(WorkAvailable(f"s_{number}"))
        await until(lambda: len(full.heard) == 2)
        await asyncio.sleep(0.2)
        assert len(full.heard) == 2
        free.room = 3
        await until(lambda: len(free.heard) == 3)
        assert len({signal.session_id for signal in [*full.heard, *free.heard]}) == 5


async def test_rings_that_wait_outlive_the_server_and_those_for_one_session_are_one(server):
    gateway, worker = Station(server), Station(server)
    async with on_air(gateway, worker):
        worker.room = 1
        await opened(server)
        gateway.bus.send(WorkAvailable("s_first"))
        await until(lambda: worker.heard == [WorkAvailable("s_first")])
        for _ in range(3):
            gateway.bus.send(WorkAvailable("s_waits"))
            await asyncio.sleep(0.05)
        async with looking(server) as stream:
            await until_async(lambda: waiting(stream), 1)
        server.stop()
        await until(lambda: not gateway.bus.is_connected and not worker.bus.is_connected)
        server.start()
        worker.room = 2
        await until(
            lambda: worker.heard == [WorkAvailable("s_first"), WorkAvailable("s_waits")], seconds=20
        )
        await asyncio.sleep(0.2)
        assert len(worker.heard) == 2


async def waiting(stream):
    return (await stream.stream_info("test-work")).state.messages


async def until_async(read, value):
    for _ in range(200):
        if await read() == value:
            return
        await asyncio.sleep(0.02)
    assert await read() == value


async def test_when_its_storage_is_gone_the_queue_is_made_again(server):
    gateway, worker = Station(server), Station(server, room=99)
    async with on_air(gateway, worker):
        await opened(server)
        server.stop()
        server.wipe()
        server.start()
        await until(lambda: gateway.bus.is_connected and worker.bus.is_connected, seconds=20)
        async with asyncio.timeout(20):
            await opened(server)
        gateway.bus.send(WorkAvailable("s_after"))
        await until(lambda: bool(worker.heard))
        assert worker.heard == [WorkAvailable("s_after")]


async def test_a_queue_that_somebody_deletes_is_made_again(server):
    gateway, worker = Station(server), Station(server, room=99)
    async with on_air(gateway, worker):
        await opened(server)
        async with looking(server) as stream:
            await stream.delete_stream("test-work")
        async with asyncio.timeout(20):
            await opened(server)
        gateway.bus.send(WorkAvailable("s_after"))
        await until(lambda: bool(worker.heard))
        assert worker.heard == [WorkAvailable("s_after")]


async def test_a_server_that_comes_later_is_found(tmp_path):
    server = NatsServer(tmp_path / "nats")
    gateway, worker = Station(server), Station(server, room=9)
    tasks = [asyncio.create_task(station.on()) for station in (gateway, worker)]
    try:
        await asyncio.sleep(0.3)
        gateway.bus.send(WorkAvailable("s_lost"))
        assert not gateway.bus.is_connected
        server.start()
        await until(lambda: gateway.bus.is_connected and worker.bus.is_connected, seconds=20)
        await opened(server)
        gateway.bus.send(WorkAvailable("s_1"))
        await until(lambda: worker.heard == [WorkAvailable("s_1")])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.stop()


async def test_only_who_watches_hears_a_running_answer_and_is_told_it_whole(server):
    worker, page, other = Station(server), Station(server), Station(server)
    async with on_air(worker, page, other):
        page.bus.watch("s_1")
        await until(lambda: worker.of(ResyncRequested) == [ResyncRequested("s_1")])
        signals = [
            TextAppended("s_1", "t", 1, 0, "Hel"),
            TextAppended("s_1", "t", 1, 3, "lo 文"),
        ]
        for signal in [*signals, LogAppended("s_1")]:
            worker.bus.send(signal)
        worker.bus.send(TextAppended("s_2", "t", 1, 0, "elsewhere"))
        await until(lambda: len(page.heard) == 2)
        assert page.heard == [TextAppended("s_1", "t", 1, 0, "Hello 文"), LogAppended("s_1")]
        assert other.of(TextAppended) == []
        page.bus.unwatch("s_1")
        await asyncio.sleep(0.2)
        worker.bus.send(TextAppended("s_1", "t", 2, 0, "later"))
        await asyncio.sleep(0.2)
        assert len(page.heard) == 2


async def test_a_watch_lasts_through_a_restart_and_asks_again(server):
    worker, page = Station(server), Station(server)
    async with on_air(worker, page):
        page.bus.watch("s_1")
        await until(lambda: bool(worker.of(ResyncRequested)))
        server.stop()
        await until(lambda: not page.bus.is_connected and not worker.bus.is_connected)
        page.bus.watch("s_2")
        server.start()
        await until(lambda: page.bus.is_connected and worker.bus.is_connected, seconds=20)

        def is_heard():
            for session in ("s_1", "s_2"):
                worker.bus.send(TextAppended(session, "t", 1, 0, "again"))
            return {piece.session_id for piece in page.of(TextAppended)} == {"s_1", "s_2"}

        await until(is_heard, seconds=20)
        assert {piece.text for piece in page.of(TextAppended)} == {"again"}


async def test_an_answer_beyond_a_messages_size_comes_in_parts(server):
    worker, page = Station(server), Station(server)
    async with on_air(worker, page):
        page.bus.watch("s_1")
        await until(lambda: bool(worker.of(ResyncRequested)))
        text = "文\x00\n" * 400_000
        worker.bus.send(TextAppended("s_1", "t", 1, 0, text))
        await until(lambda: sum(len(piece.text) for piece in page.of(TextAppended)) == len(text))
        assert "".join(piece.text for piece in page.of(TextAppended)) == text
        assert [piece.offset for piece in page.of(TextAppended)][:2] == [0, 100_000]


async def test_a_cancel_reaches_all_but_the_one_who_says_it(server):
    one, two, three = (Station(server) for _ in range(3))
    async with on_air(one, two, three):
        one.bus.send(CancelRequested("s_1"))
        await until(lambda: two.heard == [CancelRequested("s_1")] == three.heard)
        assert one.heard == []


@pytest.mark.parametrize("session", ["a.b", "*", ">", "a b", "", "ä"])
async def test_what_cannot_be_a_subject_is_not_said(server, session):
    one, two = Station(server), Station(server, room=9)
    async with on_air(one, two):
        await opened(server)
        one.bus.watch(session)
        one.bus.send(WorkAvailable(session))
        one.bus.send(CancelRequested(session))
        one.bus.send(CancelRequested("s_after"))
        await until(lambda: bool(two.heard))
        assert two.heard == [CancelRequested("s_after")]


@pytest.mark.parametrize(
    "garbage", [b"", b"\xff", b"[]", b'["cancel", 1]', encode_message(CancelRequested("s_2"))]
)
async def test_garbage_on_its_subjects_is_passed_over(server, garbage):
    station = Station(server)
    async with on_air(station):
        client = await nats.connect(server.address, user=server.user, password=server.password)
        # The server has the subscription some time after the client.
        await asyncio.sleep(0.1)
        await client.publish("test.cancel.s_1", garbage)
        await client.publish("test.cancel.s_1", encode_message(CancelRequested("s_1")))
        await client.flush()
        await client.close()
        await until(lambda: bool(station.heard))
        assert station.heard == [CancelRequested("s_1")]


async def test_a_wrong_password_is_told_once_and_tried_on(server):
    wrong = Station(server, password="wrong")
    with capture_logs() as told:
        task = asyncio.create_task(wrong.on())
        try:
            await until(lambda: len(told) >= 2)
            assert not task.done()
            assert not wrong.bus.is_connected
        finally:
            task.cancel()
            await asyncio.wait({task})
    warnings = [line["error"] for line in told if line["log_level"] == "warning"]
    assert len(warnings) == 1
    assert "Authorization Violation" in warnings[0]


async def test_it_ends_at_once_while_the_server_does_not_answer(server):
    station = Station(server, room=1)
    task = asyncio.create_task(station.on())
    await until(lambda: station.bus.is_connected)
    await opened(server)
    server.freeze()
    try:
        for number in range(1000):
            station.bus.send(TextAppended("s_1", "t", number, 0, "x" * 10_000))
        await asyncio.sleep(0.2)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=10)
        assert done
    finally:
        server.thaw()
        # What was already under way is written now, and the connection ends.
        await asyncio.sleep(0.3)


async def test_trying_it_out_says_what_is_wrong(server):
    servers = NatsServers([server.address], server.user, server.password)
    assert await check_nats_servers(servers, "test") == ""
    assert await queue_is_open(server)
    wrong = NatsServers([server.address], server.user, "wrong")
    assert "Authorization Violation" in await check_nats_servers(wrong, "test")
    server.stop()
    assert "Connect call failed" in await check_nats_servers(servers, "test")


@pytest.mark.parametrize("status", ["abc", "503", "100"])
async def test_an_odd_message_in_the_queue_ends_nothing(server, status):
    """A peer that writes what the client takes for the server's own words."""
    gateway, worker = Station(server), Station(server, room=99)
    async with on_air(gateway, worker):
        await opened(server)
        client = await nats.connect(server.address, user=server.user, password=server.password)
        await client.publish("test.work.s_odd", b"", headers={"Status": status})
        await client.flush()
        await client.close()
        await asyncio.sleep(0.3)
        gateway.bus.send(WorkAvailable("s_after"))
        await until(lambda: WorkAvailable("s_after") in worker.heard, seconds=20)
        assert {ring.session_id for ring in worker.heard} <= {"s_odd", "s_after"}
