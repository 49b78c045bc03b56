"""Signed checkpoints: who may sign, how keys are replaced, and what `verify` says about signatures."""

import errno
import os
import shutil
import stat
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.core.errors import ConfigurationError, UserError
from interlock.db.backup_and_restore import create_backup, restore
from interlock.db.database import StoreConfig
from interlock.log.checkpoint import (
    ANYTHING_NEW,
    Anchor,
    CheckpointInterval,
    LastCheckpointMissing,
    lost_anchor,
    newest_anchor,
    rotate_key,
    write_checkpoint,
)
from interlock.log.hash_chain import GENESIS
from interlock.log.read import iter_stream
from interlock.log.signing import SigningKeyMissing, SigningKeyStore
from interlock.wiring.projections import verify
from tests.escape.victim import faults, new_session, renamed
from tests.harness.store import StoreHarness, open_store


@pytest.fixture
def keys(tmp_path) -> SigningKeyStore:
    return SigningKeyStore(tmp_path / "signing")


def coverage(store: StoreHarness, **options):
    with store.database.reading() as connection:
        return verify(connection, **options).coverage


def checkpoints(store: StoreHarness) -> list:
    with store.database.reading() as connection:
        found = list(iter_stream(connection, "system"))
    return [stored.event() for stored in found if stored.header.kind == "log.checkpoint"]


def private_key(path) -> str:
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True)
    return path.read_text()


async def test_the_first_checkpoint_makes_the_key_and_every_one_is_signed_with_it(store, keys, tmp_path):
    session = await new_session(store)
    first = await write_checkpoint(store.log, keys)
    await store.log.append(session, renamed())
    second = await write_checkpoint(store.log, SigningKeyStore(tmp_path / "signing"))
    file, last = sorted((tmp_path / "signing").iterdir())
    assert last.read_text() == f"{second}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first.key == second.key == file.stem
    assert first.is_genuine()
    assert not replace(first, seq=first.seq + 1).is_genuine()
    assert faults(store, anchors=[first, second]) == []
    told = coverage(store)
    assert (told.signed, told.key, told.unchecked_events) == (2, first.key, 0)
    with store.database.reading() as connection:
        assert newest_anchor(connection) == second == Anchor.parse(f"{second}\n")


async def test_without_the_key_of_the_store_nothing_is_signed_and_no_checkpoint_written(
    store, keys, tmp_path
):
    await new_session(store)
    await write_checkpoint(store.log, keys)
    elsewhere = SigningKeyStore(tmp_path / "elsewhere")
    for without in (elsewhere, None):
        with pytest.raises(SigningKeyMissing):
            await write_checkpoint(store.log, without)
    assert len(checkpoints(store)) == 1
    assert not (tmp_path / "elsewhere").exists()


async def test_a_key_can_be_given_by_reference(store, tmp_path):
    text = private_key(tmp_path / "own.pem")
    await new_session(store)
    anchor = await write_checkpoint(store.log, SigningKeyStore(tmp_path / "signing", text))
    assert [path.name for path in (tmp_path / "signing").iterdir()] == ["last-anchor"]
    assert faults(store, anchors=[anchor], trusted_keys=[anchor.key]) == []
    with pytest.raises(ConfigurationError, match="not an Ed25519 private key"):
        SigningKeyStore(tmp_path, "-----BEGIN PRIVATE KEY-----")


async def test_a_replaced_key_signs_the_one_that_replaces_it(store, keys, tmp_path):
    await new_session(store)
    before = await write_checkpoint(store.log, keys)
    old = await rotate_key(store.log, keys, new := keys.create(), who="ada")
    keys.remove(old)
    assert old == before.key
    after = await write_checkpoint(store.log, SigningKeyStore(tmp_path / "signing"))
    assert after.key == new.public != before.key
    assert faults(store, anchors=[before, after], trusted_keys=[before.key]) == []
    assert [path.stem for path in (tmp_path / "signing").glob("*.pem")] == [after.key]
    with pytest.raises(UserError, match="present signing key already"):
        await rotate_key(store.log, keys, new, who="ada")


async def test_a_lost_key_is_replaced_without_its_signature_and_verify_says_so(store, keys, tmp_path):
    await new_session(store)
    old = (await write_checkpoint(store.log, keys)).key
    keys.remove(old)
    with pytest.raises(SigningKeyMissing, match="rotate-key --lost"):
        await rotate_key(store.log, keys, keys.create(), who="ada")
    new = SigningKeyStore(tmp_path / "new").create()
    await rotate_key(store.log, keys, new, who="ada", is_lost=True)
    (fault,) = faults(store)
    assert "without its signature" in fault
    assert new.public in fault
    assert faults(store, trusted_keys=[old, new.public]) == []


async def test_keys_that_are_not_trusted_are_reported(store, keys):
    await new_session(store)
    assert "names no signing key" in faults(store, trusted_keys=["a" * 64])[0]
    await write_checkpoint(store.log, keys)
    assert "is the store's first one" in faults(store, trusted_keys=["a" * 64])[0]


