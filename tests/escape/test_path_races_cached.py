"""The same attack while files are read from memory, as `read_file` does on the event loop."""

import os
from pathlib import Path

import pytest

from interlock.core import files
from interlock.sandbox import page_cache_reader
from interlock.sandbox.page_cache_reader import find_cached
from tests.escape import test_path_races as races
from tests.escape.test_path_races import ACTS, MANY_SECONDS, MANY_TRIES, SECONDS, TRIES, Real, assault

top = races.top


class AtOnce(Real):
    """Reads from memory what is there, as `read_file` does."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.answers = 0

    def read(self, asked: str) -> bytes:
        found = find_cached(self.resolver, asked)
        if found is None or found[1] is None:
            return super().read(asked)
        self.answers += 1
        return found[1].content


@pytest.mark.parametrize(
    ("tries", "seconds"),
    [
        (TRIES // len(ACTS), SECONDS / len(ACTS)),
        pytest.param(MANY_TRIES, MANY_SECONDS, marks=pytest.mark.full),
    ],
)
def test_nothing_outside_is_read_from_memory_while_everything_moves(top, tries, seconds):
    """S3-6.1.2, S3-12.2"""
    device = (top / "ws").stat().st_dev
    if (
        os.major(device),
        os.minor(device),
    ) not in page_cache_reader._local_devices() or not files.has_openat2():
        pytest.skip("nothing is read from memory here")
    before = races.open_descriptors()
    victim = AtOnce(top)
    assault(victim, top, tries, seconds)
    assert races.open_descriptors() == before
    assert victim.answers > 0
