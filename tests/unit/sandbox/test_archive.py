"""A folder goes into one stream of bytes and comes back the same."""

import io
import os
import stat
import tarfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.sandbox.directory_archive import archive_hash, archive_size, archived, extract_archive
from interlock.sandbox.directory_walk import MAX_DEPTH
from tests.integration.tools.trees import tree

pytestmark = pytest.mark.usefixtures("both_ways")


@contextmanager
def opened(folder: Path):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def packed(folder: Path) -> bytes:
    with opened(folder) as descriptor:
        return b"".join(archived(descriptor))


def unpacked(data: bytes, folder: Path) -> Path:
    folder.mkdir()
    with opened(folder) as descriptor:
        extract_archive(io.BytesIO(data), descriptor)
    return folder


@pytest.fixture
def house(tmp_path) -> Path:
    """A folder with one of everything."""
    top = tmp_path / "house"
    (top / "empty").mkdir(parents=True)
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/b/c/f").write_bytes(bytes(range(256)) * 100)
    (top / "nothing").write_bytes(b"")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o751)
    (top / "locked").mkdir()
    (top / "locked/f").write_text("x")
    (top / "locked/f").chmod(0o400)
    (top / "link").symlink_to("/etc/passwd")
    (top / "up").symlink_to("../../outside")
    (top / "dangling").symlink_to("no\nwhere")
    (top / ("n" * 255)).write_text("long")
    (top / "日本 \n\x1b").write_text("odd")
    (top / os.fsdecode(b"caf\xe9")).write_text("bytes")
    (top / os.fsdecode(b"l\xff")).symlink_to(os.fsdecode(b"t\xfe"))
    os.mkfifo(top / "pipe", 0o600)
    for path in sorted(top.rglob("*"), reverse=True):
        os.utime(path, ns=(1_600_000_000_123_456_789,) * 2, follow_symlinks=False)
    (top / "locked").chmod(0o555)
    return top


def test_everything_comes_back_as_it_was(house, tmp_path):
    back = unpacked(packed(house), tmp_path / "back")
    assert tree(back, times=True) == tree(house, times=True)
    if os.geteuid() == 0:
        assert {path.lstat().st_uid for path in back.rglob("*")} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owners_come_back(house, tmp_path):
    os.chown(house / "run.sh", 1234, 2345)
    os.chown(house / "a", 1234, 2345)
    back = unpacked(packed(house), tmp_path / "back")
    for name in ("run.sh", "a"):
        status = (back / name).stat()
        assert (status.st_uid, status.st_gid) == (1234, 2345)
    assert stat.S_IMODE((back / "run.sh").stat().st_mode) == 0o751


def test_nothing_that_was_trusted_comes_back(house, tmp_path):
    (house / "run.sh").chmod(0o6755)
    back = unpacked(packed(house), tmp_path / "back")
    assert stat.S_IMODE((back / "run.sh").stat().st_mode) == 0o755


def test_the_size_is_told_before(house):
    with opened(house) as descriptor:
        expected = archive_size(descriptor)
    assert expected is not None
    assert expected / 3 < len(packed(house)) < expected * 3 + 10240


def test_a_folder_too_deep_to_come_back_has_no_size(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 1):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    with opened(tmp_path) as descriptor:
        assert archive_size(descriptor) is None


def test_a_path_too_long_to_come_back_has_no_size(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=folder)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    with opened(tmp_path) as descriptor:
        assert archive_size(descriptor) is None


def test_the_digest_changes_with_anything_and_with_nothing_else(house):
    def digest() -> str:
        with opened(house) as descriptor:
            return archive_hash(descriptor)

    first = digest()
    assert digest() == first
    (house / "a/b/c/f").read_bytes()
    assert digest() == first
    (house / "run.sh").chmod(0o755)
    assert digest() != first
    (house / "run.sh").chmod(0o751)
    assert digest() == first
    (house / "a/new").symlink_to("x")
    assert digest() != first


def hostile(*members: tuple[str, bytes, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, target, 0o644
            archive.addfile(info)
    return buffer.getvalue()


FILE, FOLDER, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE

ATTACKS = {
    "up": [("../evil", FILE, "")],
    "up in the middle": [("a", FOLDER, ""), ("a/../../evil", FILE, "")],
    "absolute": [("/evil", FILE, "")],
    "through a link": [("l", LINK, ".."), ("l/evil", FILE, "")],
    "through an absolute link": [("l", LINK, "/"), ("l/evil", FILE, "")],
    "onto a link": [("l", LINK, "../evil"), ("l", FILE, "")],
    "a folder that is a link": [("l", LINK, ".."), ("l", FOLDER, "")],
    "twice": [("a", FILE, ""), ("a", FILE, "")],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_archive_never_leads_out_of_its_folder(tmp_path, attack):
    with pytest.raises((ValueError, OSError)):
        unpacked(hostile(*ATTACKS[attack]), tmp_path / "back")
    assert [path.name for path in tmp_path.iterdir()] == ["back"]
    assert not Path("/evil").exists()


def test_a_hard_link_or_a_device_in_an_archive_is_passed_over(tmp_path):
    data = hostile(("h", HARD, "/etc/passwd"), ("d", tarfile.CHRTYPE, ""), ("b", tarfile.BLKTYPE, ""))
    assert list(unpacked(data, tmp_path / "back").iterdir()) == []
