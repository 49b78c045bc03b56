"""Signed checkpoints bind all streams together; an anchor is the hash of one, to be kept elsewhere."""

import re
from dataclasses import dataclass, replace
from typing import TypeVar

from interlock.core.errors import BadUsage, InterlockError, UserError
from interlock.core.threads import DaemonThreadPool
from interlock.db.driver import DbConnection, Row
from interlock.log.event import IS_MILESTONE, Event
from interlock.log.hash_chain import now_us
from interlock.log.kinds import (
    SYSTEM_STREAM,
    LogCheckpoint,
    LogRestoreAccepted,
    LogSigned,
    LogSigningKey,
    decode_event,
)
from interlock.log.read import BEFORE_OPEN_TRANSACTIONS, LOG_START, LogCursor, end_of_log
from interlock.log.signing import (
    LAST_ANCHOR,
    PUBLIC_KEY_HEX,
    SIGNATURE_HEX,
    SigningKey,
    SigningKeyMissing,
    SigningKeyStore,
    is_signed_by,
)
from interlock.log.writer import EventLog, Transaction

Kind = TypeVar("Kind", bound=Event)

STORE_ID = "SELECT value FROM store_info WHERE key = 'store_id'"

NEWEST = f"""
SELECT seq, facts, hash, coalesce(txid, 0), time_us FROM events
WHERE stream = 'system' AND kind = ? AND {IS_MILESTONE} ORDER BY seq DESC LIMIT 1
"""  # noqa: S608 - a constant

HASH_OF_CHECKPOINT = "SELECT hash FROM events WHERE stream = 'system' AND seq = ?"

ALL_HEADS = (
    "SELECT stream, seq, hash FROM stream_heads WHERE seq > 0 AND stream <> 'system' ORDER BY stream"
)

_AFTER = {"sqlite": "0 >= ? AND position > ?", "postgresql": "(txid, position) > (?, ?)"}

# The heads of the streams that have events after a cursor. Their number is what a checkpoint costs.
MOVED_HEADS = {
    dialect: f"""
SELECT stream, seq, hash FROM stream_heads
WHERE stream IN (SELECT stream FROM events WHERE {after} AND stream <> 'system') ORDER BY stream
"""  # noqa: S608 - a constant
    for dialect, after in _AFTER.items()
}

# Checkpoints do not make the next one due; nor do events that the next one's cursor cannot pass either.
UNCOVERED = {
    dialect: f"""
SELECT count(*), min(time_us) FROM (
    SELECT time_us FROM events
    WHERE {_AFTER[dialect]} AND {can_be_passed}
        AND kind NOT IN ('log.checkpoint', 'log.signed', 'log.signing_key') LIMIT ?
) AS uncovered
"""  # noqa: S608 - a constant
    for dialect, can_be_passed in (("sqlite", "0 = 0"), ("postgresql", BEFORE_OPEN_TRANSACTIONS))
}

_files = DaemonThreadPool("interlock-signing")

_ANCHOR = re.compile(
    r"(?P<text>interlock-anchor:1:(?P<store>[0-9a-f]{32}):(?P<seq>\d{1,18}):(?P<hash>[0-9a-f]{64}))"
    rf"(?::(?P<key>[0-9a-f]{{{PUBLIC_KEY_HEX}}}):(?P<signature>[0-9a-f]{{{SIGNATURE_HEX}}}))?"
)


class LastCheckpointMissing(InterlockError):
    """The log lacks the last checkpoint that this machine signed. It signs no other history."""

    code = "LAST_CHECKPOINT_MISSING"


@dataclass(frozen=True, slots=True)
class Anchor:
    """The hash of one checkpoint: enough to prove later that nothing before it was changed.

    `key` and `signature` are empty in a store without a signing key.
    """

    store_id: str
    seq: int
    hash: bytes
    key: str = ""
    signature: str = ""

    @property
    def text(self) -> str:
        """What is signed."""
        return f"interlock-anchor:1:{self.store_id}:{self.seq}:{self.hash.hex()}"

    def __str__(self) -> str:
        return f"{self.text}:{self.key}:{self.signature}" if self.key else self.text

    def is_genuine(self) -> bool:
        """Whether the signature is that of the key it names. Without one there is nothing to check."""
        return not self.key or is_signed_by(self.key, self.signature, self.text)

    @classmethod
    def parse(cls, text: str) -> "Anchor":
        if _ANCHOR.fullmatch(text.strip()) is None:
            raise BadUsage("this is not an anchor; give the whole line that `events anchor` printed")
        return find_anchors(text)[0]


