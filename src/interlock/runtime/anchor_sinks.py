"""Where anchors are sent: an append-only file, journald, a webhook, NATS JetStream.

An anchor is public and recognised by its signature, so a sink needs no secret. It may arrive twice.
"""

import os
import socket
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from interlock.core.errors import InterlockError
from interlock.core.files import fsync_path
from interlock.core.threads import DaemonThreadPool
from interlock.log.checkpoint import Anchor

if TYPE_CHECKING:
    from interlock.runtime.nats_transport import NatsServers

JOURNAL_SOCKET = "/run/systemd/journal/socket"
JOURNAL_IDENTIFIER = "interlock-anchor"


class AnchorNotSent(InterlockError):
    """The sink did not confirm the anchor; it is sent again."""

    code = "ANCHOR_NOT_SENT"


class AnchorSink(Protocol):
    # As EVENT_ANCHORS has it.
    @property
    def name(self) -> str: ...

    async def send(self, anchor: Anchor) -> None:
        """Returns when the sink has confirmed it. Raises `AnchorNotSent`."""


class FileSink:
    """Appends a JSON line; it is on disk when `send` returns."""

    def __init__(self, path: Path) -> None:
        self.name = f"file:{path}"
        self._path = path
        self._writing = threading.Lock()

    async def send(self, anchor: Anchor) -> None:
        await _in_thread(lambda: self._append(_as_json(anchor) + b"\n"))

    def _append(self, line: bytes) -> None:
        # On a mount that hangs, each try would hold one more thread.
        if not self._writing.acquire(blocking=False):
            raise OSError("the write before has not ended")
        try:
            self._append_alone(line)
        finally:
            self._writing.release()

    def _append_alone(self, line: bytes) -> None:
        is_new = not self._path.exists()
        # O_NONBLOCK: opening a pipe would wait for its reader.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(self._path, flags, 0o600), "ab") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is not a regular file")
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            fsync_path(self._path.parent)


class JournalSink:
    name = "journald"

    async def send(self, anchor: Anchor) -> None:
        fields = f"MESSAGE={anchor}\nPRIORITY=6\nSYSLOG_IDENTIFIER={JOURNAL_IDENTIFIER}\n"
        await _in_thread(lambda: _send_datagram(JOURNAL_SOCKET, fields.encode()))


class WebhookSink:
    """Posts the anchor as JSON. Any status of 200 to 299 confirms it; redirects are not followed."""

    def __init__(self, url: str) -> None:
        self.name = url

    async def send(self, anchor: Anchor) -> None:
        import aiohttp

        headers = {"Content-Type": "application/json", "Idempotency-Key": anchor.text}
        try:
            async with (
                aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.post(
                    self.name, data=_as_json(anchor), headers=headers, allow_redirects=False
                ) as response,
            ):
                if not 200 <= response.status < 300:
                    raise AnchorNotSent(f"it responded with status {response.status}")
        except (aiohttp.ClientError, OSError) as error:
            raise AnchorNotSent(str(error) or type(error).__name__) from None


class NatsSink:
    """Publishes to a subject that a JetStream stream stores; a repetition within two minutes is dropped."""

    def __init__(self, subject: str, servers: "Callable[[], NatsServers]") -> None:
        self.name = f"nats:{subject}"
        self._subject = subject
        self._servers = servers

    async def send(self, anchor: Anchor) -> None:
        import nats.errors
        from nats.aio.client import Client

        faults: list[Exception] = []

        async def keep(error: Exception) -> None:
            faults.append(error)

        client = Client()
        try:
            await self._servers().connect(
                client, name="interlock anchors", error_cb=keep, allow_reconnect=False
            )
            headers = {"Nats-Msg-Id": anchor.text}
            await client.jetstream().publish(self._subject, _as_json(anchor), headers=headers)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            told = faults[0] if faults else error
            raise AnchorNotSent(str(told) or type(told).__name__) from None
        finally:
            await client.close()


def _as_json(anchor: Anchor) -> bytes:
    return orjson.dumps(
        {
            "anchor": str(anchor),
            "store_id": anchor.store_id,
            "seq": anchor.seq,
            "sent_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )


def _send_datagram(address: str, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(data, address)


async def _in_thread(work: Callable[[], Any]) -> None:
    try:
        await DaemonThreadPool("interlock-anchors").start(work)
    except OSError as error:
        raise AnchorNotSent(error.strerror or str(error)) from None
