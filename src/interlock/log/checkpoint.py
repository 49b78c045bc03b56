"""Checkpoints bind all streams together; an anchor is the hash of one, to be kept elsewhere."""

import re
from dataclasses import dataclass

from interlock.core.errors import BadUsage
from interlock.db.driver import DbConnection
from interlock.log.kinds import SYSTEM_STREAM, LogCheckpoint, decode_event
from interlock.log.writer import EventLog, Transaction

STORE_ID = "SELECT value FROM store_info WHERE key = 'store_id'"

CHECKPOINTS = """
SELECT seq, facts FROM events WHERE stream = 'system' AND kind = 'log.checkpoint' ORDER BY seq
"""

HEADS = "SELECT stream, seq, hash FROM stream_heads WHERE seq > 0 AND stream <> 'system' ORDER BY stream"

HASH_AT = "SELECT hash, position FROM events WHERE stream = ? AND seq = ?"

_ANCHOR = re.compile(r"interlock-anchor:1:([0-9a-f]{32}):(\d+):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Anchor:
    """The hash of one checkpoint: enough to prove later that nothing before it was changed."""

    store_id: str
    seq: int
    hash: bytes

    def __str__(self) -> str:
        return f"interlock-anchor:1:{self.store_id}:{self.seq}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Anchor":
        match = _ANCHOR.fullmatch(text.strip())
        if match is None:
            raise BadUsage("this is not an anchor; give the whole line that `events anchor` printed")
        return cls(match[1], int(match[2]), bytes.fromhex(match[3]))


def store_id(connection: DbConnection) -> str:
    return str(connection.query(STORE_ID)[0][0])


async def write_checkpoint(log: EventLog) -> Anchor:
    """Record the heads that moved since the last checkpoint, and return an anchor of the record."""

    def work(transaction: Transaction) -> Anchor:
        connection = transaction.connection
        # This locks the head of the system stream: checkpoints are serial.
        transaction.next_seq()
        previous_seq, covered = _covered(connection)
        identity = store_id(connection)
        checkpoint = LogCheckpoint(
            store_id=identity,
            previous_checkpoint_seq=previous_seq,
            heads=[
                [stream, seq, bytes(head).hex()]
                for stream, seq, head in connection.query(HEADS)
                if seq > covered.get(stream, 0)
            ],
        )
        recorded = transaction.record(checkpoint)
        return Anchor(identity, recorded.seq, recorded.hash)

    return await log.transact(SYSTEM_STREAM, work)


def _covered(connection: DbConnection) -> tuple[int, dict[str, int]]:
    """How far all checkpoints so far reach, read from the chain itself and nothing else."""
    last = 0
    covered: dict[str, int] = {}
    for seq, facts in connection.query(CHECKPOINTS):
        event = decode_event(LogCheckpoint.kind, facts)
        last = int(seq)
        if isinstance(event, LogCheckpoint):
            covered |= {stream: head_seq for stream, head_seq, _ in event.heads}
    return last, covered
