"""Reading a file piece by piece, and writing one whole or not at all."""

import errno
import hashlib
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox import files
from interlock.sandbox.files import CHUNK_BYTES, look, opened_file, opened_in, put, settle
from interlock.sandbox.paths import Access
from tests.unit.sandbox.conftest import open_descriptors

pytestmark = pytest.mark.usefixtures("both_ways")

IS_ROOT = os.geteuid() == 0


def nothing() -> None:
    """A check that finds nothing wrong."""


@contextmanager
def parent_of(world, asked: str):
    with world.territory.parent(world.territory.find(asked, Access.write), make=True) as parent:
        yield parent


def create(world, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    with parent_of(world, asked) as parent:
        put(parent, iter(pieces), like=None, before_commit=before_commit)


def replace(world, asked: str, *pieces: bytes, before_commit=nothing) -> None:
    place = world.territory.find(asked, Access.write)
    with opened_file(world.territory, place) as like, parent_of(world, asked) as parent:
        put(parent, iter(pieces), like=like, before_commit=before_commit)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- reading --


def test_a_file_is_read_from_anywhere_to_its_end(world):
    world.write("ws/f", "0123456789")
    with opened_file(world.territory, world.territory.find("f")) as file:
        assert file.size == 10
        assert file.read(0, 4) == b"0123"
        assert file.read(8, 4) == b"89"
        assert file.read(10, 4) == file.read(1000, 1) == file.read(0, 0) == b""
        assert file.read(0, 4) == b"0123"


def test_pieces_are_bounded_and_complete(world):
    data = os.urandom(CHUNK_BYTES * 2 + 3)
    (world.inside / "big").write_bytes(data)
    checks = []
    with opened_file(world.territory, world.territory.find("big")) as file:
        pieces = list(file.chunks(lambda: checks.append(1)))
        assert [len(piece) for piece in pieces] == [CHUNK_BYTES, CHUNK_BYTES, 3]
        assert b"".join(pieces) == data
        assert len(checks) == 4
        assert b"".join(file.chunks(nothing, 5, CHUNK_BYTES + 7)) == data[5 : CHUNK_BYTES + 7]
        assert list(file.chunks(nothing, 7, 7)) == list(file.chunks(nothing, len(data))) == []
        assert file.sha256(nothing) == hashlib.sha256(data).hexdigest()
        assert file.sha256(nothing, 10, 20) == hashlib.sha256(data[10:20]).hexdigest()


def test_reading_stops_when_it_is_told_to(world):
    (world.inside / "big").write_bytes(bytes(CHUNK_BYTES * 3))
    left = [nothing, nothing]

    def check() -> None:
        if not left:
            raise InterruptedError
        left.pop()

    with pytest.raises(InterruptedError), opened_file(world.territory, world.territory.find("big")) as file:
        file.sha256(check)


def test_an_opened_file_stays_the_same_when_another_takes_its_place(world):
    with opened_file(world.territory, world.territory.find("README.md")) as file:
        (world.inside / "new").write_text("other")
        (world.inside / "new").rename(world.inside / "README.md")
        assert file.read(0, 10) == b"ok"


def test_a_file_that_shrinks_is_read_to_its_new_end(world):
    path = world.write("ws/f", "0123456789")
    with opened_file(world.territory, world.territory.find("f")) as file:
        path.write_text("01")
        assert file.read(0, 10) == b"01"
        assert b"".join(file.chunks(nothing, 0, 10)) == b"01"


def test_the_version_changes_with_the_file_even_when_its_time_is_set_back(world):
    path = world.write("ws/f", "one")
    place = world.territory.find("f")

    def version() -> str:
        with opened_file(world.territory, place) as file:
            return file.version

    first = version()
    assert version() == first
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert version() != first


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_regular_file_is_refused_without_waiting(world, kind):
    thing = world.inside / "thing"
    with socket.socket(socket.AF_UNIX) as unix:
        match kind:
            case "pipe":
                os.mkfifo(thing)
            case "socket":
                unix.bind(str(thing))
            case "device":
                if not IS_ROOT:
                    pytest.skip("only root can make a device")
                os.mknod(thing, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        with (
            pytest.raises(ToolError, match="not a regular file") as caught,
            opened_file(world.territory, world.territory.find("thing")),
        ):
            pass
        assert caught.value.error_code is ErrorCode.EXECUTION_ERROR
        with (
            parent_of(world, "thing") as parent,
            pytest.raises(ToolError, match="not a regular file"),
            opened_in(parent.descriptor, "thing", "thing"),
        ):
            pass


def test_a_pipe_is_not_even_opened_so_nobody_at_its_other_end_is_woken(world):
    os.mkfifo(world.inside / "pipe")
    writer = "import sys; open(sys.argv[1], 'wb'); print('opened')"
    with subprocess.Popen(
        [sys.executable, "-c", writer, world.inside / "pipe"], stdout=subprocess.PIPE
    ) as end:
        for _ in range(50):
            with (
                pytest.raises(ToolError),
                opened_file(world.territory, world.territory.find("pipe")),
            ):
                pass
        assert end.poll() is None
        os.kill(end.pid, signal.SIGKILL)
        assert end.stdout is not None
        assert end.stdout.read() == b""


def test_a_folder_is_no_file(world):
    with pytest.raises(IsADirectoryError), opened_file(world.territory, world.territory.find("src")):
        pass


def test_a_link_in_a_folder_is_not_read(world):
    world.link("ws/link", "README.md")
    with (
        parent_of(world, "x") as parent,
        pytest.raises(OSError, match="symbolic links"),
        opened_in(parent.descriptor, "link", "link"),
    ):
        pass


def test_look_sees_the_thing_itself(world):
    world.link("ws/link", "../outside/secret.txt")
    place = world.territory.find("link", follow=False)
    with world.territory.parent(place) as parent:
        status = look(parent)
        assert status is not None
        assert stat.S_ISLNK(status.st_mode)
    with parent_of(world, "missing") as parent:
        assert look(parent) is None


# -- writing --


@pytest.fixture(params=["without a name", "with a name of ours"])
def _unseen(request, monkeypatch) -> None:
    """Both ways to write a file before anybody sees it."""
    if request.param == "with a name of ours":
        monkeypatch.setattr(files, "_open_unnamed", lambda _folder, _mode: None)


@pytest.mark.usefixtures("_unseen")
class TestPut:
    def test_a_new_file_appears_whole(self, world):
        def check() -> None:
            assert not (world.inside / "new/f").exists()

        create(world, "new/f", b"one", b"", b"two", before_commit=check)
        assert (world.inside / "new/f").read_bytes() == b"onetwo"
        assert names(world.inside / "new") == ["f"]

    def test_a_file_without_content_is_a_file(self, world):
        create(world, "f")
        assert (world.inside / "f").read_bytes() == b""

    @pytest.mark.parametrize("name", ["\udcff\udc80", "a\nb", "-rf", "日本", "x" * 255, " "])
    def test_any_name_can_be_written(self, world, name):
        create(world, f"empty/{name}", b"1")
        replace(world, f"empty/{name}", b"2")
        assert names(world.inside / "empty") == [name]
        assert (world.inside / "empty" / name).read_bytes() == b"2"

    def test_an_existing_file_is_replaced_whole(self, world):
        def check() -> None:
            assert (world.inside / "README.md").read_text() == "ok"

        replace(world, "README.md", b"new", before_commit=check)
        assert (world.inside / "README.md").read_text() == "new"

    @pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling", "out"])
    def test_creating_never_replaces_what_appeared_in_between(self, world, kind):
        path = world.inside / "empty/f"

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
                    path.symlink_to(world.outside / "new")

        with pytest.raises(FileExistsError):
            create(world, "empty/f", b"new", before_commit=appear)
        assert names(world.inside / "empty") == ["f"]
        assert kind != "file" or path.read_text() == "precious"
        assert not (world.outside / "new").exists()
        assert (world.inside / "README.md").read_text() == "ok"

    def test_a_link_that_appeared_in_between_is_replaced_and_not_followed(self, world):
        path = world.inside / "README.md"

        def swap() -> None:
            path.unlink()
            path.symlink_to(world.outside / "secret.txt")

        before = (world.outside / "secret.txt").stat()
        replace(world, "README.md", b"new", before_commit=swap)
        assert not path.is_symlink()
        assert path.read_text() == "new"
        assert (world.outside / "secret.txt").stat() == before

    def test_a_folder_that_appeared_in_between_stays(self, world):
        path = world.inside / "empty/f"
        path.write_text("")

        def swap() -> None:
            path.unlink()
            path.mkdir()

        with pytest.raises(IsADirectoryError):
            replace(world, "empty/f", b"new", before_commit=swap)
        assert names(world.inside / "empty") == ["f"]

    def test_the_other_name_of_a_hard_link_keeps_its_content(self, world):
        path = world.write("ws/empty/f", "old")
        other = world.outside / "other"
        other.hardlink_to(path)
        replace(world, "empty/f", b"new")
        assert (path.read_text(), other.read_text()) == ("new", "old")

    @pytest.mark.parametrize("where", ["pieces", "commit"])
    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit])
    def test_a_failure_leaves_the_old_file_and_nothing_else(self, world, where, error):
        world.write("ws/empty/f", "old")

        def pieces():
            yield b"x" * 100_000
            if where == "pieces":
                raise error

        def commit() -> None:
            if where == "commit":
                raise error

        place = world.territory.find("empty/f", Access.write)
        with opened_file(world.territory, place) as like, parent_of(world, "empty/f") as parent:
            for kind in (like, None):
                with pytest.raises(error):
                    put(parent, pieces(), like=kind, before_commit=commit)
        assert names(world.inside / "empty") == ["f"]
        assert (world.inside / "empty/f").read_text() == "old"

    def test_a_disk_that_cannot_keep_it_leaves_the_old_file(self, world, monkeypatch):
        world.write("ws/empty/f", "old")

        def broken(_descriptor: int) -> None:
            raise OSError(errno.EIO, "broken")

        monkeypatch.setattr(os, "fsync", broken)
        for write, name in ((replace, "empty/f"), (create, "empty/g")):
            with pytest.raises(OSError, match="broken"):
                write(world, name, b"new")
        assert names(world.inside / "empty") == ["f"]
        assert (world.inside / "empty/f").read_text() == "old"

    def test_the_content_is_on_disk_before_its_name_is_and_then_the_folder(self, world, monkeypatch):
        synced = []
        fsync = os.fsync

        def watched(descriptor: int) -> None:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            synced.append(("folder" if is_folder else "file", names(world.inside / "empty").count("f")))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", watched)
        create(world, "empty/f", b"x")
        assert synced == [("file", 0), ("folder", 1)]

    def test_a_short_write_is_continued(self, world, monkeypatch):
        write = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
        create(world, "f", b"0123456789")
        assert (world.inside / "f").read_bytes() == b"0123456789"

    def test_a_file_over_the_processs_limit_is_not_written(self, world):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        world.write("ws/empty/f", "old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(OSError, match="too large"):
                replace(world, "empty/f", b"x" * 2000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert names(world.inside / "empty") == ["f"]
        assert (world.inside / "empty/f").read_text() == "old"

    @pytest.mark.skipif(not IS_ROOT, reason="only root can mount a small disk")
    def test_a_full_disk_leaves_the_old_file_and_nothing_else(self, world):
        folder = world.inside / "empty"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False)
        if mounted.returncode:
            pytest.skip("mounting is not permitted here")
        try:
            (folder / "f").write_text("old")
            for write, name in ((replace, "empty/f"), (create, "empty/g")):
                with pytest.raises(OSError, match="No space left"):
                    write(world, name, *[bytes(8192)] * 20)
            assert names(folder) == ["f"]
            assert (folder / "f").read_text() == "old"
            replace(world, "empty/f", b"fits")
            assert (folder / "f").read_text() == "fits"
        finally:
            subprocess.run(["umount", folder], check=True)

    @pytest.mark.skipif(not IS_ROOT, reason="only root can mount a disk read-only")
    def test_a_read_only_disk_is_the_systems_error(self, world):
        folder = world.inside / "empty"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder], check=False)
        if mounted.returncode:
            pytest.skip("mounting is not permitted here")
        try:
            with pytest.raises(OSError, match="Read-only"):
                create(world, "empty/f", b"x")
        finally:
            subprocess.run(["umount", folder], check=True)

    # -- what a replaced file keeps --

    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664, 0o400, 0o777, 0o000])
    def test_permissions_are_kept(self, world, mode):
        path = world.write("ws/f")
        path.chmod(mode)
        if not IS_ROOT and not mode & 0o400:
            pytest.skip("only root can read it")
        replace(world, "f", b"new")
        assert stat.S_IMODE(path.stat().st_mode) == mode

    @pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755])
    def test_what_the_old_content_was_trusted_with_is_not_kept(self, world, mode):
        path = world.write("ws/f")
        path.chmod(mode)
        replace(world, "f", b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o755

    @pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
    def test_a_new_file_gets_the_usual_permissions(self, world, umask):
        before = os.umask(umask)
        try:
            create(world, "f", b"x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((world.inside / "f").stat().st_mode) == 0o666 & ~umask

    @pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")
    def test_the_owner_is_kept(self, world):
        path = world.write("ws/f")
        os.chown(path, 1234, 5678)
        path.chmod(0o640)
        replace(world, "f", b"new")
        status = path.stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 5678, 0o640)

    @pytest.mark.skipif(not IS_ROOT, reason="only root can become another account and back")
    def test_what_another_group_was_allowed_is_not_given_to_this_one(self, world):
        path = world.write("ws/empty/f")
        os.chown(path, 1234, 5678)
        path.chmod(0o664)
        (world.inside / "empty").chmod(0o777)
        with as_nobody(world):
            replace(world, "empty/f", b"new")
        status = path.stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, 65534, 0o644)

    def test_attributes_are_kept(self, world):
        path = world.write("ws/f")
        try:
            os.setxattr(path, "user.note", b"mine")
        except OSError:
            pytest.skip("this file system has no attributes")
        replace(world, "f", b"new")
        assert os.getxattr(path, "user.note") == b"mine"

    def test_an_access_list_is_kept(self, world):
        path = world.write("ws/f")
        path.chmod(0o640)
        set_list(path, "access", ACCESS_LIST)
        mode = path.stat().st_mode
        replace(world, "f", b"new")
        assert os.getxattr(path, "system.posix_acl_access") == ACCESS_LIST
        assert path.stat().st_mode == mode

    def test_a_folders_default_list_opens_a_replaced_file_to_nobody(self, world):
        path = world.write("ws/empty/f")
        path.chmod(0o660)
        set_list(world.inside / "empty", "default", ACCESS_LIST)
        replace(world, "empty/f", b"new")
        assert "system.posix_acl_access" not in os.listxattr(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660

    def test_a_new_file_gets_the_folders_default_list(self, world):
        set_list(world.inside / "empty", "default", ACCESS_LIST)
        create(world, "empty/f", b"new")
        (world.inside / "empty/usual").touch()
        expected = os.getxattr(world.inside / "empty/usual", "system.posix_acl_access")
        assert os.getxattr(world.inside / "empty/f", "system.posix_acl_access") == expected
        assert stat.S_IMODE((world.inside / "empty/f").stat().st_mode) & 0o007 == 0

    def test_where_the_access_list_cannot_be_kept_the_group_gets_no_more_than_anyone(
        self, world, monkeypatch
    ):
        path = world.write("ws/f")
        set_list(path, "access", ACCESS_LIST)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660

        def refused(*_arguments) -> None:
            raise OSError(errno.ENOTSUP, "no lists here")

        monkeypatch.setattr(os, "setxattr", refused)
        replace(world, "f", b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_nothing_stays_open(self, world):
        before = open_descriptors()
        for number in range(20):
            create(world, f"empty/{number}", b"x")
            replace(world, f"empty/{number}", b"y")
            with pytest.raises(FileExistsError):
                create(world, f"empty/{number}", b"z")
        assert open_descriptors() == before


@contextmanager
def as_nobody(world):
    """As an account without rights of its own; the folders above are opened for it to pass through."""
    above = [path for path in (world.top, *world.top.parents) if path.stat().st_mode & 0o001 == 0]
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


KILLED = """
import os, signal, sys
from pathlib import Path
from interlock.sandbox.files import opened_file, put
from interlock.sandbox.paths import Access, Territory
from interlock.sandbox.profile import SandboxProfile

root = Path(sys.argv[1])
territory = Territory(SandboxProfile((root,), (root,)))
place = territory.find("f", Access.write)

def pieces():
    yield b"x" * 1_000_000
    if sys.argv[2] == "pieces":
        os.kill(os.getpid(), signal.SIGKILL)

def commit():
    if sys.argv[2] == "commit":
        os.kill(os.getpid(), signal.SIGKILL)

with opened_file(territory, place) as like, territory.parent(place) as parent:
    put(parent, pieces(), like=like, before_commit=commit)
"""


@pytest.mark.parametrize("where", ["pieces", "commit"])
def test_a_process_that_is_killed_leaves_the_old_file_and_nothing_else(world, where):
    folder = world.inside / "empty"
    (folder / "f").write_text("old")
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no files without a name")
    done = subprocess.run([sys.executable, "-c", KILLED, folder, where], check=False)
    assert done.returncode == -signal.SIGKILL
    assert names(folder) == ["f"]
    assert (folder / "f").read_text() == "old"


def test_settling_a_folder_that_cannot_be_settled_is_no_error(world):
    descriptor = os.open(world.inside / "empty", os.O_PATH)
    try:
        shutil.rmtree(world.inside / "empty")
        settle(descriptor)
    finally:
        os.close(descriptor)
