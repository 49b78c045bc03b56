"""Walking a folder: everything in it once, in one order, from anywhere on, and nothing outside."""

import os
import shutil
import socket
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.sandbox import directory_walk
from interlock.sandbox.directory_walk import EntryKind, entries, walk
from tests.unit.sandbox.conftest import open_descriptors

pytestmark = pytest.mark.usefixtures("both_ways")


@contextmanager
def opened(path: Path):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def walked(path: Path, **options) -> list[tuple[str, ...]]:
    with opened(path) as folder:
        return [entry.parts for entry in walk(folder, **options)]


def lines(path: Path, **options) -> list[str]:
    return ["/".join(parts) for parts in walked(path, **options)]


def test_a_folder_comes_before_what_is_in_it_and_names_are_in_order(roots):
    for name in ("b/z", "b/a/q", "b.txt", "a", "B", "ä", "\udcff", "-", "b!"):
        roots.write(f"ws/empty/{name}")
    assert lines(roots.inside / "empty") == [
        *("-", "B", "a", "b", "b/a", "b/a/q", "b/z", "b!", "b.txt", "ä", "\udcff"),
    ]


def test_every_kind_is_told_and_no_link_is_followed(roots):
    folder = roots.inside / "empty"
    roots.write("ws/empty/file")
    (folder / "folder").mkdir()
    roots.link("ws/empty/to_file", "file")
    roots.link("ws/empty/to_outside", "../../outside")
    roots.link("ws/empty/to_itself", ".")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as unix, opened(folder) as descriptor:
        unix.bind(str(folder / "socket"))
        assert entries(descriptor) == [
            ("file", EntryKind.file),
            ("folder", EntryKind.folder),
            ("pipe", EntryKind.other),
            ("socket", EntryKind.other),
            *((name, EntryKind.link) for name in ("to_file", "to_itself", "to_outside")),
        ]
        assert [entry.kind for entry in walk(descriptor)] == [kind for _name, kind in entries(descriptor)]


def test_an_entry_can_be_opened_from_the_folder_it_lies_in(roots):
    with opened(roots.inside) as folder:
        for entry in walk(folder):
            if entry.kind is EntryKind.file:
                assert os.stat(entry.name, dir_fd=entry.folder).st_size == 2
                assert entry.parts[-1] == entry.name


@pytest.mark.parametrize(
    ("depth", "expected"), [(0, []), (1, ["a"]), (2, ["a", "a/b"]), (3, ["a", "a/b", "a/b/c"])]
)
def test_the_depth_is_how_many_folders_are_looked_into(roots, depth, expected):
    roots.write("ws/empty/a/b/c")
    assert lines(roots.inside / "empty", max_depth=depth) == expected


def test_a_very_deep_tree_is_walked_to_the_bound(roots):
    folder = roots.inside / "empty"
    folder.joinpath(*["d"] * (directory_walk.MAX_DEPTH + 20)).mkdir(parents=True)
    assert len(walked(folder, max_depth=10**9)) == directory_walk.MAX_DEPTH


def test_a_folder_can_be_passed_over(roots):
    roots.write("ws/empty/.git/config")
    roots.write("ws/empty/x/y")
    found = lines(roots.inside / "empty", descend=lambda entry: entry.name != ".git")
    assert found == [".git", "x", "x/y"]


NAMES = st.sampled_from(
    ["a", "a.b", "a-b", "b", "B", "ä", "a\u0308", "\udcff", "\U0001f600", "\uffff", " ", "aa"]
)
TREES = st.recursive(st.none(), lambda below: st.dictionaries(NAMES, below, max_size=4), max_leaves=15)


def plant(folder: Path, shape: dict) -> None:
    folder.mkdir()
    for name, below in shape.items():
        if below is None:
            (folder / name).write_text("")
        else:
            plant(folder / name, below)


@given(shape=TREES.filter(lambda shape: shape is not None))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_from_any_entry_on_exactly_the_rest_follows(roots, shape):
    folder = roots.inside / "any"
    shutil.rmtree(folder, ignore_errors=True)
    plant(folder, shape)
    whole = walked(folder)
    assert whole == sorted(whole)
    everything = {path.relative_to(folder).parts for path in folder.rglob("*")}
    assert set(whole) == everything
    assert len(whole) == len(everything)
    for index, parts in enumerate(whole):
        assert walked(folder, after=parts) == whole[index + 1 :]


