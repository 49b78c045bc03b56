"""What a file keeps when it is replaced: permissions, owner, attributes, access lists."""

import errno
import os
import stat
import struct
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.sandbox.putting import IS_ROOT, create, replace

pytestmark = pytest.mark.usefixtures("both_ways", "unseen")


@contextmanager
def as_nobody(roots):
    """As an account without rights of its own; the folders above are opened for it to pass through."""
    above = [path for path in (roots.top, *roots.top.parents) if path.stat().st_mode & 0o001 == 0]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in above}
    groups = os.getgroups()
    for path, mode in modes.items():
        path.chmod(mode | 0o001)
    os.setgroups([])
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
        for path, mode in modes.items():
            path.chmod(mode)


def access_list(*rows: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


NOBODY_IN_PARTICULAR = 0xFFFFFFFF
# The owner may read and write, user 1234 too; the owning group and all others nothing.
ACCESS_LIST = access_list(
    (0x01, 6, NOBODY_IN_PARTICULAR),
    (0x02, 6, 1234),
    (0x04, 0, NOBODY_IN_PARTICULAR),
    (0x10, 6, NOBODY_IN_PARTICULAR),
    (0x20, 0, NOBODY_IN_PARTICULAR),
)


def set_list(path: Path, kind: str, value: bytes) -> None:
    try:
        os.setxattr(path, f"system.posix_acl_{kind}", value)
    except OSError:
        pytest.skip("this file system has no access lists")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664, 0o400, 0o777, 0o000])
def test_permissions_are_kept(roots, mode):
    path = roots.write("ws/f")
    path.chmod(mode)
    if not IS_ROOT and not mode & 0o400:
        pytest.skip("only root can read it")
    replace(roots, "f", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755])
def test_what_the_old_content_was_trusted_with_is_not_kept(roots, mode):
    path = roots.write("ws/f")
    path.chmod(mode)
    replace(roots, "f", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_gets_the_usual_permissions(roots, umask):
    before = os.umask(umask)
    try:
        create(roots, "f", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((roots.inside / "f").stat().st_mode) == 0o666 & ~umask


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")
def test_the_owner_is_kept(roots):
    path = roots.write("ws/f")
    os.chown(path, 1234, 5678)
    path.chmod(0o640)
    replace(roots, "f", b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 5678, 0o640)


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another account and back")
def test_what_another_group_was_allowed_is_not_given_to_this_one(roots):
    path = roots.write("ws/empty/f")
    os.chown(path, 1234, 5678)
    path.chmod(0o664)
    (roots.inside / "empty").chmod(0o777)
    with as_nobody(roots):
        replace(roots, "empty/f", b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, 65534, 0o644)


def test_attributes_are_kept(roots):
    path = roots.write("ws/f")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes")
    replace(roots, "f", b"new")
    assert os.getxattr(path, "user.note") == b"mine"


def test_an_access_list_is_kept(roots):
    path = roots.write("ws/f")
    path.chmod(0o640)
    set_list(path, "access", ACCESS_LIST)
    mode = path.stat().st_mode
    replace(roots, "f", b"new")
    assert os.getxattr(path, "system.posix_acl_access") == ACCESS_LIST
    assert path.stat().st_mode == mode


def test_a_folders_default_list_opens_a_replaced_file_to_nobody(roots):
    path = roots.write("ws/empty/f")
    path.chmod(0o660)
    set_list(roots.inside / "empty", "default", ACCESS_LIST)
    replace(roots, "empty/f", b"new")
    assert "system.posix_acl_access" not in os.listxattr(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_a_new_file_gets_the_folders_default_list(roots):
    set_list(roots.inside / "empty", "default", ACCESS_LIST)
    create(roots, "empty/f", b"new")
    (roots.inside / "empty/usual").touch()
    expected = os.getxattr(roots.inside / "empty/usual", "system.posix_acl_access")
    assert os.getxattr(roots.inside / "empty/f", "system.posix_acl_access") == expected
    assert stat.S_IMODE((roots.inside / "empty/f").stat().st_mode) & 0o007 == 0


def test_where_the_access_list_cannot_be_kept_the_group_gets_no_more_than_anyone(roots, monkeypatch):
    path = roots.write("ws/f")
    set_list(path, "access", ACCESS_LIST)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660

    def refused(*_arguments) -> None:
        raise OSError(errno.ENOTSUP, "no lists here")

    monkeypatch.setattr(os, "setxattr", refused)
    replace(roots, "f", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
