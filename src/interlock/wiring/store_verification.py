"""Verifies a store against the anchors that its sinks keep and the keys that the operator trusts."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from interlock.config.settings import Settings
from interlock.db.driver import DbConnection
from interlock.log.checkpoint import (
    Anchor,
    CheckpointInterval,
    find_anchors,
    lost_anchor,
    lost_anchor_text,
    newest_checkpoint,
    signing_key_of,
    store_id,
)
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.signing import SigningKeyMissing
from interlock.log.verify.event_log import LogFault, VerificationReport
from interlock.runtime.anchor_sender import confirmed_anchors
from interlock.runtime.anchor_sinks import JOURNAL_IDENTIFIER
from interlock.wiring.projections import verify
from interlock.wiring.runtime import signing_keys

JOURNALCTL = "/usr/bin/journalctl"
JOURNAL_SECONDS = 60
# A sink that lacks the newest anchor for longer than this is failing.
SENDING_US = 60_000_000


def verify_store(
    connection: DbConnection,
    settings: Settings,
    *,
    anchors: Iterable[Anchor] = (),
    files: Iterable[Path] = (),
    only: str | None = None,
) -> VerificationReport:
    """Also compare with `anchors`, those in `files`, and those of every sink that can be read here.

    And with the last one that this machine signed, if it signs.
    """
    last = signing_keys(settings).last_anchor()
    own, confirmed = store_id(connection), confirmed_anchors(connection)
    known, faults, notes = set(anchors), [], []
    for sink in dict.fromkeys([*settings.proof.anchors, *(f"file:{path}" for path in files)]):
        try:
            found = find_anchors(_text_of(sink))
        except (OSError, subprocess.SubprocessError) as error:
            notes.append(f"{sink} cannot be read here: {getattr(error, 'strerror', None) or error}")
            continue
        of_this_store = {anchor for anchor in found if anchor.store_id == own}
        known |= of_this_store
        if found and not of_this_store and sink.startswith("file:"):
            # One file is for one store; the store's id can be changed, the file's anchors cannot.
            faults.append(LogFault(SYSTEM_STREAM, 0, "broken", f"no anchor in {sink} is of this store"))
        elif not of_this_store:
            notes.append(f"{sink} has no anchor of this store")
        elif sink in confirmed and confirmed[sink].anchor not in of_this_store:
            seq = confirmed[sink].anchor.seq
            notes.append(f"{sink} lacks the anchor of checkpoint #{seq}, which it has confirmed")
    if (lost := lost_anchor(connection, last)) is not None:
        faults.append(LogFault(SYSTEM_STREAM, lost.seq, "cut", lost_anchor_text(lost)))
    trusted = settings.proof.trusted_keys
    report = verify(connection, anchors=known, trusted_keys=trusted, only=only)
    report.faults += faults
    report.notes += notes
    return report


def _text_of(sink: str) -> str:
    if sink.startswith("file:"):
        return Path(sink.removeprefix("file:")).read_text(errors="replace")
    if sink != "journald":
        raise OSError("compare its newest anchor with --anchor")
    # Anyone can write to the journal under that identifier, but not under another account.
    matches = (f"SYSLOG_IDENTIFIER={JOURNAL_IDENTIFIER}", f"_UID={os.getuid()}")
    command = (JOURNALCTL, "--quiet", "--no-pager", "--output=cat", *matches)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=JOURNAL_SECONDS)  # noqa: S603 - constants
    return done.stdout


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
    if (lost := lost_anchor(connection, keys.last_anchor())) is not None:
        told.append(lost_anchor_text(lost))
    warnings = keys.warnings(key)
    told += warnings
    is_late = is_late or lost is not None or bool(warnings)
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
