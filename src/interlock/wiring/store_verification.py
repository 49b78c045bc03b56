"""Verifies a store against the anchors that its sinks keep and the keys that the operator trusts."""

import os
import stat
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError
from interlock.core.threads import DaemonThreadPool
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.log.checkpoint import (
    Anchor,
    CheckpointInterval,
    LastCheckpointMissing,
    find_anchors,
    lost_anchor,
    lost_anchor_text,
    newest_checkpoint,
    signing_key_of,
    store_id,
)
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.signing import LAST_ANCHOR, SigningKeyMissing
from interlock.log.verify.event_log import LogFault, VerificationReport
from interlock.runtime.anchor_sender import ConfirmedAnchor, confirmed_anchors
from interlock.runtime.anchor_sinks import JOURNAL_IDENTIFIER
from interlock.wiring.projections import verify
from interlock.wiring.runtime import signing_keys

JOURNALCTL = "/usr/bin/journalctl"
JOURNAL_SECONDS = 60
# A sink that lacks the newest anchor for longer than this is failing.
SENDING_US = 60_000_000


_sinks = DaemonThreadPool("interlock-anchors")


@dataclass(frozen=True, slots=True)
class _KeptAnchors:
    """What sinks have, and why the others cannot be read. `last` is what this machine signed last."""

    confirmed: Mapping[str, ConfirmedAnchor]
    found: Mapping[str, list[Anchor]]
    unread: Mapping[str, Exception]
    last: str


async def verify_store(
    database: Database,
    settings: Settings,
    *,
    anchors: Iterable[Anchor] = (),
    files: Iterable[Path] = (),
    only: str | None = None,
) -> VerificationReport:
    """Also compare with `anchors`, those in `files`, and those of every sink that can be read here.

    And with the last one that this machine signed, if it signs.
    """
    sinks = tuple(dict.fromkeys([*settings.proof.anchors, *(f"file:{path}" for path in files)]))
    # Each before what must be at least as new. And before the log is read: a transaction cannot wait for
    # journalctl.
    confirmed = await database.read(confirmed_anchors)
    kept = await _sinks.start(lambda: _read_sinks(settings, sinks, confirmed))
    return await database.read(lambda db: _verify(db, settings, kept, set(anchors), only))


def _read_sinks(
    settings: Settings, sinks: Iterable[str], confirmed: Mapping[str, ConfirmedAnchor]
) -> _KeptAnchors:
    found: dict[str, list[Anchor]] = {}
    unread: dict[str, Exception] = {}
    for sink in sinks:
        try:
            found[sink] = find_anchors(_text_of(sink))
        except (OSError, subprocess.SubprocessError) as error:
            unread[sink] = error
    last = ""
    try:
        last = signing_keys(settings).last_anchor()
    except ConfigurationError as error:
        # The key is kept under another account, which signs.
        unread[LAST_ANCHOR] = error
    return _KeptAnchors(confirmed, found, unread, last)


def _verify(
    connection: DbConnection, settings: Settings, kept: _KeptAnchors, known: set[Anchor], only: str | None
) -> VerificationReport:
    own, faults, notes = store_id(connection), [], []
    for sink, error in kept.unread.items():
        if isinstance(error, FileNotFoundError) and sink in kept.confirmed:
            faults.append(_lacking(sink, kept.confirmed[sink]))
        else:
            notes.append(f"{sink} cannot be read here: {getattr(error, 'strerror', None) or error}")
    for sink, found in kept.found.items():
        of_this_store = {anchor for anchor in found if anchor.store_id == own}
        known |= of_this_store
        confirmed = kept.confirmed.get(sink)
        if found and not of_this_store and sink.startswith("file:"):
            # One file is for one store; the store's id can be changed, the file's anchors cannot.
            faults.append(LogFault(SYSTEM_STREAM, 0, "broken", f"no anchor in {sink} is of this store"))
        elif confirmed is not None and confirmed.anchor not in of_this_store:
            lacking = _lacking(sink, confirmed)
            if sink.startswith("file:"):
                faults.append(lacking)
            else:
                # A journal drops its oldest entries.
                notes.append(lacking.detail)
        elif not of_this_store:
            notes.append(f"{sink} has no anchor of this store")
    if lost := _lost(connection, kept.last):
        faults.append(LogFault(SYSTEM_STREAM, 0, "cut", lost))
    report = verify(connection, anchors=known, trusted_keys=settings.proof.trusted_keys, only=only)
    report.faults += faults
    report.notes += notes
    return report


def signing_refusal(connection: DbConnection, settings: Settings) -> str:
    """Why this machine, if it has the key, does not sign this log; empty if it would."""
    try:
        return _lost(connection, signing_keys(settings).last_anchor())
    except ConfigurationError as error:
        return str(error)


def _lost(connection: DbConnection, last: str) -> str:
    try:
        lost = lost_anchor(connection, last)
    except LastCheckpointMissing as error:
        return str(error)
    return "" if lost is None else lost_anchor_text(lost)


def _lacking(sink: str, confirmed: ConfirmedAnchor) -> LogFault:
    seq = confirmed.anchor.seq
    detail = f"{sink} lacks the anchor of checkpoint #{seq}, which it has confirmed"
    return LogFault(SYSTEM_STREAM, seq, "cut", detail)


def _text_of(sink: str) -> str:
    if sink.startswith("file:"):
        # As the sink opens it: without waiting for a pipe.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(sink.removeprefix("file:"), flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is not a regular file")
            return file.read().decode(errors="replace")
    if sink != "journald":
        raise OSError("compare its newest anchor with --anchor")
    # Anyone can write to the journal under that identifier, but not under another account.
    matches = (f"SYSLOG_IDENTIFIER={JOURNAL_IDENTIFIER}", f"_UID={os.getuid()}")
    command = (JOURNALCTL, "--quiet", "--no-pager", "--output=cat", *matches)
    done = subprocess.run(command, capture_output=True, check=True, timeout=JOURNAL_SECONDS)  # noqa: S603 - constants
    return done.stdout.decode(errors="replace")


def checkpoint_status(connection: DbConnection, settings: Settings) -> tuple[str, bool]:
    """The newest checkpoint, its key, what each sink has confirmed, and whether any of it is wrong."""
    given, newest = settings.proof, newest_checkpoint(connection)
    told = [f"#{newest.seq}, {_ago(newest.time_us)}" if newest else "none yet"]
    overdue = CheckpointInterval(2 * given.checkpoint_events, 2 * 60.0 * given.checkpoint_minutes)
    is_late = overdue.is_reached(connection)
    keys, key = signing_keys(settings), signing_key_of(connection)
    if is_late:
        told.append("another is overdue (`serve` writes them while it runs, or `interlock events anchor`)")
        try:
            if key is not None:
                keys.get(key)
        except SigningKeyMissing as error:
            told.append(str(error))
    warnings = keys.warnings(key)
    if refusal := signing_refusal(connection, settings):
        warnings.append(refusal)
    told += warnings
    is_late = is_late or bool(warnings)
    confirmed = confirmed_anchors(connection)
    for sink in given.anchors:
        last = confirmed.get(sink)
        told.append(
            f"{sink} has confirmed #{last.anchor.seq}, {_ago(last.time_us)}"
            if last
            else f"{sink} has confirmed none"
        )
        if newest and (last is None or last.anchor.hash != newest.hash):
            is_late = is_late or now_us() - newest.time_us > SENDING_US
    return "; ".join(told), is_late


def _ago(time_us: int) -> str:
    minutes = (now_us() - time_us) // 60_000_000
    return f"{minutes} minutes ago" if minutes < 120 else f"{minutes // 60} hours ago"
