"""Each change keeps what was there before it happens, and happens whole or not at all."""

import hashlib
import os
import sys
import threading
from pathlib import Path

import pytest

from interlock.core.errors import ToolError
from interlock.sandbox.file_changer import ChangeOrigin, FileChanger, NewContent, entry_fingerprint
from interlock.sandbox.file_io import open_file_in
from interlock.sandbox.paths import PathAccess
from interlock.sandbox.undo_store import ChangeAction, SavedContentKind, UndoStore
from tests.integration.tools.trees import tree
from tests.unit.sandbox.conftest import PathTree

pytestmark = pytest.mark.usefixtures("both_ways")

ORIGIN = ChangeOrigin("s", "call", "task")


class Stop(Exception):
    """Somebody cancelled it."""


def stop() -> None:
    raise Stop


class Hand:
    """Makes changes in a world, and looks at what is kept when each of them takes effect."""

    def __init__(self, roots: PathTree, state: Path, max_bytes: int = 1 << 20) -> None:
        self.world = roots
        self.kept = UndoStore(state / "kept", max_bytes=max_bytes)
        self.changes = FileChanger(self.kept)
        self.at_commit: list[tuple[ChangeAction, SavedContentKind, bytes]] = []

    def look(self) -> None:
        for entry in self.kept.entries("s"):
            with entry.content() as content:
                self.at_commit.append((entry.change.action, entry.change.content, content.read()))

    def place(self, path: str, *, follow: bool = False):
        return self.world.resolver.find(path, PathAccess.write, follow=follow)

    def create(self, path: str, data: bytes, commit=None) -> bool:
        new = NewContent(data, hashlib.sha256(data).hexdigest())
        return self.changes.create(self.world.resolver, self.place(path), new, ORIGIN, commit or self.look)

    def replace(self, path: str, data: bytes, commit=None) -> bool:
        place = self.place(path)
        with (
            self.world.resolver.parent(place) as parent,
            open_file_in(parent.descriptor, parent.name, path) as file,
        ):
            return self.changes.replace(
                *(parent, place, file, iter((data,))),
                before_sha256=file.sha256(lambda: None),
                after_sha256=hashlib.sha256(data).hexdigest(),
                origin=ORIGIN,
                commit=commit or self.look,
            )

    def delete(self, path: str, commit=None) -> bool:
        return self.changes.delete(self.world.resolver, self.place(path), ORIGIN, commit or self.look)

    def move(self, source: str, destination: str, commit=None, *, overwrite: bool = False) -> bool:
        return self.changes.move(
            *(self.world.resolver, self.place(source), self.place(destination)),
            overwrite=overwrite,
            origin=ORIGIN,
            commit=commit or self.look,
        )


@pytest.fixture
def hand(roots, tmp_path_factory) -> Hand:
    return Hand(roots, tmp_path_factory.mktemp("state"))


def test_what_was_there_is_on_disk_before_the_change(hand):
    assert hand.create("new/f", b"x")
    assert hand.replace("README.md", b"y")
    assert hand.delete("README.md")
    assert hand.move("src/a.py", "b")
    newest_at_each = [hand.at_commit[0], hand.at_commit[1], hand.at_commit[3], hand.at_commit[6]]
    assert newest_at_each == [
        (ChangeAction.created, SavedContentKind.nothing, b""),
        (ChangeAction.replaced, SavedContentKind.file, b"ok"),
        (ChangeAction.deleted, SavedContentKind.file, b"y"),
        (ChangeAction.moved, SavedContentKind.nothing, b""),
    ]


def test_a_stopped_change_leaves_everything_as_it_was(hand, roots):
    before = tree(roots.inside, times=True)
    for attempt in (
        lambda: hand.create("new/deep/f", b"x", stop),
        lambda: hand.replace("README.md", b"y", stop),
        lambda: hand.delete("README.md", stop),
        lambda: hand.delete("src", stop),
        lambda: hand.move("src", "other/src", stop),
        lambda: hand.move("README.md", "src/a.py", stop, overwrite=True),
    ):
        with pytest.raises(Stop):
            attempt()
        assert tree(roots.inside, times=True) == before
        assert list(hand.kept.entries("s")) == []


