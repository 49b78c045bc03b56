"""Checks the whole log and says where it first fails: what was broken, is missing, or was cut off."""

from collections.abc import Iterator
from dataclasses import field
from hashlib import sha256
from itertools import chain, islice

from interlock.events.admitted import ToldAccess
from interlock.events.asked import ToldQuestions
from interlock.events.catalog import (
    SYSTEM_STREAM,
    AuthorityCompiled,
    LogCheckpoint,
    MessageAppended,
    SettingsChanged,
)
from interlock.events.chain import GENESIS, hash_content, link
from interlock.events.checkpoint import HASH_AT, Anchor, store_id
from interlock.events.erasures import Erasures
from interlock.events.feed import StoredEvent, whole_stream
from interlock.events.granted import ToldGrants
from interlock.events.ran import ToldRuns
from interlock.events.shape import missing_parts, odd_parts
from interlock.events.stood import ToldSession
from interlock.events.transcript import READ_MESSAGE, content_hash
from interlock.infra.errors import SessionNotFound, StoreError
from interlock.infra.records import dataclass
from interlock.store.driver import Connection

STREAMS = """
SELECT stream FROM stream_heads UNION SELECT stream FROM events UNION SELECT session_id FROM messages
UNION SELECT id FROM sessions UNION SELECT 'system'
ORDER BY 1
"""
KNOWN = "SELECT 1 FROM stream_heads WHERE stream = ? UNION SELECT 1 FROM events WHERE stream = ?"
READ_SETTINGS = "SELECT document FROM settings_versions WHERE version = ?"
HEAD = "SELECT seq, hash FROM stream_heads WHERE stream = ?"
UNTOLD_MESSAGES = """
SELECT m.seq FROM messages m LEFT JOIN events e
    ON e.stream = m.session_id AND e.seq = m.seq AND e.kind = 'message.appended'
WHERE m.session_id = ? AND e.seq IS NULL ORDER BY m.seq LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing wrong in a stream. `what` is broken, missing or cut."""

    stream: str
    seq: int
    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.what}: {self.stream} #{self.seq}: {self.detail}"


@dataclass(slots=True)
class Report:
    streams: int = 0
    events: int = 0
    messages: int = 0
    erased: int = 0
    checkpoints: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


def verify(connection: Connection, *, anchor: Anchor | None = None, only: str | None = None) -> Report:
    """Check every stream, or one and the checkpoints over it. Each tells at most its first fault."""
    report = Report(faults=[Fault(SYSTEM_STREAM, 0, "missing", part) for part in missing_parts(connection)])
    if report.faults:
        # There is nothing left to hold the events against.
        return report
    report.faults.extend(Fault(SYSTEM_STREAM, 0, "broken", part) for part in odd_parts(connection))
    streams = sorted({only, SYSTEM_STREAM}) if only else [str(row[0]) for row in connection.query(STREAMS)]
    if only and not connection.query(KNOWN, (only, only)):
        raise SessionNotFound(f"the log has no events of {only}")
    erasures = Erasures(connection)
    for stream in streams:
        report.streams += 1
        report.faults.extend(_first_fault(connection, stream, report, erasures))
    if anchor is not None:
        report.faults.extend(_faults_of_anchor(connection, anchor))
    return report


def _first_fault(connection: Connection, stream: str, report: Report, erasures: Erasures) -> list[Fault]:
    try:
        return list(islice(_faults_of(connection, stream, report, erasures), 1))
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - rows of the wrong shape are a finding, not a crash
        return [Fault(stream, 0, "broken", f"it cannot be read ({type(error).__name__}: {error})"[:300])]


def _faults_of(connection: Connection, stream: str, report: Report, erasures: Erasures) -> Iterator[Fault]:
    expected_seq, chained, position = 0, GENESIS, 0
    questions, runs, session, grants = ToldQuestions(), ToldRuns(), ToldSession(), ToldGrants()
    access = ToldAccess()
    for stored in whole_stream(connection, stream):
        header = stored.header
        expected_seq += 1
        if header.seq != expected_seq:
            yield Fault(stream, expected_seq, "missing", f"the next event is #{header.seq}")
        report.events += 1
        yield from _faults_of_event(stored, chained, erasures)
        yield from _faults_of_what_it_covers(connection, stored, report)
        if header.kind.startswith("ask_user."):
            questions.take(header.seq, stored.event())
        if header.kind.startswith(("run.", "node.")):
            runs.take(header.seq, stored.event())
        session.take(stored)
        grants.take(stored)
        access.take(stored)
        if stored.cursor.position <= position:
            yield Fault(stream, header.seq, "broken", "its position in the order of all events was changed")
        chained, position = stored.hash, stored.cursor.position
    yield from _faults_of_head(connection, stream, expected_seq, chained)
    for row in connection.query(UNTOLD_MESSAGES, (stream,)):
        yield Fault(stream, row[0], "broken", "no event describes this transcript row")
    for seq, what, detail in chain.from_iterable(
        told.differences(connection, stream) for told in (questions, runs, session, grants, access)
    ):
        yield Fault(stream, seq, what, detail)


