"""Checkpoints bind all streams together; an anchor is one line of it, to be kept elsewhere."""

import re
from dataclasses import dataclass

from interlock.events.catalog import SYSTEM_STREAM, LogCheckpoint
from interlock.events.feed import START, Cursor, end_of_log, read_all
from interlock.events.log import EventLog, Transaction
from interlock.infra.errors import PersonError
from interlock.store.driver import Connection

STORE_ID = "SELECT value FROM store_info WHERE key = 'store_id'"

LAST_CHECKPOINT = """
SELECT coalesce(max(seq), 0) FROM events WHERE stream = 'system' AND kind = 'log.checkpoint'
"""

# How far the last checkpoint looked. It means something in this database only: a restore forgets it, and
# the next checkpoint covers everything again.
LOOKED_THROUGH = "SELECT value FROM store_info WHERE key = 'checkpoint_cursor'"
SET_LOOKED_THROUGH = """
INSERT INTO store_info (key, value) VALUES ('checkpoint_cursor', ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

HASH_AT = "SELECT hash FROM events WHERE stream = ? AND seq = ?"

_ANCHOR = re.compile(r"interlock-anchor:1:([0-9a-f]{32}):(\d+):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Anchor:
    """The hash of one checkpoint: enough to show later that nothing before it was changed."""

    store_id: str
    seq: int
    hash: bytes

    def __str__(self) -> str:
        return f"interlock-anchor:1:{self.store_id}:{self.seq}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Anchor":
        match = _ANCHOR.fullmatch(text.strip())
        if match is None:
            raise PersonError("that is not an anchor; give the whole line that `events anchor` printed")
        return cls(match[1], int(match[2]), bytes.fromhex(match[3]))


def store_id(connection: Connection) -> str:
    return str(connection.query(STORE_ID)[0][0])


async def write_checkpoint(log: EventLog) -> Anchor:
    """Record the heads that moved since the last checkpoint, and anchor the record."""

    def work(transaction: Transaction) -> Anchor:
        connection = transaction.connection
        # The head of the system stream is locked from here on: checkpoints follow one another.
        transaction.next_seq()
        looked = connection.query(LOOKED_THROUGH)
        through = end_of_log(connection)
        identity = store_id(connection)
        checkpoint = LogCheckpoint(
            store_id=identity,
            previous_checkpoint_seq=connection.query(LAST_CHECKPOINT)[0][0],
            heads=_moved_heads(connection, Cursor.parse(looked[0][0]) if looked else START, through),
        )
        connection.change(SET_LOOKED_THROUGH, (str(through),))
        recorded = transaction.record(checkpoint)
        return Anchor(identity, recorded.seq, recorded.hash)

    return await log.transact(SYSTEM_STREAM, work)


def _moved_heads(connection: Connection, after: Cursor, through: Cursor) -> list[list[object]]:
    heads: dict[str, list[object]] = {}
    numbers: dict[str, int] = {}
    while after < through and (page := read_all(connection, after=after)):
        for stored in page:
            header = stored.header
            if stored.cursor <= through and header.seq > numbers.get(header.stream, 0):
                numbers[header.stream] = header.seq
                heads[header.stream] = [header.stream, header.seq, stored.hash.hex()]
        after = page[-1].cursor
    return [heads[stream] for stream in sorted(heads)]
