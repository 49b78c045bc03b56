"""Reading a file piece by piece, and what is no file to be read."""

import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.files import fsync_directory
from interlock.sandbox.file_io import CHUNK_BYTES, lstat_entry, open_file, open_file_in
from tests.unit.sandbox.conftest import open_descriptors
from tests.unit.sandbox.putting import IS_ROOT, nothing, parent_of

pytestmark = pytest.mark.usefixtures("both_ways")


def test_a_file_is_read_from_anywhere_to_its_end(roots):
    roots.write("ws/f", "0123456789")
    with open_file(roots.resolver, roots.resolver.find("f")) as file:
        assert file.size == 10
        assert file.read(0, 4) == b"0123"
        assert file.read(8, 4) == b"89"
        assert file.read(10, 4) == file.read(1000, 1) == file.read(0, 0) == b""
        assert file.read(0, 4) == b"0123"


def test_pieces_are_bounded_and_complete(roots):
    data = os.urandom(CHUNK_BYTES * 2 + 3)
    (roots.inside / "big").write_bytes(data)
    checks = []
    with open_file(roots.resolver, roots.resolver.find("big")) as file:
        pieces = list(file.chunks(lambda: checks.append(1)))
        assert [len(piece) for piece in pieces] == [CHUNK_BYTES, CHUNK_BYTES, 3]
        assert b"".join(pieces) == data
        assert len(checks) == 4
        assert b"".join(file.chunks(nothing, 5, CHUNK_BYTES + 7)) == data[5 : CHUNK_BYTES + 7]
        assert list(file.chunks(nothing, 7, 7)) == list(file.chunks(nothing, len(data))) == []
        assert file.sha256(nothing) == hashlib.sha256(data).hexdigest()
        assert file.sha256(nothing, 10, 20) == hashlib.sha256(data[10:20]).hexdigest()


def test_reading_stops_when_it_is_told_to(roots):
    (roots.inside / "big").write_bytes(bytes(CHUNK_BYTES * 3))
    left = [nothing, nothing]

    def check() -> None:
        if not left:
            raise InterruptedError
        left.pop()

    with pytest.raises(InterruptedError), open_file(roots.resolver, roots.resolver.find("big")) as file:
        file.sha256(check)


def test_an_opened_file_stays_the_same_when_another_takes_its_place(roots):
    with open_file(roots.resolver, roots.resolver.find("README.md")) as file:
        (roots.inside / "new").write_text("other")
        (roots.inside / "new").rename(roots.inside / "README.md")
        assert file.read(0, 10) == b"ok"


def test_a_file_that_shrinks_is_read_to_its_new_end(roots):
    path = roots.write("ws/f", "0123456789")
    with open_file(roots.resolver, roots.resolver.find("f")) as file:
        path.write_text("01")
        assert file.read(0, 10) == b"01"
        assert b"".join(file.chunks(nothing, 0, 10)) == b"01"


def test_the_version_changes_with_the_file_even_when_its_time_is_set_back(roots):
    path = roots.write("ws/f", "one")
    place = roots.resolver.find("f")

    def version() -> str:
        with open_file(roots.resolver, place) as file:
            return file.version

    first = version()
    assert version() == first
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert version() != first


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_regular_file_is_refused_without_waiting(roots, kind):
    thing = roots.inside / "thing"
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
            open_file(roots.resolver, roots.resolver.find("thing")),
        ):
            pass
        assert caught.value.error_code is ErrorCode.EXECUTION_ERROR
        with (
            parent_of(roots, "thing") as parent,
            pytest.raises(ToolError, match="not a regular file"),
            open_file_in(parent.descriptor, "thing", "thing"),
        ):
            pass


def test_a_pipe_is_not_even_opened_so_nobody_at_its_other_end_is_woken(roots):
    os.mkfifo(roots.inside / "pipe")
    writer = "import sys; open(sys.argv[1], 'wb'); print('opened')"
    with subprocess.Popen(
        [sys.executable, "-c", writer, roots.inside / "pipe"], stdout=subprocess.PIPE
    ) as end:
        for _ in range(50):
            with (
                pytest.raises(ToolError),
                open_file(roots.resolver, roots.resolver.find("pipe")),
            ):
                pass
        assert end.poll() is None
        os.kill(end.pid, signal.SIGKILL)
        assert end.stdout is not None
        assert end.stdout.read() == b""


def test_a_folder_is_no_file(roots):
    with pytest.raises(IsADirectoryError), open_file(roots.resolver, roots.resolver.find("src")):
        pass


def test_a_link_in_a_folder_is_not_read(roots):
    roots.link("ws/link", "README.md")
    with (
        parent_of(roots, "x") as parent,
        pytest.raises(OSError, match="symbolic links"),
        open_file_in(parent.descriptor, "link", "link"),
    ):
        pass


def test_look_sees_the_thing_itself(roots):
    roots.link("ws/link", "../outside/secret.txt")
    place = roots.resolver.find("link", follow=False)
    with roots.resolver.parent(place) as parent:
        status = lstat_entry(parent)
        assert status is not None
        assert stat.S_ISLNK(status.st_mode)
    with parent_of(roots, "missing") as parent:
        assert lstat_entry(parent) is None


def test_settling_a_folder_that_cannot_be_settled_is_no_error(roots):
    descriptor = os.open(roots.inside / "empty", os.O_PATH)
    try:
        shutil.rmtree(roots.inside / "empty")
        before = open_descriptors()
        fsync_directory(descriptor)
        assert open_descriptors() <= before
    finally:
        os.close(descriptor)
