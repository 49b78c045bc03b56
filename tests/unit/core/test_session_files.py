"""Files kept for sessions: what makes room, what is spared, and what is deleted."""

import os
import time

from interlock.core.files import UNFINISHED
from interlock.core.session_files import BLOCK_BYTES, SessionFiles


def written(files: SessionFiles, session: str, name: str, *, age_seconds: float = 0.0):
    path = files.make_directory(session) / name
    path.write_bytes(b"x" * BLOCK_BYTES)
    at = time.time() - age_seconds
    os.utime(path, (at, at))
    return path


def test_the_oldest_of_all_sessions_make_room_and_the_newest_never_do(tmp_path):
    files = SessionFiles(tmp_path / "kept", max_bytes=2 * BLOCK_BYTES)
    oldest = written(files, "a", "1", age_seconds=30)
    older = written(files, "b", "2", age_seconds=20)
    new = written(files, "a", "3", age_seconds=40)
    files.make_room(BLOCK_BYTES, spare=frozenset({new}))
    assert [path.exists() for path in (oldest, older, new)] == [False, False, True]


def test_what_is_being_written_stays_until_its_writer_must_have_died(tmp_path):
    files = SessionFiles(tmp_path / "kept", max_bytes=0)
    young = written(files, "a", f".1{UNFINISHED}", age_seconds=60)
    dead = written(files, "a", f".2{UNFINISHED}", age_seconds=2 * 3600)
    files.make_room(BLOCK_BYTES, spare=frozenset())
    assert (young.exists(), dead.exists()) == (True, False)


def test_without_a_limit_nothing_makes_room(tmp_path):
    files = SessionFiles(tmp_path / "kept")
    path = written(files, "a", "1")
    files.make_room(10**12, spare=frozenset())
    assert path.exists()


def test_older_files_are_deleted_and_a_session_is_deleted_whole(tmp_path):
    files = SessionFiles(tmp_path / "kept")
    old, new = written(files, "a", "1", age_seconds=100), written(files, "a", "2")
    files.delete_before(int((time.time() - 50) * 1_000_000))
    assert (old.exists(), new.exists()) == (False, True)
    other = written(files, "b", "1")
    files.delete_session("a")
    files.delete_session("never seen")
    assert (new.exists(), other.exists()) == (False, True)