def _faults_of_event(stored: StoredEvent, chained: bytes, erasures: Erasures) -> Iterator[Fault]:
    header = stored.header
    if stored.prev_hash != chained:
        yield Fault(header.stream, header.seq, "broken", "it does not follow from the previous event")
    facts = stored.facts.encode()
    if link(stored.prev_hash, header.encoded(), facts, stored.content_hash) != stored.hash:
        yield Fault(header.stream, header.seq, "broken", "its hash does not match its header and facts")
    if stored.is_erased:
        if not erasures.cover(header):
            detail = "its content is missing and no erasure is recorded"
            yield Fault(header.stream, header.seq, "broken", detail)
    elif stored.content is not None:
        content_hash = hash_content(stored.salt or b"", stored.content.encode())
        if content_hash != stored.content_hash:
            yield Fault(header.stream, header.seq, "broken", "its content was changed")


def _faults_of_what_it_covers(
    connection: Connection, stored: StoredEvent, report: Report
) -> Iterator[Fault]:
    """What an event vouches for elsewhere: a transcript row, or the heads of other streams."""
    if stored.is_erased:
        report.erased += 1
        yield from _faults_of_erasure(connection, stored)
        return
    event = stored.event()
    if isinstance(event, MessageAppended):
        report.messages += 1
        yield from _faults_of_message(connection, stored, event)
    elif isinstance(event, SettingsChanged):
        yield from _faults_of_settings(connection, stored, event)
    elif isinstance(event, AuthorityCompiled):
        if sha256(event.form.encode()).hexdigest() != event.digest:
            header = stored.header
            yield Fault(header.stream, header.seq, "broken", "its authority does not match its digest")
    elif isinstance(event, LogCheckpoint):
        report.checkpoints += 1
        yield from _faults_of_checkpoint(connection, stored, event)


def _faults_of_erasure(connection: Connection, stored: StoredEvent) -> Iterator[Fault]:
    if stored.header.kind != MessageAppended.kind:
        return
    stream, seq = stored.header.stream, stored.header.seq
    for _, content, tool_calls, _ in connection.query(READ_MESSAGE, (stream, seq)):
        if content is not None or tool_calls is not None:
            yield Fault(stream, seq, "broken", "its transcript row was erased and has content again")


def _faults_of_settings(
    connection: Connection, stored: StoredEvent, event: SettingsChanged
) -> Iterator[Fault]:
    stream, seq = stored.header.stream, stored.header.seq
    rows = connection.query(READ_SETTINGS, (event.version,))
    if not rows:
        yield Fault(stream, seq, "missing", f"version {event.version} of the settings is missing")
    elif sha256(str(rows[0][0]).encode()).hexdigest() != event.document_hash:
        yield Fault(stream, seq, "broken", f"version {event.version} of the settings was changed")


def _faults_of_message(
    connection: Connection, stored: StoredEvent, event: MessageAppended
) -> Iterator[Fault]:
    stream, seq = stored.header.stream, stored.header.seq
    rows = connection.query(READ_MESSAGE, (stream, seq))
    if not rows:
        yield Fault(stream, seq, "missing", "its transcript row is missing")
    elif content_hash(*rows[0]).hex() != event.content_hash:
        yield Fault(stream, seq, "broken", "its transcript row was changed")


def _faults_of_checkpoint(
    connection: Connection, stored: StoredEvent, event: LogCheckpoint
) -> Iterator[Fault]:
    which = f"the checkpoint {SYSTEM_STREAM} #{stored.header.seq}"
    for stream, seq, expected in event.heads:
        rows = connection.query(HASH_AT, (stream, seq))
        if not rows:
            yield Fault(stream, seq, "cut", f"{which} covers it")
        elif bytes(rows[0][0]).hex() != expected:
            yield Fault(stream, seq, "broken", f"{which} has a different one")
        elif rows[0][1] >= stored.cursor.position:
            yield Fault(stream, seq, "broken", f"{which} covers it, but it was moved after that")


def _faults_of_head(connection: Connection, stream: str, last_seq: int, chained: bytes) -> Iterator[Fault]:
    rows = connection.query(HEAD, (stream,))
    if not rows:
        yield Fault(stream, last_seq, "missing", "the stream has no head row")
        return
    seq, head_hash = rows[0]
    if seq > last_seq:
        yield Fault(stream, last_seq + 1, "cut", f"the head says that the last event is #{seq}")
    elif seq < last_seq or bytes(head_hash) != chained:
        yield Fault(stream, last_seq, "broken", "the head does not match the last event")


def _faults_of_anchor(connection: Connection, anchor: Anchor) -> Iterator[Fault]:
    if store_id(connection) != anchor.store_id:
        yield Fault(SYSTEM_STREAM, anchor.seq, "broken", "the anchor belongs to another store")
        return
    rows = connection.query(HASH_AT, (SYSTEM_STREAM, anchor.seq))
    if not rows:
        yield Fault(SYSTEM_STREAM, anchor.seq, "cut", "the anchored checkpoint is missing")
    elif bytes(rows[0][0]) != anchor.hash:
        yield Fault(SYSTEM_STREAM, anchor.seq, "broken", "the anchored checkpoint is different")
