"""Anchors that are sent without being asked, to real files, sockets and servers."""

import asyncio
import json
import os
import socket
import stat
import threading

import nats
import pytest
from aiohttp import web

from interlock.log.checkpoint import Anchor, write_checkpoint
from interlock.log.signing import SigningKeyStore
from interlock.runtime import anchor_sender, anchor_sinks
from interlock.runtime.anchor_sender import AnchorSender, confirmed_anchors
from interlock.runtime.anchor_sinks import AnchorNotSent, FileSink, JournalSink, NatsSink, WebhookSink
from interlock.runtime.nats_transport import NatsServers
from interlock.wiring.projections import verify
from tests.escape.victim import new_session
from tests.harness.external_services import NatsServer
from tests.harness.log_capture import capture_logs
from tests.harness.store import StoreHarness
from tests.harness.tasks import until
from tests.integration.runtime.test_checkpointer import running


@pytest.fixture(autouse=True)
def is_quick(monkeypatch):
    monkeypatch.setattr(anchor_sender, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(anchor_sender, "RETRY_SECONDS", 0.02)


@pytest.fixture
def checkpoint(store, tmp_path):
    """Writes one, over something new."""

    async def write() -> Anchor:
        await new_session(store)
        anchor = await write_checkpoint(store.log, SigningKeyStore(tmp_path / "signing"))
        assert anchor is not None
        return anchor

    return write


def sender(store: StoreHarness, *sinks) -> AnchorSender:
    return AnchorSender(store.database, store.log, sinks)


def confirmed(store: StoreHarness) -> dict[str, Anchor]:
    with store.database.reading() as connection:
        return {name: each.anchor for name, each in confirmed_anchors(connection).items()}


def lines(path) -> list[Anchor]:
    return [Anchor.parse(json.loads(line)["anchor"]) for line in path.read_text().splitlines()]


async def test_a_file_gets_each_anchor_once_whichever_process_sends_it(store, tmp_path, checkpoint):
    path = tmp_path / "anchors.jsonl"
    first = await checkpoint()
    async with running(sender(store, FileSink(path))):
        await until(lambda: confirmed(store) == {f"file:{path}": first})
    async with running(sender(store, FileSink(path))):
        await asyncio.sleep(0.1)
        second = await checkpoint()
        await until(lambda: confirmed(store) == {f"file:{path}": second})
    assert lines(path) == [first, second]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with store.database.reading() as connection:
        assert verify(connection, anchors=lines(path)).ok


async def test_what_was_not_confirmed_is_sent_again_and_said_once(store, tmp_path, checkpoint):
    """The file is a symlink, which is refused, until the operator removes it."""
    path = tmp_path / "anchors.jsonl"
    path.symlink_to(tmp_path / "elsewhere")
    anchor = await checkpoint()
    with capture_logs() as logs:
        async with running(sender(store, FileSink(path))):
            await until(lambda: logs)
            await asyncio.sleep(0.1)
            path.unlink()
            await until(lambda: confirmed(store))
    assert [line["event"] for line in logs if "anchor" in line["event"]] == ["anchor_not_sent"]
    assert lines(path) == [anchor]
    assert not (tmp_path / "elsewhere").exists()


class Broken:
    """A sink whose library raises what nobody foresaw."""

    name = "https://broken.example/"

    async def send(self, _anchor: Anchor) -> None:
        raise UnicodeError("label too long")


async def test_an_unforeseen_error_of_one_sink_stops_no_other_and_not_the_process(
    store, tmp_path, checkpoint
):
    file = FileSink(tmp_path / "anchors")
    with capture_logs() as logs:
        async with running(sender(store, Broken(), file)) as (loop,):
            for _ in range(2):
                anchor = await checkpoint()
                await until(lambda anchor=anchor: confirmed(store) == {file.name: anchor})
            assert not loop.done()
    assert [line["error"] for line in logs if line["event"] == "anchor_not_sent"] == [
        "UnicodeError: label too long"
    ]


async def test_rows_of_the_wrong_shape_do_not_end_the_sender(sqlite_store, tmp_path):
    await new_session(sqlite_store)
    await write_checkpoint(sqlite_store.log, SigningKeyStore(tmp_path / "signing"))
    sqlite_store.execute("UPDATE events SET hash = 'text' WHERE kind = 'log.checkpoint'")
    with capture_logs() as logs:
        async with running(sender(sqlite_store, FileSink(tmp_path / "anchors"))) as (loop,):
            await until(lambda: logs)
            await asyncio.sleep(0.1)
            assert not loop.done()
    assert [line["event"] for line in logs] == ["anchors_not_sent"]


@pytest.mark.parametrize("has_reader", [False, True])
async def test_a_target_that_is_no_file_is_refused_at_once(store, tmp_path, checkpoint, has_reader):
    os.mkfifo(path := tmp_path / "pipe")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if has_reader else None
    await checkpoint()
    with capture_logs() as logs:
        await sender(store, FileSink(path)).finish()
    assert [line["event"] for line in logs if "anchor" in line["event"]] == ["anchor_not_sent"]
    if reader is not None:
        assert os.read(reader, 1) == b""
        os.close(reader)
    assert confirmed(store) == {}


async def test_a_file_that_hangs_holds_one_thread_and_not_one_for_each_try(tmp_path, monkeypatch):
    """As on a mount that does not answer."""
    freed, anchor = threading.Event(), Anchor("0" * 32, 1, bytes(32))
    monkeypatch.setattr(os, "fsync", lambda _descriptor: freed.wait(30))
    sink = FileSink(tmp_path / "anchors")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sink.send(anchor), 0.1)
    with pytest.raises(AnchorNotSent, match="has not ended"):
        await asyncio.wait_for(sink.send(anchor), 3)
    freed.set()