def find_anchors(text: str) -> list[Anchor]:
    """Every anchor in a text: a line of `events anchor`, JSON lines, a mail."""
    return [
        Anchor(
            match["store"],
            int(match["seq"]),
            bytes.fromhex(match["hash"]),
            match["key"] or "",
            match["signature"] or "",
        )
        for match in _ANCHOR.finditer(text)
    ]


@dataclass(frozen=True, slots=True)
class CheckpointInterval:
    """When the next checkpoint is due: after this many events, or this long after the first of them."""

    events: int
    seconds: float

    def is_reached(self, connection: DbConnection) -> bool:
        since = _covered_through(newest_checkpoint(connection))
        sql = UNCOVERED[connection.dialect]
        count, first_us = connection.query(sql, (since.txid, since.position, self.events))[0]
        return bool(count >= self.events or (count and first_us <= now_us() - self.seconds * 1_000_000))


# Due as soon as there is any event that no checkpoint covers.
ANYTHING_NEW = CheckpointInterval(events=1, seconds=0.0)


@dataclass(frozen=True, slots=True)
class NewestCheckpoint:
    seq: int
    hash: bytes
    # Of the writing transaction; 0 on SQLite and after a restore.
    txid: int
    time_us: int
    event: LogCheckpoint


def store_id(connection: DbConnection) -> str:
    """Empty if somebody removed it: then no anchor fits."""
    rows = connection.query(STORE_ID)
    return str(rows[0][0]) if rows else ""


def newest_checkpoint(connection: DbConnection) -> NewestCheckpoint | None:
    for seq, facts, chained, txid, time_us in connection.query(NEWEST, (LogCheckpoint.kind,)):
        event = decode_event(LogCheckpoint.kind, facts)
        if isinstance(event, LogCheckpoint):
            return NewestCheckpoint(int(seq), bytes(chained), int(txid), int(time_us), event)
    return None


def newest_anchor(connection: DbConnection) -> Anchor | None:
    """The anchor of the newest checkpoint, with its signature as the log has it."""
    checkpoint = newest_checkpoint(connection)
    if checkpoint is None:
        return None
    anchor = Anchor(checkpoint.event.store_id, checkpoint.seq, checkpoint.hash)
    for row in connection.query(NEWEST, (LogSigned.kind,)):
        signed = _decoded(LogSigned, row)
        if signed.seq == anchor.seq:
            return _with_signature(anchor, signed)
    return anchor


def signing_key_of(connection: DbConnection) -> str | None:
    """The public half of the store's signing key, as the log names it."""
    rows = connection.query(NEWEST, (LogSigningKey.kind,))
    return _decoded(LogSigningKey, rows[0]).public_key if rows else None


def lost_anchor(connection: DbConnection, last: str) -> Anchor | None:
    """The anchor that this machine signed last, as `SigningKeyStore` keeps it, if the log does not have it.

    A person who writes to the database, but cannot read the key, could otherwise remove checkpoints,
    rewrite what they covered and wait until it is signed again. Raises `LastCheckpointMissing` for a text
    that is no anchor.
    """
    if not last.strip():
        return None
    found = find_anchors(last)
    if not found:
        raise LastCheckpointMissing(
            f"signing/{LAST_ANCHOR} in the state directory is not an anchor; compare the log with anchors "
            "kept elsewhere, then remove that file"
        )
    anchor = found[-1]
    rows = connection.query(HASH_OF_CHECKPOINT, (anchor.seq,))
    is_there = store_id(connection) == anchor.store_id and bool(rows) and bytes(rows[0][0]) == anchor.hash
    return None if is_there else anchor


def lost_anchor_text(anchor: Anchor) -> str:
    return (
        f"the log does not have the checkpoint #{anchor.seq} that this machine signed last: it was "
        "removed, rewritten or rolled back; if you restored an older backup: "
        "interlock events anchor --accept-restored"
    )


