"""Checks the system stream's checkpoints with their signatures, and anchors that were kept elsewhere."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from interlock.db.driver import DbConnection
from interlock.log.checkpoint import Anchor, covered_through, key_text, store_id
from interlock.log.kinds import SYSTEM_STREAM, LogCheckpoint, LogSigned, LogSigningKey
from interlock.log.read import LogCursor, StoredEvent
from interlock.log.signing import is_signed_by

HASH_AT = "SELECT hash, position FROM events WHERE stream = ? AND seq = ?"

# Not counted among the events that no checkpoint covers: they would never be all covered.
_OWN_KINDS = frozenset({LogCheckpoint.kind, LogSigned.kind, LogSigningKey.kind})

# Stream, seq, what, detail.
CheckpointFault = tuple[str, int, str, str]


@dataclass(slots=True)
class Coverage:
    """How much of the log is proved by more than its own hashes."""

    # The present signing key, and how many checkpoints carry a right signature.
    key: str = ""
    signed: int = 0
    # The newest checkpoint, and the newest anchor that fits; 0 for none.
    checkpoint_seq: int = 0
    anchor_seq: int = 0
    # Events after the newest checkpoint, and after the newest anchor.
    unchecked_events: int = 0
    unanchored_events: int = 0


class CheckpointVerifier:
    """Takes the system stream first, then every other stream.

    `trusted` are the public keys that may begin: as the first key of the store, or in the place of a lost
    one. Without any, the first key in the log is believed.
    """

    def __init__(
        self, connection: DbConnection, *, anchors: Iterable[Anchor] = (), trusted: Collection[str] = ()
    ) -> None:
        self.coverage = Coverage()
        self._connection = connection
        self._store_id = store_id(connection)
        self._trusted = trusted
        self._anchors: dict[int, list[Anchor]] = {}
        for anchor in anchors:
            self._anchors.setdefault(anchor.seq, []).append(anchor)
        self._keys: set[str] = set()
        # A checkpoint of a store that has a key, until its signature follows.
        self._unsigned: StoredEvent | None = None
        self._covered: dict[str, int] = {}
        self._anchored: dict[str, int] = {}
        self._through: LogCursor | None = None
        self._has_taken_all = False

    def take(self, stored: StoredEvent) -> Iterator[CheckpointFault]:
        """Take the next event of any stream."""
        stream, seq, kind = stored.header.stream, stored.header.seq, stored.header.kind
        if stream != SYSTEM_STREAM:
            yield from self._take_covered(stored)
            return
        if self._unsigned is not None and kind != LogSigned.kind:
            seq, self._unsigned = self._unsigned.header.seq, None
            yield SYSTEM_STREAM, seq, "broken", "the signature of this checkpoint is missing"
        if kind in _OWN_KINDS:
            yield from self._take_own(stored)
        else:
            self.coverage.unchecked_events += 1
            self.coverage.unanchored_events += 1

    def finish_system_stream(self) -> Iterator[CheckpointFault]:
        """After the last event of the system stream: what is missing in it."""
        if self._unsigned is not None:
            seq, self._unsigned = self._unsigned.header.seq, None
            yield SYSTEM_STREAM, seq, "broken", "the signature of this checkpoint is missing"
        if self._trusted and not self._keys:
            yield SYSTEM_STREAM, 0, "missing", "the log names no signing key, but EVENT_TRUSTED_KEYS does"
        self._has_taken_all = True

    def faults_of_anchors(self) -> Iterator[CheckpointFault]:
        """One for each anchor that does not fit the log."""
        for seq, anchors in sorted(self._anchors.items()):
            rows = self._connection.query(HASH_AT, (SYSTEM_STREAM, seq))
            for anchor in anchors:
                if fault := self._fault_of_anchor(anchor, bytes(rows[0][0]) if rows else None):
                    yield SYSTEM_STREAM, seq, *fault

    def _fault_of_anchor(self, anchor: Anchor, chained: bytes | None) -> tuple[str, str] | None:
        if anchor.store_id != self._store_id:
            return "broken", "the anchor belongs to another store"
        if chained == anchor.hash and (not anchor.key or anchor.key in self._keys):
            return None
        if not anchor.is_genuine():
            return "broken", "the anchor does not match its own signature"
        if chained is None:
            return "cut", "the anchored checkpoint is missing"
        if chained != anchor.hash:
            return "broken", "the anchored checkpoint is different"
        return "broken", "the anchor was signed with a key that the log does not name"

    def _take_own(self, stored: StoredEvent) -> Iterator[CheckpointFault]:
        event = stored.event()
        if isinstance(event, LogCheckpoint):
            yield from self._take_checkpoint(stored, event)
        elif isinstance(event, LogSigned):
            yield from self._take_signature(stored, event)
        elif isinstance(event, LogSigningKey):
            yield from self._take_key(stored, event)

    def _take_checkpoint(self, stored: StoredEvent, event: LogCheckpoint) -> Iterator[CheckpointFault]:
        which = f"the checkpoint {SYSTEM_STREAM} #{stored.header.seq}"
        heads = {stream: seq for stream, seq, _ in event.heads}
        self._covered |= heads
        self._through = covered_through(event, stored.cursor.txid)
        self.coverage.checkpoint_seq = stored.header.seq
        self.coverage.unchecked_events = 0
        if any(anchor.hash == stored.hash for anchor in self._anchors.get(stored.header.seq, ())):
            self._anchored = dict(self._covered)
            self.coverage.anchor_seq = stored.header.seq
            self.coverage.unanchored_events = 0
        if self.coverage.key:
            self._unsigned = stored
        for stream, seq, expected in event.heads:
            rows = self._connection.query(HASH_AT, (stream, seq))
            if not rows:
                yield stream, seq, "cut", f"{which} covers it"
            elif bytes(rows[0][0]).hex() != expected:
                yield stream, seq, "broken", f"{which} has a different one"
            elif rows[0][1] >= stored.cursor.position:
                yield stream, seq, "broken", f"{which} covers it, but it was moved after that"

    def _take_signature(self, stored: StoredEvent, event: LogSigned) -> Iterator[CheckpointFault]:
        checkpoint, self._unsigned = self._unsigned, None
        seq = stored.header.seq
        if checkpoint is None or checkpoint.header.seq != event.seq:
            yield SYSTEM_STREAM, seq, "broken", "it signs no checkpoint"
            return
        text = Anchor(self._store_id, event.seq, checkpoint.hash).text
        if event.key != self.coverage.key:
            yield SYSTEM_STREAM, seq, "broken", "the checkpoint was signed with another key"
        elif not is_signed_by(event.key, event.signature, text):
            yield SYSTEM_STREAM, seq, "broken", "the signature does not match the checkpoint"
        else:
            self.coverage.signed += 1

    def _take_key(self, stored: StoredEvent, event: LogSigningKey) -> Iterator[CheckpointFault]:
        seq, old, new = stored.header.seq, self.coverage.key, event.public_key
        self.coverage.key = new
        self._keys.add(new)
        text = key_text(self._store_id, seq, new, old)
        if event.replaces != old:
            yield SYSTEM_STREAM, seq, "broken", "the key does not replace the one before it"
        elif old and event.signature:
            if not is_signed_by(old, event.signature, text):
                yield SYSTEM_STREAM, seq, "broken", "the replaced key did not sign this one"
        elif new not in self._trusted and (old or self._trusted):
            what = "replaces the signing key without its signature" if old else "is the store's first one"
            detail = f"the key {new} {what}, and is not in EVENT_TRUSTED_KEYS"
            yield SYSTEM_STREAM, seq, "broken", detail

    def _take_covered(self, stored: StoredEvent) -> Iterator[CheckpointFault]:
        stream, seq = stored.header.stream, stored.header.seq
        if seq > self._anchored.get(stream, 0):
            self.coverage.unanchored_events += 1
        if seq <= self._covered.get(stream, 0):
            return
        self.coverage.unchecked_events += 1
        if self._has_taken_all and self._through is not None and _is_within(stored.cursor, self._through):
            which = f"the checkpoint {SYSTEM_STREAM} #{self.coverage.checkpoint_seq}"
            yield stream, seq, "broken", f"it was put before {which}, which does not know it"


def _is_within(cursor: LogCursor, through: LogCursor) -> bool:
    return (cursor.txid, cursor.position) <= (through.txid, through.position)
