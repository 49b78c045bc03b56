"""SIGKILL within a checkpoint, a rotation and the sending of an anchor: the next process goes on."""

import subprocess
import sys
from pathlib import Path

from interlock.log.checkpoint import Anchor, find_anchors, write_checkpoint
from interlock.log.signing import SigningKeyStore
from interlock.runtime.anchor_sender import AnchorSender, confirmed_anchors
from interlock.runtime.anchor_sinks import FileSink
from interlock.wiring.projections import verify
from tests.escape.victim import new_session
from tests.harness.store import StoreHarness

ROOT = Path(__file__).parents[2]
KILLED = -9


def killed(store: StoreHarness, folder: Path, moment: str) -> None:
    command = (sys.executable, "-m", "tests.integration.dying_signer", store.config.url, folder, moment)
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=60)
    assert done.returncode == KILLED


def key_files(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "signing").glob("*.pem"))


async def assert_goes_on(store: StoreHarness, folder: Path, *, signed: int, **options) -> Anchor:
    """Another process signs what is new, and everything verifies, with the anchor it kept."""
    keys = SigningKeyStore(folder / "signing")
    await new_session(store)
    anchor = await write_checkpoint(store.log, keys)
    with store.database.reading() as connection:
        report = verify(connection, anchors=[anchor], **options)
    assert report.faults == []
    assert report.coverage.signed == signed
    assert report.coverage.key == anchor.key
    assert keys.last_anchor() == f"{anchor}\n"
    return anchor


async def test_killed_while_the_key_is_written_the_next_process_makes_one(store, tmp_path):
    await new_session(store)
    killed(store, tmp_path, "the key file is not there yet")
    assert key_files(tmp_path) == []
    anchor = await assert_goes_on(store, tmp_path, signed=1)
    assert key_files(tmp_path) == [anchor.key]


async def test_killed_between_the_key_file_and_the_first_checkpoint_the_key_is_taken(store, tmp_path):
    await new_session(store)
    killed(store, tmp_path, "between the key file and the first checkpoint")
    (made,) = key_files(tmp_path)
    assert store.query("SELECT count(*) FROM events WHERE stream = 'system'") == [(0,)]
    assert (await assert_goes_on(store, tmp_path, signed=1)).key == made
    assert key_files(tmp_path) == [made]


async def test_killed_before_a_checkpoint_is_signed_there_is_none(store, tmp_path):
    """Both are one transaction: a checkpoint without its signature would be a fault for ever."""
    await new_session(store)
    killed(store, tmp_path, "between a checkpoint and its signature")
    assert store.query("SELECT count(*) FROM events WHERE kind LIKE 'log.%'") == [(0,)]
    await assert_goes_on(store, tmp_path, signed=1)


async def test_killed_before_the_last_anchor_is_kept_the_one_before_still_holds(store, tmp_path):
    await new_session(store)
    earlier = await assert_goes_on(store, tmp_path, signed=1)
    killed(store, tmp_path, "between a checkpoint and the last anchor")
    assert SigningKeyStore(tmp_path / "signing").last_anchor() == f"{earlier}\n"
    await assert_goes_on(store, tmp_path, signed=3)


async def test_killed_before_a_rotation_is_recorded_the_old_key_goes_on(store, tmp_path):
    await new_session(store)
    old = (await assert_goes_on(store, tmp_path, signed=1)).key
    killed(store, tmp_path, "between a new key and its rotation")
    assert (await assert_goes_on(store, tmp_path, signed=2)).key == old
    (unused,) = {*key_files(tmp_path)} - {old}
    (warning,) = SigningKeyStore(tmp_path / "signing").warnings(old)
    assert f"{unused}.pem is a key that signs nothing" in warning


async def test_killed_after_a_rotation_the_new_key_signs_though_the_old_one_is_there(store, tmp_path):
    await new_session(store)
    old = (await assert_goes_on(store, tmp_path, signed=1)).key
    killed(store, tmp_path, "between a rotation and the first checkpoint")
    (new,) = {*key_files(tmp_path)} - {old}
    assert (await assert_goes_on(store, tmp_path, signed=2, trusted_keys=[old])).key == new
    (warning,) = SigningKeyStore(tmp_path / "signing").warnings(new)
    assert f"{old}.pem is a key that signs nothing" in warning


async def test_killed_before_a_confirmation_is_stored_the_anchor_is_sent_again(store, tmp_path):
    """Twice rather than never: its number and hash are the same."""
    await new_session(store)
    killed(store, tmp_path, "between a sink and the row that says so")
    path = tmp_path / "anchors"
    with store.database.reading() as connection:
        assert confirmed_anchors(connection) == {}
    for _ in range(2):
        await AnchorSender(store.database, store.log, [FileSink(path)]).finish()
    first, second = find_anchors(path.read_text())
    assert first == second
    with store.database.reading() as connection:
        assert confirmed_anchors(connection)[f"file:{path}"].anchor == first
        assert verify(connection, anchors=[first]).ok