async def write_checkpoint(
    log: EventLog,
    keys: SigningKeyStore | None = None,
    *,
    if_due: CheckpointInterval | None = None,
    restore_accepted_by: str = "",
) -> Anchor | None:
    """Record the heads that moved since the last checkpoint, and return the anchor of the record.

    Of several processes one writes it: the others find in their transaction that none is due any more.
    Without `keys` it is not signed, which a store that has a signing key does not allow.
    `restore_accepted_by` is a person who knows why the log lacks the last checkpoint signed here.
    """
    last = "" if keys is None else await _files.start(keys.load)

    def work(transaction: Transaction) -> Anchor | None:
        connection = transaction.connection
        # This locks the head of the system stream: checkpoints are serial.
        transaction.next_seq()
        if if_due is not None and not if_due.is_reached(connection):
            return None
        lost = lost_anchor(connection, last)
        if restore_accepted_by:
            if lost is None:
                raise UserError("the log has every checkpoint that this machine knows: nothing to accept")
            transaction.record(LogRestoreAccepted(who=restore_accepted_by, lost=lost.text))
        elif lost is not None:
            raise LastCheckpointMissing(lost_anchor_text(lost))
        key = _signing_key(transaction, keys)
        checkpoint = _checkpoint(connection)
        recorded = transaction.record(checkpoint)
        anchor = Anchor(checkpoint.store_id, recorded.seq, recorded.hash)
        if key is None:
            return anchor
        signed = LogSigned(seq=anchor.seq, key=key.public, signature=key.sign(anchor.text))
        transaction.record(signed)
        return _with_signature(anchor, signed)

    written = await log.transact(SYSTEM_STREAM, work)
    if keys is not None and written is not None:
        line = str(written)
        await _files.start(lambda: keys.keep_last_anchor(line))
    return written


async def rotate_key(
    log: EventLog, keys: SigningKeyStore, new: SigningKey, *, who: str, is_lost: bool = False
) -> str:
    """Let `new` sign from now on, and return the public half of the key before it.

    The old key signs the new one, unless it is lost: `verify` then reports the change until the operator
    trusts the new key.
    """
    last = await _files.start(keys.load)

    def work(transaction: Transaction) -> str:
        seq = transaction.next_seq()
        old = signing_key_of(transaction.connection)
        if old is None:
            raise UserError("this store has no signing key yet; `interlock events anchor` makes the first")
        if old == new.public:
            raise UserError("this is the present signing key already")
        if not is_lost and (lost := lost_anchor(transaction.connection, last)) is not None:
            raise LastCheckpointMissing(lost_anchor_text(lost))
        text = key_text(store_id(transaction.connection), seq, new.public, old)
        signature = "" if is_lost else keys.get(old).sign(text)
        transaction.record(LogSigningKey(who=who, public_key=new.public, replaces=old, signature=signature))
        return old

    return await log.transact(SYSTEM_STREAM, work)


def key_text(store: str, seq: int, public: str, replaces: str) -> str:
    """What the replaced key signs."""
    return f"interlock-key:1:{store}:{seq}:{public}:{replaces}"


def _signing_key(transaction: Transaction, keys: SigningKeyStore | None) -> SigningKey | None:
    public = signing_key_of(transaction.connection)
    if keys is None:
        if public is not None:
            raise SigningKeyMissing(f"checkpoints of this store need its signing key ({public[:12]}…)")
        return None
    if public is not None:
        return keys.get(public)
    # Repeated after a rollback, it finds the file that it made.
    first = keys.first()
    transaction.record(LogSigningKey(who="", public_key=first.public, replaces="", signature=""))
    return first


def _checkpoint(connection: DbConnection) -> LogCheckpoint:
    previous = newest_checkpoint(connection)
    since = _covered_through(previous)
    # Before the heads are read: they may be newer, never older.
    through = end_of_log(connection)
    if since == LOG_START:
        rows = connection.query(ALL_HEADS)
    else:
        rows = connection.query(MOVED_HEADS[connection.dialect], (since.txid, since.position))
    known = {stream: seq for stream, seq, _ in previous.event.heads} if previous else {}
    return LogCheckpoint(
        store_id=store_id(connection),
        previous_checkpoint_seq=previous.seq if previous else 0,
        heads=[
            [stream, seq, bytes(head).hex()] for stream, seq, head in rows if seq > known.get(stream, 0)
        ],
        through=str(through),
    )


def _covered_through(checkpoint: NewestCheckpoint | None) -> LogCursor:
    """Where the next checkpoint begins. Cursors of a store that was restored since mean nothing here."""
    if checkpoint is None:
        return LOG_START
    through = covered_through(checkpoint.event, checkpoint.txid)
    return LOG_START if through is None else through


def covered_through(event: LogCheckpoint, txid: int) -> LogCursor | None:
    """The cursor up to which a checkpoint covers everything; None if it was written in another database."""
    through = LogCursor.parse(event.through)
    return None if through.txid and not txid else through


def _with_signature(anchor: Anchor, signed: LogSigned) -> Anchor:
    return replace(anchor, key=signed.key, signature=signed.signature)


def _decoded(kind: type[Kind], row: Row) -> Kind:
    event = decode_event(kind.kind, row[1])
    if not isinstance(event, kind):
        raise UserError(f"event #{row[0]} of the system stream cannot be read")
    return event
