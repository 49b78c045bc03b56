"""Opening below a folder, and renaming without replacing, by every way there is."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.core import files
from interlock.core.files import open_beneath, rename_noreplace

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.fixture
def folder(roots):
    descriptor = os.open(roots.inside, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def error_of(folder: int, relative: str, flags: int) -> int:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is what is asked for
        os.close(open_beneath(folder, relative, flags))
    assert caught.value.errno is not None
    return caught.value.errno


FLAGS = [os.O_RDONLY, os.O_PATH, os.O_RDONLY | os.O_DIRECTORY, os.O_PATH | os.O_DIRECTORY]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("target", ["src", "../outside", "missing", "link", "/proc/self/fd/0"])
@pytest.mark.parametrize("relative", ["link", "link/x", "src/deep/inner/x"])
def test_no_link_is_passed_wherever_it_stands(roots, folder, flags, target, relative):
    """S3-6.1.2: and both ways say so with the same error."""
    roots.link("ws/link", target)
    roots.link("ws/src/deep/inner", target)
    assert error_of(folder, relative, flags) == errno.ELOOP


@pytest.mark.parametrize(
    "relative", ["..", "src/..", "src/../README.md", "/etc/passwd", "src/deep/../../.."]
)
def test_nothing_that_climbs_is_opened(folder, relative):
    """S3-6.1.3"""
    for flags in FLAGS:
        assert error_of(folder, relative, flags) == errno.EXDEV


def test_a_null_character_does_not_cut_a_path_short(roots, folder):
    assert error_of(folder, "README.md\0.txt", os.O_RDONLY) == errno.EINVAL
    with pytest.raises(OSError, match="Invalid argument"):
        rename_noreplace(folder, "README.md\0x", folder, "y")
    with pytest.raises(OSError, match="Invalid argument"):
        rename_noreplace(folder, "README.md", folder, "y\0x")
    assert (roots.inside / "README.md").exists()


def test_what_is_missing_or_no_folder_is_the_systems_error(folder):
    assert error_of(folder, "missing/x", os.O_RDONLY) == errno.ENOENT
    assert error_of(folder, "README.md/x", os.O_RDONLY) == errno.ENOTDIR
    assert error_of(folder, "README.md", os.O_RDONLY | os.O_DIRECTORY) == errno.ENOTDIR
    assert error_of(folder, "", os.O_RDONLY) == errno.ENOENT


def test_an_opened_descriptor_is_not_inherited(folder):
    descriptor = open_beneath(folder, "src/a.py", os.O_RDONLY)
    try:
        assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    finally:
        os.close(descriptor)


HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
import signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""


def test_somebody_who_holds_a_lease_cannot_hold_the_caller(roots, folder):
    """The kernel would answer "try again" until the lease is broken, three quarters of a minute later."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, roots.inside / "README.md"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert error_of(folder, "README.md", os.O_RDONLY | os.O_NONBLOCK) == errno.EAGAIN
        holder.communicate("")


def test_whether_the_kernel_has_openat2_is_asked_of_the_kernel(monkeypatch):
    monkeypatch.undo()
    has_openat2 = files.has_openat2.__wrapped__
    monkeypatch.setattr(files, "_OPENAT2", 100_000)
    assert has_openat2() is False


# -- renaming --


@pytest.fixture(params=["renameat2", "without it", "a file system without it"])
def renaming(request, monkeypatch):
    if request.param == "without it":
        monkeypatch.setattr(files, "_RENAMEAT2", None)
    elif request.param == "a file system without it":
        monkeypatch.setattr(files, "_RENAME_NOREPLACE", 1 << 30)


@pytest.mark.usefixtures("renaming")
class TestRenaming:
    def test_a_file_gets_its_new_name(self, roots, folder):
        rename_noreplace(folder, "README.md", folder, "new.md")
        assert not (roots.inside / "README.md").exists()
        assert (roots.inside / "new.md").read_text() == "ok"
        assert (roots.inside / "new.md").stat().st_nlink == 1

    def test_a_folder_gets_its_new_name_with_all_that_is_in_it(self, roots, folder):
        rename_noreplace(folder, "src", folder, "new")
        assert not (roots.inside / "src").exists()
        assert (roots.inside / "new/a.py").read_text() == "ok"

    def test_a_link_is_renamed_and_not_followed(self, roots, folder):
        roots.link("ws/link", "../outside/secret.txt")
        rename_noreplace(folder, "link", folder, "new")
        assert (roots.inside / "new").readlink() == Path("../outside/secret.txt")
        assert not (roots.inside / "link").is_symlink()

    @pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling"])
    @pytest.mark.parametrize("source", ["README.md", "src"])
    def test_what_is_there_stays(self, roots, folder, kind, source):
        there = roots.inside / "there"
        match kind:
            case "file":
                there.write_text("precious")
            case "folder":
                there.mkdir()
            case "link":
                there.symlink_to("empty")
            case "dangling":
                there.symlink_to("missing")
        before = there.lstat()
        with pytest.raises(FileExistsError):
            rename_noreplace(folder, source, folder, "there")
        assert there.lstat() == before
        assert (roots.inside / source).exists()

    def test_a_folder_is_not_moved_into_itself(self, roots, folder):
        deep = os.open(roots.inside / "src/deep", os.O_PATH)
        try:
            with pytest.raises(OSError, match="Invalid argument"):
                rename_noreplace(folder, "src", deep, "x")
        finally:
            os.close(deep)
        assert list((roots.inside / "src/deep").iterdir()) == []

    def test_what_is_missing_cannot_be_renamed(self, roots, folder):
        with pytest.raises(FileNotFoundError):
            rename_noreplace(folder, "missing", folder, "new")
        assert not (roots.inside / "new").exists()