async def test_journald_gets_a_message_of_its_own_identifier(store, tmp_path, monkeypatch, checkpoint):
    address = str(tmp_path / "socket")
    monkeypatch.setattr(anchor_sinks, "JOURNAL_SOCKET", address)
    anchor = await checkpoint()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(address)
        await sender(store, JournalSink()).finish()
        fields = journal.recv(65536).decode().splitlines()
    assert fields == [f"MESSAGE={anchor}", "PRIORITY=6", "SYSLOG_IDENTIFIER=interlock-anchor"]
    assert confirmed(store) == {"journald": anchor}


class Receiver:
    """A webhook: responds with the given statuses, then with 204; 0 never responds."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.got: list[tuple[str, Anchor]] = []

    async def receive(self, request: web.Request) -> web.Response:
        status = self.statuses.pop(0) if self.statuses else 204
        self.got.append(
            (request.headers["Idempotency-Key"], Anchor.parse((await request.json())["anchor"]))
        )
        if not status:
            await asyncio.sleep(60)
        return web.Response(status=status, headers={"Location": "/elsewhere"} if status == 307 else {})


@pytest.fixture
async def listen():
    runners = []

    async def start(receiver: Receiver) -> WebhookSink:
        app = web.Application()
        app.router.add_post("/anchors", receiver.receive)
        runners.append(runner := web.AppRunner(app, handler_cancellation=True))
        await runner.setup()
        await (site := web.TCPSite(runner, "127.0.0.1", 0)).start()
        return WebhookSink(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/anchors")

    yield start
    for runner in runners:
        await runner.cleanup()


async def test_a_webhook_is_asked_again_until_it_confirms(store, listen, checkpoint):
    receiver = Receiver(500, 307)
    sink = await listen(receiver)
    anchor = await checkpoint()
    with capture_logs() as logs:
        async with running(sender(store, sink)):
            await until(lambda: confirmed(store) == {sink.name: anchor})
    assert receiver.got == [(anchor.text, anchor)] * 3
    told = [line["error"] for line in logs if line["event"] == "anchor_not_sent"]
    assert told == ["it responded with status 500", "it responded with status 307"]


async def test_a_sink_that_never_responds_keeps_no_other_waiting(
    store, listen, tmp_path, checkpoint, monkeypatch
):
    monkeypatch.setattr(anchor_sender, "SEND_SECONDS", 0.2)
    sinks = [await listen(Receiver(*[0] * 100)), FileSink(tmp_path / "anchors")]
    async with running(sender(store, *sinks)):
        for _ in range(2):
            anchor = await checkpoint()
            await until(lambda anchor=anchor: confirmed(store) == {sinks[1].name: anchor})


async def test_nats_stores_an_anchor_once_though_it_is_sent_twice(store, tmp_path, checkpoint):
    server = NatsServer(tmp_path / "nats").start()
    sink = NatsSink("proof.anchors", lambda: NatsServers([server.address], server.user, server.password))
    anchor = await checkpoint()
    try:
        with capture_logs() as logs:
            await sender(store, sink).finish()
        assert confirmed(store) == {}, "no stream stores this subject"
        assert [line["event"] for line in logs if "anchor" in line["event"]] == ["anchor_not_sent"]
        client = await nats.connect(server.address, user=server.user, password=server.password)
        stream = client.jetstream()
        await stream.add_stream(name="ANCHORS", subjects=["proof.anchors"])
        await sender(store, sink).finish()
        assert confirmed(store) == {sink.name: anchor}
        # As after a crash between the two.
        store.execute("DELETE FROM store_info WHERE key <> 'store_id'")
        await sender(store, sink).finish()
        assert (await stream.stream_info("ANCHORS")).state.messages == 1
        kept = await stream.get_last_msg("ANCHORS", "proof.anchors")
        assert Anchor.parse(json.loads(kept.data)["anchor"]) == anchor
        await client.close()
    finally:
        server.stop()
