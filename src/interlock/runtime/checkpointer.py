"""Writes signed checkpoints without being asked: after a number of events, after a time, and at the end.

Any number of processes may run one: the transaction of a checkpoint asks again whether one is due.
"""

import asyncio
from contextlib import suppress

from interlock.core.errors import InterlockError
from interlock.core.logging import StructuredLogger
from interlock.db.database import Database
from interlock.log.checkpoint import ANYTHING_NEW, CheckpointInterval, write_checkpoint
from interlock.log.signing import SigningKeyStore
from interlock.log.writer import EventLog

_log = StructuredLogger(__name__)

# How often to look; it costs one indexed read of at most `CheckpointInterval.events` rows.
LOOK_SECONDS = 2.0
# A store that cannot be reached must not keep a process from ending.
FINISH_SECONDS = 5.0


class Checkpointer:
    def __init__(
        self, database: Database, log: EventLog, keys: SigningKeyStore, interval: CheckpointInterval
    ) -> None:
        self._database = database
        self._events = log
        self._keys = keys
        self._interval = interval
        self._error = ""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._write_if_due(self._interval)
            await asyncio.sleep(LOOK_SECONDS)

    async def finish(self) -> None:
        """Cover what the last checkpoint does not, at a clean shutdown."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._write_if_due(ANYTHING_NEW), FINISH_SECONDS)

    async def _write_if_due(self, interval: CheckpointInterval) -> None:
        try:
            if await self._database.read(interval.is_reached):
                await write_checkpoint(self._events, self._keys, if_due=interval)
            self._error = ""
        except Exception as error:  # noqa: BLE001 - serving people goes on, whatever is in the rows
            # For example another process has the key. Say it once, not every few seconds.
            text = str(error) if isinstance(error, InterlockError) else f"{type(error).__name__}: {error}"
            if text != self._error:
                self._error = text
                _log.warning("checkpoint_not_written", error=text)
