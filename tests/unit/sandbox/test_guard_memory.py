"""What is remembered is shared by all that run at the same time, also by those of other processes.

Locks belong to open files, so two memories of one process are as apart as those of two.
"""

import fcntl
import os
import time
from pathlib import Path

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.paths import PathAccess, PathResolver, ResolvedPath
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.protected_snapshot import ProtectedSnapshot, share_snapshots
from interlock.sandbox.shared_snapshots import PatternScan, ProtectedStateRegistry
from interlock.sandbox.tree_snapshot import FileState, TreeSnapshot

ODD = os.fsdecode(b"b\xe4d")
PLACE = ResolvedPath(Path("/root"), ("a", ODD), f"/root/a/{ODD}", PathAccess.write, follow=False)
HOOK = FileState("file", 0o755, (1, 2), "", (3, 4, 5), b"#!/bin/sh\n\0\xff")
FOLDER = TreeSnapshot(FileState("folder", 0o700, (1, 2)), {("x", ODD): HOOK}, is_whole=False)
KEY = ("protected", PLACE.asked)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "state" / "guard"


def memory(folder: Path) -> ProtectedStateRegistry:
    made = ProtectedStateRegistry()
    made.share(folder)
    return made


def taken(
    one: ProtectedStateRegistry, value: object = "what is found now", key: tuple[str, ...] = KEY
) -> object:
    with one.turn():
        return one.take(key, lambda: value)


def released(one: ProtectedStateRegistry, key: tuple[str, ...] = KEY) -> None:
    with one.last_turn():
        one.release(key)


VALUES = [
    FOLDER,
    None,
    TreeSnapshot(),
    PatternScan(PLACE, "**/x", frozenset({PLACE})),
    PatternScan(PLACE, "*", None),
]


@pytest.mark.parametrize("value", VALUES)
def test_what_the_first_found_counts_for_all(folder, value):
    first, second, third = (memory(folder) for _ in range(3))
    assert taken(first, value) is value
    assert taken(second) == value
    released(first)
    # The second has still to find it again.
    assert taken(third) == value
    released(second)
    released(third)
    assert taken(first, "anew") == "anew"


def test_nothing_of_it_is_lost_on_the_way(folder):
    """Content and marks are no part of what is compared."""
    taken(memory(folder), FOLDER)
    found = taken(memory(folder))
    thing = found.inside["x", ODD]
    assert (thing.mark, thing.content, thing) == (HOOK.mark, HOOK.content, HOOK)
    assert found.is_whole is False


def test_only_what_is_still_held_counts(folder):
    first, second = memory(folder), memory(folder)
    other = ("above", "/other")
    taken(first, FOLDER)
    taken(first, FOLDER, other)
    released(first)
    assert taken(second, "anew") == "anew"
    assert taken(second, "anew", other) == FOLDER


@pytest.mark.parametrize("left", ["by one that is gone", "by another release", "half written"])
def test_what_says_nothing_is_passed_over(folder, left):
    taken(memory(folder), FOLDER)
    (held,) = folder.glob("*.held")
    content = held.read_bytes()
    other = folder / "0.held"
    other.write_bytes(content if left == "by one that is gone" else content[:20])
    if left == "by another release":
        other.write_bytes(b"\0" * 7 + b"\5" + b"hello")
    held.unlink()
    with other.open("rb") as file:
        if left != "by one that is gone":
            fcntl.flock(file, fcntl.LOCK_EX)
        assert taken(memory(folder), "anew") == "anew"


def test_what_one_that_is_gone_did_not_put_back_is_there_until_it_is_buried(folder):
    gone = memory(folder)
    with gone.turn():
        gone.take(KEY, lambda: FOLDER, PLACE)
    assert not memory(folder).has_orphans()
    (held,) = folder.glob("*.held")
    # As the kernel does it when a process has ended.
    os.close(gone._file._descriptor)
    other = memory(folder)
    assert other.has_orphans()
    with other.turn():
        (left,) = other.left()
        assert (left.values, left.places) == ({KEY: FOLDER}, {KEY: PLACE})
        other.discard(left)
    assert not held.exists()
    assert not other.has_orphans()


def test_a_process_with_something_to_put_back_says_that_it_lives(folder, monkeypatch):
    monkeypatch.setattr("interlock.sandbox.shared_snapshots.BEAT_SECONDS", 0.01)
    one = memory(folder)
    taken(one, FOLDER)
    (held,) = folder.glob("*.held")
    for _ in range(2):
        os.utime(held, (0, 0))
        deadline = time.monotonic() + 10
        while held.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    released(one)
    while one._pulse._beating is not None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_where_nothing_can_be_shared_nothing_begins_and_all_is_put_back(tmp_path):
    one = memory(tmp_path / "guard")
    taken(one, FOLDER)
    (tmp_path / "file").touch()
    one.share(tmp_path / "file" / "guard")
    with pytest.raises(ToolError, match="state folder") as refused:
        taken(one, FOLDER, ("above", "/other"))
    assert refused.value.error_code is ErrorCode.EXECUTION_ERROR
    released(one)


def test_a_guard_puts_back_also_where_others_cannot_be_told(tmp_path, monkeypatch):
    monkeypatch.setattr("interlock.sandbox.protected_snapshot._MEMORY", ProtectedStateRegistry())
    root = tmp_path / "root"
    root.mkdir()
    profile = SandboxProfile((root,), (root,), protected_names=(".bashrc",))
    guard = ProtectedSnapshot(profile, PathResolver(profile).find("."))
    share_snapshots(tmp_path / "guard")
    guard.remember()
    (root / ".bashrc").write_text("evil")
    (tmp_path / "file").touch()
    share_snapshots(tmp_path / "file" / "guard")
    assert guard.restore() == [".bashrc"]
    assert not (root / ".bashrc").exists()
