"""`events verify` against what sinks keep: files, journald, and those that cannot be read here."""

import asyncio
import os
import time
from contextlib import contextmanager

import pytest

from interlock.config.settings import load_settings
from interlock.log.checkpoint import Anchor, find_anchors, write_checkpoint
from interlock.log.hash_chain import GENESIS
from interlock.log.signing import SigningKeyStore
from interlock.runtime.anchor_sender import AnchorSender
from interlock.runtime.anchor_sinks import FileSink
from interlock.wiring import store_verification
from interlock.wiring.store_verification import checkpoint_status, verify_store
from tests.escape.victim import new_session, renamed
from tests.harness.store import StoreHarness


@pytest.fixture
def path(tmp_path, monkeypatch):
    path = tmp_path / "anchors"
    monkeypatch.setenv("EVENT_ANCHORS", f"file:{path}")
    return path


async def anchored(store: StoreHarness, path, tmp_path) -> Anchor:
    await new_session(store)
    anchor = await write_checkpoint(store.log, SigningKeyStore(tmp_path / "signing"))
    await AnchorSender(store.database, store.log, [FileSink(path)]).finish()
    assert anchor is not None
    return anchor


async def checked(store: StoreHarness, **options):
    return await verify_store(store.database, load_settings(), **options)


def status(store: StoreHarness) -> tuple[str, bool]:
    with store.database.reading() as connection:
        settings = load_settings()
        return checkpoint_status(connection, settings)


async def test_a_file_of_anchors_is_read_whatever_else_is_in_it(store, path, tmp_path):
    first = await anchored(store, path, tmp_path)
    second = await anchored(store, path, tmp_path)
    path.write_text(f"From: ada\n{first.text[:70]}{path.read_text()}")
    assert find_anchors(path.read_text()) == [first, second]
    report = await checked(store)
    assert (report.ok, report.anchors, report.notes) == (True, 2, [])
    assert report.coverage.unanchored_events == 0
    store.execute("UPDATE events SET facts = '{}' WHERE stream = 'system' AND seq = ?", first.seq)
    assert not (await checked(store)).ok


async def test_a_store_that_was_rolled_back_does_not_fit_its_file(store, path, tmp_path):
    await anchored(store, path, tmp_path)
    last = store.query("SELECT seq, hash FROM stream_heads WHERE stream = 'system'")[0]
    await anchored(store, path, tmp_path)
    await AnchorSender(store.database, store.log, [FileSink(path)]).finish()
    store.execute("DELETE FROM events WHERE stream = 'system' AND seq > ?", last[0])
    store.execute("UPDATE stream_heads SET seq = ?, hash = ? WHERE stream = 'system'", *last)
    (fault,) = (await checked(store)).faults
    assert fault.detail == "the anchored checkpoint is missing"


async def test_a_sink_that_lost_its_anchors_or_cannot_be_read_is_named(store, path, tmp_path, monkeypatch):
    anchor = await anchored(store, path, tmp_path)
    assert status(store) == (
        f"#{anchor.seq}, 0 minutes ago; file:{path} has confirmed #{anchor.seq}, 0 minutes ago",
        False,
    )
    await anchored(store, tmp_path / "elsewhere", tmp_path)
    path.write_text(f"{anchor}\n")
    store.execute("UPDATE store_info SET key = ? WHERE key LIKE 'anchor:%elsewhere'", "anchor:nats:a")
    store.execute(
        "UPDATE store_info SET value = (SELECT value FROM store_info WHERE key = 'anchor:nats:a') "
        "WHERE key = ?",
        f"anchor:file:{path}",
    )
    (fault,) = (await checked(store)).faults
    assert fault.detail.startswith(f"file:{path} lacks the anchor of checkpoint #")
    for emptied in (lambda: path.write_text(""), path.unlink):
        emptied()
        (fault,) = (await checked(store)).faults
        assert fault.detail.startswith(f"file:{path} lacks the anchor of checkpoint #")
    monkeypatch.setenv("EVENT_ANCHORS", f"file:{tmp_path}/never,https://proof.example/")
    report = await checked(store)
    missing, unread = report.notes
    assert report.ok
    assert missing == f"file:{tmp_path}/never cannot be read here: No such file or directory"
    assert unread.startswith("https://proof.example/ cannot be read here")


