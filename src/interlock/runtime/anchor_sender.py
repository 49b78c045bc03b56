"""Sends the anchor of the newest checkpoint to every sink, until each has confirmed it.

What a sink has confirmed is in the store, so after a crash another process sends the rest. Only the newest
anchor is sent: it covers the checkpoints before it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from interlock.core.errors import InterlockError, UserError
from interlock.core.logging import StructuredLogger
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.log.checkpoint import Anchor, newest_anchor
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.writer import EventLog, Transaction
from interlock.runtime.anchor_sinks import AnchorSink

_log = StructuredLogger(__name__)

LOOK_SECONDS = 2.0
SEND_SECONDS = 10.0
FINISH_SECONDS = 5.0
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 2.0, 300.0

CONFIRMED = "SELECT key, value FROM store_info WHERE substr(key, 1, 7) = 'anchor:'"
CONFIRM = """
INSERT INTO store_info (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


@dataclass(frozen=True, slots=True)
class ConfirmedAnchor:
    """What a sink confirmed last, and when."""

    anchor: Anchor
    time_us: int


@dataclass(frozen=True, slots=True)
class _Failure:
    error: str
    delay: float
    retry_at: float


class AnchorSender:
    def __init__(self, database: Database, log: EventLog, sinks: Sequence[AnchorSink]) -> None:
        self._database = database
        self._events = log
        self._sinks = sinks
        self._failures: dict[str, _Failure] = {}
        self._error = ""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._send_newest(self._sinks_to_try())
            await asyncio.sleep(LOOK_SECONDS)

    async def finish(self) -> None:
        """Try every sink once more, at a clean shutdown."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._send_newest(self._sinks), FINISH_SECONDS)

    def _sinks_to_try(self) -> Sequence[AnchorSink]:
        now = time.monotonic()
        waiting = {name for name, failure in self._failures.items() if failure.retry_at > now}
        return [sink for sink in self._sinks if sink.name not in waiting]

    async def _send_newest(self, sinks: Sequence[AnchorSink]) -> None:
        if not sinks:
            return
        try:
            anchor = await self._database.read(newest_anchor)
            confirmed = await self._database.read(confirmed_anchors)
            if anchor is not None:
                lacking = [
                    sink
                    for sink in sinks
                    if sink.name not in confirmed or confirmed[sink.name].anchor != anchor
                ]
                await asyncio.gather(*(self._send(sink, anchor) for sink in lacking))
            self._error = ""
        except Exception as error:  # noqa: BLE001 - serving people goes on, whatever is in the rows
            if (text := _text_of(error)) != self._error:
                self._error = text
                _log.warning("anchors_not_sent", error=text)

    async def _send(self, sink: AnchorSink, anchor: Anchor) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await sink.send(anchor)
        except TimeoutError:
            self._failed(sink, f"no confirmation within {SEND_SECONDS:.0f} seconds")
        except Exception as error:  # noqa: BLE001 - what libraries raise; no other sink must wait
            self._failed(sink, _text_of(error))
        else:
            self._failures.pop(sink.name, None)
            row = (f"anchor:{sink.name}", f"{now_us()} {anchor}")

            def confirm(transaction: Transaction) -> None:
                transaction.connection.change(CONFIRM, row)

            await self._events.transact(SYSTEM_STREAM, confirm)

    def _failed(self, sink: AnchorSink, error: str) -> None:
        before = self._failures.get(sink.name)
        delay = min(2 * before.delay, LONGEST_RETRY_SECONDS) if before else RETRY_SECONDS
        self._failures[sink.name] = _Failure(error, delay, time.monotonic() + delay)
        if before is None or before.error != error:
            _log.warning("anchor_not_sent", sink=sink.name, error=error)


def _text_of(error: Exception) -> str:
    return str(error) if isinstance(error, InterlockError) else f"{type(error).__name__}: {error}"


def confirmed_anchors(connection: DbConnection) -> Mapping[str, ConfirmedAnchor]:
    """For each sink that ever confirmed one, the last. A row that cannot be read counts as none."""
    found = {}
    for key, value in connection.query(CONFIRMED):
        time_us, _, anchor = str(value).partition(" ")
        with suppress(ValueError, UserError):
            confirmed = ConfirmedAnchor(Anchor.parse(anchor), int(time_us))
            found[str(key).removeprefix("anchor:")] = confirmed
    return found
