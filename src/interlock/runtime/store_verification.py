"""Verifies a store against the anchors that its sinks keep and the keys that the operator trusts."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from interlock.config.proof import ProofSettings
from interlock.db.driver import DbConnection
from interlock.log.checkpoint import (
    Anchor,
    CheckpointInterval,
    find_anchors,
    newest_checkpoint,
    signing_key_of,
    store_id,
)
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.projections import Projections
from interlock.log.signing import SigningKeyMissing, SigningKeyStore
from interlock.log.verify.event_log import LogFault, VerificationReport, verify
from interlock.runtime.anchor_sender import confirmed_anchors
from interlock.runtime.anchor_sinks import JOURNAL_IDENTIFIER

JOURNALCTL = "/usr/bin/journalctl"
JOURNAL_SECONDS = 60
# A sink that lacks the newest anchor for longer than this is failing.
SENDING_US = 60_000_000


def verify_store(
    connection: DbConnection,
    proof: ProofSettings,
    projections: Projections,
    *,
    anchors: Iterable[Anchor] = (),
    files: Iterable[Path] = (),
    only: str | None = None,
) -> VerificationReport:
    """Also compare with `anchors`, those in `files`, and those of every sink that can be read here."""
    own, confirmed = store_id(connection), confirmed_anchors(connection)
    known, faults, notes = set(anchors), [], []
    for sink in dict.fromkeys([*proof.anchors, *(f"file:{path}" for path in files)]):
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
    report = verify(
        connection, anchors=known, trusted_keys=proof.trusted_keys, only=only, projections=projections
    )
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


def checkpoint_status(
    connection: DbConnection, proof: ProofSettings, keys: SigningKeyStore
) -> tuple[str, bool]:
    """Age of the newest checkpoint, what each sink has confirmed, and whether any of it is late."""
    newest = newest_checkpoint(connection)
    told = [f"#{newest.seq}, {_ago(newest.time_us)}" if newest else "none yet"]
    overdue = CheckpointInterval(2 * proof.checkpoint_events, 2 * 60.0 * proof.checkpoint_minutes)
    is_late = overdue.is_reached(connection)
    if is_late:
        told.append("another is overdue (`serve` writes them while it runs, or `interlock events anchor`)")
        try:
            if (key := signing_key_of(connection)) is not None:
                keys.get(key)
        except SigningKeyMissing as error:
            told.append(str(error))
    confirmed = confirmed_anchors(connection)
    for sink in proof.anchors:
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