async def test_what_is_no_regular_file_is_not_waited_for(store, path, tmp_path):
    await anchored(store, tmp_path / "elsewhere", tmp_path)
    os.mkfifo(path)
    (unread,) = (await asyncio.wait_for(checked(store), 5)).notes
    assert unread == f"file:{path} cannot be read here: it is not a regular file"


async def test_a_slow_journal_is_read_before_the_database(store, tmp_path, monkeypatch):
    """A transaction that waits is ended by PostgreSQL, and keeps SQLite's write-ahead file from ending."""
    anchor = await anchored(store, tmp_path / "anchors", tmp_path)
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f"#!/bin/sh\nsleep 1\nprintf '\\377 {anchor}\\n'\n")
    journalctl.chmod(0o755)
    monkeypatch.setattr(store_verification, "JOURNALCTL", str(journalctl))
    monkeypatch.setenv("EVENT_ANCHORS", "journald")
    reading, transactions = store.database.reading, []

    @contextmanager
    def noted():
        with reading() as connection:
            began = time.monotonic()
            yield connection
            transactions.append(time.monotonic() - began)

    monkeypatch.setattr(store.database, "reading", noted)
    report = await checked(store)
    assert (report.ok, report.anchors) == (True, 1)
    assert max(transactions) < 1


async def test_what_this_machine_signed_last_must_be_there(store, path, tmp_path, monkeypatch):
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path))
    anchor = await anchored(store, path, tmp_path)
    path.unlink()
    store.execute("DELETE FROM store_info WHERE key <> 'store_id'")
    assert (await checked(store)).ok
    store.execute("DELETE FROM events WHERE stream = 'system'")
    store.execute("UPDATE stream_heads SET seq = 0, hash = ? WHERE stream = 'system'", GENESIS)
    (fault,) = (await checked(store)).faults
    assert f"the checkpoint #{anchor.seq} that this machine signed last" in fault.detail
    told, is_late = status(store)
    assert is_late
    assert "that this machine signed last" in told
    last = tmp_path / "signing" / "last-anchor"
    last.write_text("torn")
    (fault,) = (await checked(store)).faults
    assert "is not an anchor" in fault.detail
    assert "is not an anchor" in status(store)[0]
    # As where another account has the key.
    last.unlink()
    last.mkdir()
    (unread,) = [note for note in (await checked(store)).notes if "last-anchor" in note]
    assert "cannot be read here" in unread
    assert "last-anchor" in status(store)[0]


async def test_a_file_with_anchors_of_another_store_alone_is_a_fault(store, path, tmp_path):
    """As after the store's id was changed, so that none of them would be looked at."""
    anchor = await anchored(store, path, tmp_path)
    store.execute("UPDATE store_info SET value = ? WHERE key = 'store_id'", "0" * 32)
    faults = (await checked(store, anchors=[anchor])).faults
    assert f"no anchor in file:{path} is of this store" in [each.detail for each in faults]
    (fault,) = [each for each in faults if "another store" in each.detail]
    assert fault.seq == anchor.seq


async def test_the_journal_is_asked_for_what_this_account_wrote(store, tmp_path, monkeypatch):
    """By a program in its place: there is no journal in a container."""
    anchor = await anchored(store, tmp_path / "anchors", tmp_path)
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho {anchor}\n')
    journalctl.chmod(0o755)
    monkeypatch.setattr(store_verification, "JOURNALCTL", str(journalctl))
    monkeypatch.setenv("EVENT_ANCHORS", "journald")
    report = await checked(store)
    assert (report.ok, report.anchors, report.notes) == (True, 1, [])
    assert "SYSLOG_IDENTIFIER=interlock-anchor _UID=" in (tmp_path / "asked").read_text()


async def test_a_sink_that_lags_and_a_checkpoint_that_is_overdue_are_late(
    store, path, tmp_path, monkeypatch
):
    await anchored(store, path, tmp_path)
    session = await new_session(store)
    await write_checkpoint(store.log, SigningKeyStore(tmp_path / "signing"))
    assert status(store)[1] is False
    monkeypatch.setattr(store_verification, "SENDING_US", -1)
    assert status(store)[1] is True
    monkeypatch.undo()
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("EVENT_CHECKPOINT_EVENTS", "1")
    await store.log.append(session, renamed(), renamed())
    told, is_late = status(store)
    assert is_late
    assert "another is overdue" in told
    assert "is not here" in told
