"""One lock on a file: who waits, who gives up, and that a link in its place is not followed."""

import os
import threading

import pytest

from interlock.core.file_lock import file_lock, open_lock_file, take_lock


@pytest.fixture
def opened(tmp_path):
    made = []

    def make() -> int:
        made.append(open_lock_file(tmp_path / "lock"))
        return made[-1]

    yield make
    for descriptor in made:
        os.close(descriptor)


def test_shared_holders_keep_out_one_that_wants_it_alone(opened):
    one, two, alone = opened(), opened(), opened()
    assert take_lock(one, shared=True)
    assert take_lock(two, shared=True, patience_seconds=0)
    assert not take_lock(alone, patience_seconds=0.01)


def test_whoever_waits_gets_it_when_the_block_ends(tmp_path, opened):
    got = threading.Event()

    def wait() -> None:
        with file_lock(tmp_path / "lock"):
            got.set()

    waiting = threading.Thread(target=wait)
    with file_lock(tmp_path / "lock"):
        waiting.start()
        assert not take_lock(opened(), patience_seconds=0)
        assert not got.wait(0.1)
    assert got.wait(10)
    waiting.join()


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        open_lock_file(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()