@given(
    shape=TREES.filter(lambda shape: shape is not None),
    after=st.lists(NAMES, min_size=1, max_size=4).map(tuple),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_from_an_entry_that_is_gone_the_rest_follows(roots, shape, after):
    folder = roots.inside / "any"
    shutil.rmtree(folder, ignore_errors=True)
    plant(folder, shape)
    assert walked(folder, after=after) == [parts for parts in walked(folder) if parts > after]


def test_what_stands_before_is_not_looked_into(roots):
    for name in ("a/x", "b/x", "c/x"):
        roots.write(f"ws/empty/{name}")
    looked_into = []

    def descend(entry):
        looked_into.append(entry.name)
        return True

    assert lines(roots.inside / "empty", after=("b", "x"), descend=descend) == ["c", "c/x"]
    assert looked_into == ["b", "c"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account and back")
def test_a_folder_that_may_not_be_read_is_shown_and_passed_over(roots):
    for name in ("closed/x", "open/x", "listable/x"):
        roots.write(f"ws/empty/{name}")
    (roots.inside / "empty/closed").chmod(0)
    (roots.inside / "empty/listable").chmod(0o444)
    with opened(roots.inside / "empty") as folder:
        os.seteuid(65534)
        try:
            found = ["/".join(entry.parts) for entry in walk(folder)]
        finally:
            os.seteuid(0)
    assert found == ["closed", "listable", "listable/x", "open", "open/x"]


def test_a_folder_that_became_a_link_during_the_walk_is_not_followed(roots):
    roots.write("ws/empty/a/x")
    roots.write("ws/empty/b/y")
    found = []
    with opened(roots.inside / "empty") as folder:
        for entry in walk(folder):
            found.append("/".join(entry.parts))
            if found[-1] == "a/x":
                shutil.rmtree(roots.inside / "empty/b")
                roots.link("ws/empty/b", "../../outside")
    assert found == ["a", "a/x", "b"]


@pytest.mark.parametrize("becomes", ["file", "pipe", "gone", "loop"])
def test_a_folder_that_became_something_else_is_passed_over(roots, becomes):
    roots.write("ws/empty/a/x")
    roots.write("ws/empty/z")
    folder_a = roots.inside / "empty/a"
    found = []
    with opened(roots.inside / "empty") as folder:
        for entry in walk(folder):
            found.append("/".join(entry.parts))
            if found == ["a"]:
                shutil.rmtree(folder_a)
                match becomes:
                    case "file":
                        folder_a.write_text("")
                    case "pipe":
                        os.mkfifo(folder_a)
                    case "loop":
                        folder_a.symlink_to("a")
    assert found == ["a", "z"]


def test_a_folder_moved_out_during_the_walk_gives_only_what_was_in_it(roots):
    """It was inside when it was opened; what stands beside it now is not reached from it."""
    roots.write("ws/empty/a/x")
    roots.write("ws/empty/a/y")
    found = []
    with opened(roots.inside / "empty") as folder:
        for entry in walk(folder):
            found.append("/".join(entry.parts))
            if found[-1] == "a/x":
                (roots.inside / "empty/a").rename(roots.outside / "a")
    assert found == ["a", "a/x", "a/y"]


def test_a_walk_that_is_given_up_leaves_nothing_open(roots):
    roots.write("ws/empty/a/b/c/d")
    with opened(roots.inside / "empty") as folder:
        before = open_descriptors()
        with closing(walk(folder)) as walking:
            for entry in walking:
                if entry.name == "d":
                    break
            assert len(open_descriptors()) == len(before) + 3
        assert open_descriptors() == before

        def fail(entry):
            raise RuntimeError(entry.name)

        with pytest.raises(RuntimeError):
            list(walk(folder, descend=fail))
        assert open_descriptors() == before


@pytest.mark.full
def test_a_big_folder_is_walked_whole(roots):
    folder = roots.inside / "empty"
    for number in range(5000):
        (folder / f"{number:05}").touch()
    assert len(walked(folder)) == 5000
    assert walked(folder, after=("04997",)) == [("04998",), ("04999",)]
