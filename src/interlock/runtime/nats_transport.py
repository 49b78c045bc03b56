"""Carries messages between machines: a NATS server, whose JetStream keeps them for workers with room.

A notification goes into a work queue and to one worker, which acknowledges it at once: leases and rows
decide whether the session is worked on, and polling finds what is lost. Text goes over plain subjects to
the processes that watch the session, batched every few milliseconds. While the server is unavailable,
nothing is sent or kept.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from interlock.core.logging import StructuredLogger
from interlock.runtime.bus import (
    BusMessage,
    CancelRequested,
    MessageHandler,
    ResyncRequested,
    SessionChanged,
    TextAppended,
    WorkAvailable,
    decode_message,
    encode_message,
)
from interlock.runtime.send_buffer import SendBuffer

_log = StructuredLogger(__name__)

CONSUMER = "workers"
RETRY_SECONDS = 1.0
CONNECT_SECONDS = 3
# A notification this old is obsolete: polling has found the work.
RING_SECONDS = 3600
TAKE_SECONDS = 5.0
# The delay while there is no room.
ROOM_SECONDS = 0.05
ACK_SECONDS = 10
# Deltas within this time are sent in one message.
GATHER_SECONDS = 0.02
# Unsent bytes after which this process stops sending to a server that does not keep up.
MAX_UNSAID_BYTES = 4 * 1024 * 1024
# A gateway that does not keep up loses deltas, and asks for the whole text.
MAX_UNREAD, MAX_UNREAD_BYTES = 4096, 8 * 1024 * 1024

SUBJECTS: dict[type[BusMessage], str] = {
    WorkAvailable: "work",
    CancelRequested: "cancel",
    ResyncRequested: "resync",
    SessionChanged: "session",
}
_SUBJECT_TOKEN = re.compile("[A-Za-z0-9_-]+")
_FAULTS = (nats.errors.Error, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class NatsServers:
    """The servers of one cluster, and their credentials."""

    addresses: Sequence[str]
    user: str
    password: str = field(repr=False)
    tls: ssl.SSLContext | None = None

    async def connect(self, client: Client, *, name: str, **more: Any) -> None:
        await client.connect(
            list(self.addresses),
            name=name,
            user=self.user,
            password=self.password,
            tls=self.tls,
            connect_timeout=CONNECT_SECONDS,
            **more,
        )


async def check_nats_servers(servers: NatsServers, prefix: str) -> str:
    """What is wrong with these servers; empty if they can be used."""
    client, faults = Client(), []

    async def keep(error: Exception) -> None:
        faults.append(error)

    try:
        await servers.connect(
            client, name="interlock doctor", error_cb=keep, max_reconnect_attempts=1, reconnect_time_wait=0
        )
        await NatsTransport(servers, prefix).open_queue(client.jetstream(timeout=CONNECT_SECONDS))
    except _FAULTS as error:
        told = faults[0] if faults else error
        return str(told) or type(told).__name__
    finally:
        with suppress(*_FAULTS):
            await client.close()
    return ""


class NatsTransport:
    def __init__(self, servers: NatsServers, prefix: str) -> None:
        self._servers = servers
        self._prefix = prefix
        self._stream = f"{prefix}-work"
        self._outgoing: SendBuffer[Subscription] = SendBuffer()
        self._watched: dict[str, Subscription | None] = {}
        self._watches_changes = False
        self._client: Client | None = None
        self._receive: MessageHandler = lambda _message: None
        self._is_outage_logged = False

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def has_others(self) -> bool:
        return self.is_connected

    def send(self, message: BusMessage) -> None:
        if self.is_connected and _SUBJECT_TOKEN.fullmatch(message.session_id):
            self._outgoing.put(message)

    def watch(self, session_id: str) -> None:
        if _SUBJECT_TOKEN.fullmatch(session_id):
            self._watched.setdefault(session_id, None)
            self._outgoing.put(ResyncRequested(session_id))

    def watch_changes(self) -> None:
        self._watches_changes = True

    def unwatch(self, session_id: str) -> None:
        subscription = self._watched.pop(session_id, None)
        if subscription is not None:
            self._outgoing.let_go(subscription)

    async def run(self, receive: MessageHandler, has_room: Callable[[], bool]) -> None:
        self._receive = receive
        while True:
            try:
                await self._one_connection(has_room)
            except Exception as error:  # noqa: BLE001 - whatever a server or a peer sends, the next try may go well
                self._log_outage(error)
            await asyncio.sleep(RETRY_SECONDS)

    # -- connection --

    async def _one_connection(self, has_room: Callable[[], bool]) -> None:
        closed = asyncio.Event()
        client = Client()
        await self._servers.connect(
            client,
            name="interlock",
            error_cb=self._faulty,
            disconnected_cb=self._lost,
            reconnected_cb=self._found,
            closed_cb=_setting(closed),
            reconnect_time_wait=1,
            max_reconnect_attempts=-1,
            ping_interval=5,
            max_outstanding_pings=2,
            pending_size=MAX_UNSAID_BYTES,
            no_echo=True,
        )
        try:
            await self._subscribe(client)
            # The server must have all subscriptions before this process announces that it listens.
            await client.flush(CONNECT_SECONDS)
            self._client = client
            self._connected()
            await _first_of(self._say(client), self._take(client, has_room), closed.wait())
        finally:
            self._client = None
            self._watched = dict.fromkeys(self._watched)
            with suppress(*_FAULTS):
                await asyncio.wait_for(client.close(), CONNECT_SECONDS)

    async def _subscribe(self, client: Client) -> None:
        changes = [SessionChanged] if self._watches_changes else []
        for kind in (CancelRequested, ResyncRequested, *changes):
            await self._listen(client, self._subject(kind, "*"))
        for session_id in self._watched:
            self._outgoing.put(ResyncRequested(session_id))

    async def _listen(self, client: Client, subject: str) -> Subscription:
        return await client.subscribe(
            subject,
            cb=self._on_message,
            pending_msgs_limit=MAX_UNREAD,
            pending_bytes_limit=MAX_UNREAD_BYTES,
        )

    async def _on_message(self, received: Msg) -> None:
        message = decode_message(received.data)
        if message is not None and received.subject.endswith(f".{message.session_id}"):
            self._receive(message)

    # -- sending --

    async def _say(self, client: Client) -> None:
        while not _is_cancelled():
            messages, released = await self._outgoing.next()
            if client.is_connected:
                with suppress(*_FAULTS):
                    await self._say_all(client, messages, released)
            await asyncio.sleep(GATHER_SECONDS if self._outgoing.is_busy else 0)

    async def _say_all(
        self, client: Client, messages: Iterable[BusMessage], released: Iterable[Subscription]
    ) -> None:
        for subscription in released:
            await subscription.unsubscribe()
        for message in messages:
            if _is_cancelled():
                return
            await self._say_one(client, message)

    async def _say_one(self, client: Client, message: BusMessage) -> None:
        session_id = message.session_id
        # A watch begins by requesting the whole text: the subscription must exist by then.
        if isinstance(message, ResyncRequested) and self._watched.get(session_id, client) is None:
            subscription = await self._listen(client, self._subject(TextAppended, session_id))
            if session_id not in self._watched:
                await subscription.unsubscribe()
                return
            self._watched[session_id] = subscription
        await client.publish(self._subject(type(message), session_id), encode_message(message))

    def _subject(self, kind: type[BusMessage], session_id: str) -> str:
        return f"{self._prefix}.{SUBJECTS.get(kind, 'live')}.{session_id}"

    # -- taking notifications, one at a time, while there is room --

    async def _take(self, client: Client, has_room: Callable[[], bool]) -> None:
        stream = client.jetstream(timeout=CONNECT_SECONDS)
        rings: JetStreamContext.PullSubscription | None = None
        while True:
            # Requests made while the server is unavailable would all be answered at once later.
            if not has_room() or not client.is_connected:
                await asyncio.sleep(ROOM_SECONDS)
                continue
            try:
                if rings is None:
                    rings = await self.open_queue(stream)
                [message] = await rings.fetch(1, timeout=TAKE_SECONDS)
                await self._take_one(message, has_room)
            except nats.errors.TimeoutError:
                # No work; or the queue was lost with the server's storage.
                if not await self._queue_is_there(stream):
                    await _give_up(rings)
                    rings = None
            except Exception as error:  # noqa: BLE001 - also what the client makes of an odd message
                self._log_outage(error)
                await _give_up(rings)
                rings = None
                await asyncio.sleep(RETRY_SECONDS)

    async def _take_one(self, message: Msg, has_room: Callable[[], bool]) -> None:
        if not has_room():
            await message.nak()
            return
        await message.ack()
        session_id = message.subject.rpartition(".")[2]
        self._receive(WorkAvailable(session_id))

    async def open_queue(self, stream: JetStreamContext) -> JetStreamContext.PullSubscription:
        await stream.add_stream(
            StreamConfig(
                name=self._stream,
                subjects=[f"{self._prefix}.work.*"],
                retention=RetentionPolicy.WORK_QUEUE,
                storage=StorageType.FILE,
                max_age=RING_SECONDS,
                # Repeated notifications of one session are kept once.
                max_msgs_per_subject=1,
            )
        )
        await stream.add_consumer(
            self._stream,
            ConsumerConfig(
                durable_name=CONSUMER,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=ACK_SECONDS,
                # Do not redeliver forever; polling finds the session.
                max_deliver=5,
            ),
        )
        return await stream.pull_subscribe_bind(CONSUMER, self._stream)

    async def _queue_is_there(self, stream: JetStreamContext) -> bool:
        try:
            await stream.consumer_info(self._stream, CONSUMER)
        except nats.js.errors.NotFoundError:
            return False
        except _FAULTS:
            # Unknown for now; it is checked again.
            return True
        return True

    # -- connection callbacks; none may raise --

    async def _faulty(self, error: Exception) -> None:
        self._log_outage(error)

    async def _lost(self) -> None:
        # Unless this process closes it.
        if self._client is not None:
            self._log_outage("the connection was lost")

    async def _found(self) -> None:
        self._connected()
        for session_id in self._watched:
            self._outgoing.put(ResyncRequested(session_id))

    def _connected(self) -> None:
        if self._is_outage_logged:
            _log.warning("nats_is_back")
            self._is_outage_logged = False

    def _log_outage(self, error: object) -> None:
        """Log an outage once: the connection is retried every second."""
        level = _log.debug if self._is_outage_logged else _log.warning
        level("nats_is_away", error=str(error) or type(error).__name__)
        self._is_outage_logged = True


def _is_cancelled() -> bool:
    """The client swallows a cancellation while it waits for a server that does not read."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _setting(event: asyncio.Event) -> Callable[[], Coroutine[Any, Any, None]]:
    async def call() -> None:
        event.set()

    return call


async def _give_up(rings: JetStreamContext.PullSubscription | None) -> None:
    if rings is not None:
        with suppress(*_FAULTS):
            await rings.unsubscribe()


async def _first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Run until one of them ends, then cancel the others."""
    running = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            work.result()
    finally:
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)