def test_a_change_by_somebody_else_at_the_last_moment_stops_it(hand, roots):
    """Even one that keeps the size and the time of the file."""
    file = roots.inside / "README.md"

    def meddle() -> None:
        was = file.stat()
        file.write_text("OK")
        os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))

    real = hand.kept.keep

    def late(change, pieces=()):
        entry = real(change, pieces)
        meddle()
        return entry

    hand.kept.keep = late
    for attempt in (
        lambda: hand.replace("README.md", b"y"),
        lambda: hand.delete("README.md"),
        lambda: hand.move("src/a.py", "README.md", overwrite=True),
    ):
        with pytest.raises(ToolError, match="changed by someone else"):
            attempt()
        assert file.read_text() == "OK"
        assert list(hand.kept.entries("s")) == []


def test_a_folder_that_changes_while_it_is_kept_is_not_deleted(hand, roots):
    real = hand.kept.keep

    def late(change, pieces=()):
        roots.write("ws/src/late", "x")
        return real(change, pieces)

    hand.kept.keep = late
    with pytest.raises(ToolError, match="changed by someone else"):
        hand.delete("src")
    assert (roots.inside / "src/late").exists()
    assert list(hand.kept.entries("s")) == []


def test_a_folder_that_was_kept_while_it_was_different_is_not_deleted(hand, roots):
    """It is as it was again when it would go, and what was kept of it is not."""
    file, real = roots.inside / "src/a.py", hand.kept.keep
    was, status = file.read_text(), file.stat()

    def meanwhile(change, pieces=()):
        file.write_text("no")
        entry = real(change, pieces)
        file.write_text(was)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        return entry

    hand.kept.keep = meanwhile
    with pytest.raises(ToolError, match="changed by someone else"):
        hand.delete("src")
    assert file.exists()
    assert list(hand.kept.entries("s")) == []


def test_a_folder_deeper_than_python_can_follow_is_deleted_all_the_same(hand, roots):
    """A few lines of a script make one. Half deleted, it would lie about under another name for good."""
    roots.write("ws/deep/file", "x")
    current = os.open(roots.inside / "deep", os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 200):
        os.mkdir("d", dir_fd=current)
        below = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(current)
    left = set(roots.inside.iterdir()) - {roots.inside / "deep"}
    assert hand.delete("deep") is False
    assert set(roots.inside.iterdir()) == left
    (entry,) = hand.kept.entries("s")
    assert (entry.change.action, entry.change.content) == (ChangeAction.deleted, SavedContentKind.omitted)


def test_with_nothing_kept_changes_happen_all_the_same(roots, tmp_path):
    hand = Hand(roots, tmp_path, max_bytes=0)
    assert hand.create("n", b"x") is False
    assert hand.replace("n", b"y") is False
    assert hand.move("n", "m") is False
    assert hand.delete("m") is False
    assert hand.delete("src") is False
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [".turn"]


def test_of_changes_at_the_same_time_one_happens_and_the_others_are_told(roots, tmp_path_factory):
    """Each counts up what it has read; a number that was written and lost would be missed."""
    hand = Hand(roots, tmp_path_factory.mktemp("state"))
    roots.write("ws/n", "0")
    done: list[int] = []

    def count() -> None:
        for _ in range(25):
            try:
                number = int((roots.inside / "n").read_text())
                place = hand.place("n")
                with (
                    roots.resolver.parent(place) as parent,
                    open_file_in(parent.descriptor, "n", "n") as file,
                ):
                    if int(file.read(0, 100)) != number:
                        continue
                    hand.changes.replace(
                        *(parent, place, file, iter((b"%d" % (number + 1),))),
                        before_sha256="b",
                        after_sha256="a",
                        origin=ORIGIN,
                        commit=lambda: None,
                    )
                done.append(1)
            except ToolError:
                continue

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int((roots.inside / "n").read_text()) == len(done) > 0


def test_what_is_alike_is_told_by_what_is_in_it(roots):
    def of(path: str) -> str | None:
        with roots.resolver.parent(roots.resolver.find(path, follow=False)) as parent:
            return entry_fingerprint(parent)

    roots.write("ws/x/f", "1")
    roots.write("ws/y/f", "1")
    roots.link("ws/l", "x")
    assert of("x") == of("y") != of("src")
    assert of("x/f") == of("y/f")
    assert of("l") not in {None, of("x")}
    assert of("missing") is None
    (roots.inside / "y/f").chmod(0o600)
    assert of("x") != of("y")
