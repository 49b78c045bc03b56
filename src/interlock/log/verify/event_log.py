"""Checks the whole log and reports the first fault of each stream: broken, missing or cut off."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice, starmap

from interlock.core.errors import SessionNotFound, StoreError
from interlock.db.driver import DbConnection
from interlock.log.checkpoint import Anchor
from interlock.log.hash_chain import GENESIS, chain_hash, hash_content
from interlock.log.kinds import (
    SYSTEM_STREAM,
    AuthorityCompiled,
    LogCheckpoint,
)
from interlock.log.projections import Projections
from interlock.log.read import StoredEvent, iter_stream
from interlock.log.recorded_erasures import RecordedErasures
from interlock.log.verify.checkpoints import CheckpointVerifier, Coverage
from interlock.log.verify.database_schema import missing_tables, schema_anomalies
from interlock.log.verify.projected_rows import RowVerifier

STREAMS = """
SELECT stream FROM stream_heads UNION SELECT stream FROM events
UNION SELECT stream FROM event_texts UNION SELECT 'system'
ORDER BY 1
"""
KNOWN = "SELECT 1 FROM stream_heads WHERE stream = ? UNION SELECT 1 FROM events WHERE stream = ?"
HEAD = "SELECT seq, hash FROM stream_heads WHERE stream = ?"
READ_TEXT = "SELECT text FROM event_texts WHERE stream = ? AND seq = ?"
# A sink may have one for every five minutes of years.
MAX_ANCHOR_FAULTS = 10

COUNT_TEXTS = "SELECT count(*) FROM event_texts WHERE stream = ?"


@dataclass(frozen=True, slots=True)
class LogFault:
    """The first fault of a stream. `what` is broken, missing or cut."""

    stream: str
    seq: int
    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.what}: {self.stream} #{self.seq}: {self.detail}"


@dataclass(slots=True)
class VerificationReport:
    streams: int = 0
    events: int = 0
    messages: int = 0
    erased: int = 0
    checkpoints: int = 0
    anchors: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    faults: list[LogFault] = field(default_factory=list)
    # Sinks of anchors that could not be read, or lack what they should have.
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


def verify(
    connection: DbConnection,
    projections: Projections,
    *,
    anchors: Iterable[Anchor] = (),
    trusted_keys: Collection[str] = (),
    only: str | None = None,
) -> VerificationReport:
    """Check every stream with its rows, or one and the checkpoints over it; at most one fault of each."""
    missing = missing_tables(connection, projections)
    report = VerificationReport(faults=[LogFault(SYSTEM_STREAM, 0, "missing", part) for part in missing])
    if report.faults:
        # There is nothing left to compare the events with.
        return report
    report.faults.extend(
        LogFault(SYSTEM_STREAM, 0, "broken", part) for part in schema_anomalies(connection, projections)
    )
    streams = {only} if only else {str(row[0]) for row in connection.query(STREAMS)}
    if only and not connection.query(KNOWN, (only, only)):
        raise SessionNotFound(f"the log has no events of {only}")
    anchors = list(anchors)
    checkpoints = CheckpointVerifier(connection, anchors=anchors, trusted=trusted_keys)
    report.anchors, report.coverage = len(anchors), checkpoints.coverage
    erasures = RecordedErasures(connection)
    # The system stream says what the checkpoints cover of the others.
    for stream in (SYSTEM_STREAM, *sorted(streams - {SYSTEM_STREAM})):
        report.streams += 1
        report.faults.extend(_first_fault(connection, projections, stream, report, erasures, checkpoints))
    report.faults.extend(starmap(LogFault, islice(checkpoints.faults_of_anchors(), MAX_ANCHOR_FAULTS)))
    return report


def _first_fault(
    connection: DbConnection,
    projections: Projections,
    stream: str,
    report: VerificationReport,
    erasures: RecordedErasures,
    checkpoints: CheckpointVerifier,
) -> list[LogFault]:
    try:
        return list(islice(_faults_of(connection, projections, stream, report, erasures, checkpoints), 1))
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - rows of the wrong shape are a finding, not a crash
        return [LogFault(stream, 0, "broken", f"it cannot be read ({type(error).__name__}: {error})"[:300])]


def _faults_of(
    connection: DbConnection,
    projections: Projections,
    stream: str,
    report: VerificationReport,
    erasures: RecordedErasures,
    checkpoints: CheckpointVerifier,
) -> Iterator[LogFault]:
    expected_seq, chained, position, texts = 0, GENESIS, 0, 0
    rows = RowVerifier(projections)
    for stored in iter_stream(connection, stream):
        header = stored.header
        expected_seq += 1
        if header.seq != expected_seq:
            yield LogFault(stream, expected_seq, "missing", f"the next event is #{header.seq}")
        report.events += 1
        yield from _faults_of_event(stored, chained, erasures)
        yield from _faults_of_what_it_covers(stored, report)
        text = stored.event().searchable_text if stored.content is not None else ""
        texts += bool(text)
        yield from _faults_of_text(connection, stored, text)
        yield from starmap(LogFault, checkpoints.take(stored))
        rows.take(stored)
        if stored.cursor.position <= position:
            yield LogFault(
                stream, header.seq, "broken", "its position in the order of all events was changed"
            )
        chained, position = stored.hash, stored.cursor.position
    yield from _faults_of_head(connection, stream, expected_seq, chained)
    if stream == SYSTEM_STREAM:
        yield from starmap(LogFault, checkpoints.finish_system_stream())
    if connection.query(COUNT_TEXTS, (stream,))[0][0] != texts:
        yield LogFault(stream, expected_seq, "broken", "the search index has a text that no event has")
    for seq, what, detail in rows.compare(connection, stream):
        yield LogFault(stream, seq, what, detail)


def _faults_of_event(stored: StoredEvent, chained: bytes, erasures: RecordedErasures) -> Iterator[LogFault]:
    header = stored.header
    if stored.prev_hash != chained:
        yield LogFault(header.stream, header.seq, "broken", "it does not follow from the previous event")
    facts = stored.facts.encode()
    if chain_hash(stored.prev_hash, header.encoded(), facts, stored.content_hash) != stored.hash:
        yield LogFault(header.stream, header.seq, "broken", "its hash does not match its header and facts")
    if stored.is_erased:
        if not erasures.covers(header):
            detail = "its content is missing and no erasure is recorded"
            yield LogFault(header.stream, header.seq, "broken", detail)
    elif stored.content is not None:
        content_hash = hash_content(stored.salt or b"", stored.content.encode())
        if content_hash != stored.content_hash:
            yield LogFault(header.stream, header.seq, "broken", "its content was changed")


def _faults_of_what_it_covers(stored: StoredEvent, report: VerificationReport) -> Iterator[LogFault]:
    """Check what an event authenticates: an authority."""
    if stored.is_erased:
        report.erased += 1
        return
    event = stored.event()
    if event.is_message:
        report.messages += 1
    elif isinstance(event, AuthorityCompiled):
        if sha256(event.form.encode()).hexdigest() != event.digest:
            header = stored.header
            yield LogFault(header.stream, header.seq, "broken", "its authority does not match its digest")
    elif isinstance(event, LogCheckpoint):
        report.checkpoints += 1


def _faults_of_text(connection: DbConnection, stored: StoredEvent, text: str) -> Iterator[LogFault]:
    stream, seq = stored.header.stream, stored.header.seq
    if text and connection.query(READ_TEXT, (stream, seq)) != [(text,)]:
        yield LogFault(stream, seq, "broken", "its text in the search index was changed")


def _faults_of_head(
    connection: DbConnection, stream: str, last_seq: int, chained: bytes
) -> Iterator[LogFault]:
    rows = connection.query(HEAD, (stream,))
    if not rows:
        yield LogFault(stream, last_seq, "missing", "the stream has no head row")
        return
    seq, head_hash = rows[0]
    if seq > last_seq:
        yield LogFault(stream, last_seq + 1, "cut", f"the head says that the last event is #{seq}")
    elif seq < last_seq or bytes(head_hash) != chained:
        yield LogFault(stream, last_seq, "broken", "the head does not match the last event")