async def test_a_checkpoint_lists_only_the_streams_that_moved(store, keys):
    names = [await new_session(store) for _ in range(5)]
    await write_checkpoint(store.log, keys)
    await store.log.append(names[2], renamed())
    await write_checkpoint(store.log, keys)
    await write_checkpoint(store.log, keys)
    first, second, third = checkpoints(store)
    assert [stream for stream, *_ in first.heads] == sorted(names)
    assert [stream for stream, *_ in second.heads] == [names[2]]
    assert third.heads == []
    assert faults(store) == []


async def test_of_several_processes_one_writes_a_checkpoint_that_is_due(store, keys):
    other = open_store(store.config)
    session = await new_session(store)
    assert await write_checkpoint(store.log, keys, if_due=CheckpointInterval(3, 60)) is None
    await store.log.append(session, renamed(), renamed())
    three = CheckpointInterval(3, 60)
    written = [await write_checkpoint(each.log, keys, if_due=three) for each in (store, other, store)]
    other.close()
    assert [anchor is not None for anchor in written] == [True, False, False]
    await store.log.append(session, renamed())
    assert await write_checkpoint(store.log, keys, if_due=three) is None
    assert await write_checkpoint(store.log, keys, if_due=CheckpointInterval(3, 0)) is not None
    assert await write_checkpoint(store.log, keys, if_due=ANYTHING_NEW) is None


async def test_an_event_that_was_put_before_a_checkpoint_is_found(sqlite_store, keys):
    """Its hashes are right, and it is the last of its stream; only the order of all events tells."""
    one, two = await new_session(sqlite_store), await new_session(sqlite_store)
    sqlite_store.execute("UPDATE events SET position = 50 WHERE stream = ?", two)
    await write_checkpoint(sqlite_store.log, keys)
    await sqlite_store.log.append(one, renamed("never said before the checkpoint"))
    assert faults(sqlite_store) == []
    sqlite_store.execute("UPDATE events SET position = 10 WHERE stream = ? AND seq = 2", one)
    assert "which does not know it" in faults(sqlite_store)[0]


async def test_a_restored_store_goes_on_with_its_key(store, keys, tmp_path):
    session = await new_session(store)
    anchor = await write_checkpoint(store.log, keys)
    await store.log.append(session, renamed())
    create_backup(store.database, tmp_path / "backup")
    config = StoreConfig(f"sqlite:///{tmp_path}/restored/interlock.db")
    restore(config, tmp_path / "backup", replace_existing=True, check=lambda _db: None)
    restored = open_store(config)
    try:
        assert coverage(restored).unchecked_events == 1
        later = await write_checkpoint(restored.log, keys, if_due=ANYTHING_NEW)
        assert faults(restored, anchors=[anchor, later]) == []
        # What the first store does from here on, on another machine, is another history.
        shutil.copytree(tmp_path / "signing", tmp_path / "other")
        (tmp_path / "other" / "last-anchor").write_text(f"{anchor}\n")
        await store.log.append(session, renamed())
        elsewhere = await write_checkpoint(store.log, SigningKeyStore(tmp_path / "other"))
        assert "different" in faults(restored, anchors=[elsewhere])[0]
    finally:
        restored.close()


def test_a_key_file_under_another_name_is_refused(keys, tmp_path):
    key = keys.create()
    other = "0" * 64
    (tmp_path / "signing" / f"{key.public}.pem").rename(tmp_path / "signing" / f"{other}.pem")
    with pytest.raises(ConfigurationError, match="another key"):
        keys.get(other)


def empty_system_stream(store: StoreHarness) -> None:
    store.execute("DELETE FROM events WHERE stream = 'system'")
    store.execute("UPDATE stream_heads SET seq = 0, hash = ? WHERE stream = 'system'", GENESIS)


async def reopened(store: StoreHarness) -> StoreHarness:
    """As another process, which remembers no head of a stream."""
    return open_store(store.config)


async def test_a_key_signs_no_history_without_its_last_checkpoint_until_a_person_accepts_it(
    store, keys, tmp_path
):
    """Or it would sign whatever a person without it makes of the log."""
    session = await new_session(store)
    last = await write_checkpoint(store.log, keys)
    empty_system_stream(store)
    later = await reopened(store)
    try:
        await later.log.append(session, renamed())
        for each in (keys, SigningKeyStore(tmp_path / "signing")):
            with pytest.raises(LastCheckpointMissing, match="--accept-restored"):
                await write_checkpoint(later.log, each)
        assert checkpoints(later) == []
        with later.database.reading() as connection:
            assert lost_anchor(connection, keys.last_anchor()) == last
        first = await write_checkpoint(later.log, keys, restore_accepted_by="ada")
        assert (await write_checkpoint(later.log, keys)).seq > first.seq
        with later.database.reading() as connection:
            accepted = [each for each in iter_stream(connection, "system") if "restore" in each.header.kind]
        assert [(each.event().who, each.event().lost) for each in accepted] == [("ada", last.text)]
        assert faults(later) == []
        with pytest.raises(UserError, match="nothing to accept"):
            await write_checkpoint(later.log, keys, restore_accepted_by="ada")
    finally:
        later.close()


