"""A file is written whole or not at all, whatever happens meanwhile."""

import errno
import os
import resource
import stat
import subprocess

import pytest

from interlock.sandbox.file_io import open_file, staged_file
from interlock.sandbox.paths import PathAccess
from tests.unit.sandbox.conftest import open_descriptors
from tests.unit.sandbox.putting import IS_ROOT, create, names, parent_of, replace

pytestmark = pytest.mark.usefixtures("both_ways", "unseen")


def test_a_new_file_appears_whole(roots):
    def check() -> None:
        assert not (roots.inside / "new/f").exists()

    create(roots, "new/f", b"one", b"", b"two", before_commit=check)
    assert (roots.inside / "new/f").read_bytes() == b"onetwo"
    assert names(roots.inside / "new") == ["f"]


def test_a_file_without_content_is_a_file(roots):
    create(roots, "f")
    assert (roots.inside / "f").read_bytes() == b""


@pytest.mark.parametrize("name", ["\udcff\udc80", "a\nb", "-rf", "日本", "x" * 255, " "])
def test_any_name_can_be_written(roots, name):
    create(roots, f"empty/{name}", b"1")
    replace(roots, f"empty/{name}", b"2")
    assert names(roots.inside / "empty") == [name]
    assert (roots.inside / "empty" / name).read_bytes() == b"2"


def test_an_existing_file_is_replaced_whole(roots):
    def check() -> None:
        assert (roots.inside / "README.md").read_text() == "ok"

    replace(roots, "README.md", b"new", before_commit=check)
    assert (roots.inside / "README.md").read_text() == "new"


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling", "out"])
def test_creating_never_replaces_what_appeared_in_between(roots, kind):
    path = roots.inside / "empty/f"

    def appear() -> None:
        match kind:
            case "file":
                path.write_text("precious")
            case "folder":
                path.mkdir()
            case "link":
                path.symlink_to("../README.md")
            case "dangling":
                path.symlink_to("missing")
            case "out":
                path.symlink_to(roots.outside / "new")

    with pytest.raises(FileExistsError):
        create(roots, "empty/f", b"new", before_commit=appear)
    assert names(roots.inside / "empty") == ["f"]
    assert kind != "file" or path.read_text() == "precious"
    assert not (roots.outside / "new").exists()
    assert (roots.inside / "README.md").read_text() == "ok"


def test_a_link_that_appeared_in_between_is_replaced_and_not_followed(roots):
    path = roots.inside / "README.md"

    def swap() -> None:
        path.unlink()
        path.symlink_to(roots.outside / "secret.txt")

    before = (roots.outside / "secret.txt").stat()
    replace(roots, "README.md", b"new", before_commit=swap)
    assert not path.is_symlink()
    assert path.read_text() == "new"
    assert (roots.outside / "secret.txt").stat() == before


def test_a_folder_that_appeared_in_between_stays(roots):
    path = roots.inside / "empty/f"
    path.write_text("")

    def swap() -> None:
        path.unlink()
        path.mkdir()

    with pytest.raises(IsADirectoryError):
        replace(roots, "empty/f", b"new", before_commit=swap)
    assert names(roots.inside / "empty") == ["f"]


def test_the_other_name_of_a_hard_link_keeps_its_content(roots):
    path = roots.write("ws/empty/f", "old")
    other = roots.outside / "other"
    other.hardlink_to(path)
    replace(roots, "empty/f", b"new")
    assert (path.read_text(), other.read_text()) == ("new", "old")


@pytest.mark.parametrize("where", ["pieces", "commit"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit])
def test_a_failure_leaves_the_old_file_and_nothing_else(roots, where, error):
    roots.write("ws/empty/f", "old")

    def pieces():
        yield b"x" * 100_000
        if where == "pieces":
            raise error

    def commit() -> None:
        if where == "commit":
            raise error

    place = roots.resolver.find("empty/f", PathAccess.write)
    with open_file(roots.resolver, place) as like, parent_of(roots, "empty/f") as parent:
        for kind in (like, None):
            with pytest.raises(error), staged_file(parent, pieces(), like=kind) as put:
                commit()
                put()
    assert names(roots.inside / "empty") == ["f"]
    assert (roots.inside / "empty/f").read_text() == "old"


def test_a_disk_that_cannot_keep_it_leaves_the_old_file(roots, monkeypatch):
    roots.write("ws/empty/f", "old")

    def broken(_descriptor: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    for write, name in ((replace, "empty/f"), (create, "empty/g")):
        with pytest.raises(OSError, match="broken"):
            write(roots, name, b"new")
    assert names(roots.inside / "empty") == ["f"]
    assert (roots.inside / "empty/f").read_text() == "old"


def test_the_content_is_on_disk_before_its_name_is_and_then_the_folder(roots, monkeypatch):
    synced = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(("folder" if is_folder else "file", names(roots.inside / "empty").count("f")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    create(roots, "empty/f", b"x")
    assert synced == [("file", 0), ("folder", 1)]


def test_a_short_write_is_continued(roots, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    create(roots, "f", b"0123456789")
    assert (roots.inside / "f").read_bytes() == b"0123456789"


def test_a_file_over_the_processs_limit_is_not_written(roots):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    roots.write("ws/empty/f", "old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            replace(roots, "empty/f", b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(roots.inside / "empty") == ["f"]
    assert (roots.inside / "empty/f").read_text() == "old"


@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a small disk")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(roots):
    folder = roots.inside / "empty"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        (folder / "f").write_text("old")
        for write, name in ((replace, "empty/f"), (create, "empty/g")):
            with pytest.raises(OSError, match="No space left"):
                write(roots, name, *[bytes(8192)] * 20)
        assert names(folder) == ["f"]
        assert (folder / "f").read_text() == "old"
        replace(roots, "empty/f", b"fits")
        assert (folder / "f").read_text() == "fits"
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a disk read-only")
def test_a_read_only_disk_is_the_systems_error(roots):
    folder = roots.inside / "empty"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        with pytest.raises(OSError, match="Read-only"):
            create(roots, "empty/f", b"x")
    finally:
        subprocess.run(["umount", folder], check=True)


def test_nothing_stays_open(roots):
    before = open_descriptors()
    for number in range(20):
        create(roots, f"empty/{number}", b"x")
        replace(roots, f"empty/{number}", b"y")
        with pytest.raises(FileExistsError):
            create(roots, f"empty/{number}", b"z")
    assert open_descriptors() == before
