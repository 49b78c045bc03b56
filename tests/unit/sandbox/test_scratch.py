"""What the jobs of processes that were killed left behind."""

import os
from contextlib import contextmanager

from interlock.sandbox import temporary_directories


def test_a_directory_that_goes_meanwhile_does_not_end_the_search(tmp_path, monkeypatch):
    for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        (tmp_path / f"interlock-job-{name}").mkdir()
    scandir = os.scandir

    @contextmanager
    def found(place):
        """Another process that starts now removes the first of them."""
        with scandir(place) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        (tmp_path / "interlock-job-aaaaaaaa").rmdir()
        yield iter(listed)

    monkeypatch.setattr(temporary_directories.os, "scandir", found)
    temporary_directories.remove_abandoned_directories(tmp_path)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