async def test_the_last_checkpoint_of_another_store_is_missing_too(store, keys):
    await new_session(store)
    await write_checkpoint(store.log, keys)
    store.execute("UPDATE store_info SET value = ? WHERE key = 'store_id'", "0" * 32)
    with pytest.raises(LastCheckpointMissing):
        await write_checkpoint(store.log, keys)


async def test_a_key_signs_no_other_key_in_a_history_without_its_last_checkpoint(store, keys):
    await new_session(store)
    await write_checkpoint(store.log, keys)
    later = await reopened(store)
    try:
        store.execute(
            "UPDATE events SET hash = ? WHERE stream = 'system' AND kind = 'log.checkpoint'", GENESIS
        )
        with pytest.raises(LastCheckpointMissing):
            await rotate_key(later.log, keys, keys.create(), who="ada")
    finally:
        later.close()


async def test_an_unreadable_last_anchor_is_not_taken_for_none(store, keys, tmp_path):
    await new_session(store)
    await write_checkpoint(store.log, keys)
    (tmp_path / "signing" / "last-anchor").write_text("interlock-anchor:1:torn")
    with pytest.raises(LastCheckpointMissing, match="not an anchor"):
        await write_checkpoint(store.log, keys)


@pytest.mark.parametrize("name", [f"{'0' * 64}.pem", "backup.pem"])
async def test_a_torn_or_foreign_file_beside_the_keys_stops_no_checkpoint(store, keys, tmp_path, name):
    (tmp_path / "signing").mkdir()
    (tmp_path / "signing" / name).write_text("")
    await new_session(store)
    anchor = await write_checkpoint(store.log, keys)
    assert (tmp_path / "signing" / f"{anchor.key}.pem").exists()
    # A second process takes the same key.
    assert (await write_checkpoint(store.log, SigningKeyStore(tmp_path / "signing"))).key == anchor.key


def test_a_key_that_cannot_be_written_leaves_nothing_behind(keys, tmp_path, monkeypatch):
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="No space left"):
        keys.create()
    assert list((tmp_path / "signing").iterdir()) == []


async def test_a_key_that_others_can_read_or_that_signs_nothing_is_named(store, keys, tmp_path):
    await new_session(store)
    present = (await write_checkpoint(store.log, keys)).key
    assert keys.warnings(present) == []
    (tmp_path / "signing" / f"{present}.pem").chmod(0o640)
    (tmp_path / "signing").chmod(0o755)
    folder, file = keys.warnings(present)
    assert f"chmod go= {tmp_path}/signing" in folder
    assert f"chmod go= {tmp_path}/signing/{present}.pem" in file
    left = keys.create().public
    assert f"{left}.pem is a key that signs nothing" in keys.warnings(present)[-1]


async def test_a_rotation_that_is_refused_makes_no_key(store, keys, tmp_path):
    with pytest.raises(UserError, match="no signing key yet"):
        keys.next(None, None, is_lost=False)
    await new_session(store)
    present = (await write_checkpoint(store.log, keys)).key
    elsewhere = SigningKeyStore(tmp_path / "elsewhere")
    with pytest.raises(SigningKeyMissing):
        elsewhere.next(present, None, is_lost=False)
    assert not (tmp_path / "elsewhere").exists()
    assert elsewhere.next(present, None, is_lost=True).public != present


async def test_a_file_is_no_new_key_while_this_process_could_not_sign_with_it(store, keys, tmp_path):
    """The file of the old key is removed, and then nothing could be signed any more."""
    text = private_key(tmp_path / "new.pem")
    await new_session(store)
    present = (await write_checkpoint(store.log, keys)).key
    with pytest.raises(UserError, match="set EVENT_SIGNING_KEY_FILE to"):
        keys.next(present, tmp_path / "new.pem", is_lost=False)
    given = SigningKeyStore(tmp_path / "signing", text)
    new = given.next(present, tmp_path / "new.pem", is_lost=False)
    assert given.next(present, None, is_lost=False).public == new.public
    await rotate_key(store.log, given, new, who="ada")
    # From one given key to the next, the operator changes the setting afterwards.
    private_key(tmp_path / "third.pem")
    assert given.next(new.public, tmp_path / "third.pem", is_lost=False).public != new.public


async def test_the_key_is_read_before_the_transaction_that_all_writers_wait_for(store, keys, monkeypatch):
    await new_session(store)
    await write_checkpoint(store.log, keys)
    read, threads = Path.read_text, []

    def noted(self, *args, **options):
        threads.append(threading.current_thread().name)
        return read(self, *args, **options)

    monkeypatch.setattr(Path, "read_text", noted)
    await write_checkpoint(store.log, keys)
    assert set(threads) == {"interlock-signing"}
