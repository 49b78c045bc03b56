"""Files that are read without waiting: the same files as otherwise, or none."""

import os
import stat
from pathlib import Path

import pytest

from interlock.core import files
from interlock.core.files import open_cached, statx_cached
from interlock.sandbox import page_cache_reader
from interlock.sandbox.page_cache_reader import MAX_BYTES, find_cached
from tests.unit.sandbox.conftest import CANARY, open_descriptors, territory_of


@pytest.fixture(autouse=True)
def _nothing_stays_open():
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@pytest.fixture(autouse=True)
def _here_is_a_local_disk(monkeypatch, tmp_path):
    """Whatever the tests run on counts as one, if the kernel can read from it without waiting."""
    file = tmp_path / "tried"
    file.write_text("x")
    with file.open("rb") as opened:
        try:
            os.preadv(opened.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except OSError:
            pytest.skip("this file system cannot be read without waiting")
        device = os.fstat(opened.fileno()).st_dev
    monkeypatch.setattr(
        page_cache_reader, "_local_devices", lambda: frozenset({(os.major(device), os.minor(device))})
    )


@pytest.mark.parametrize("asked", ["README.md", "src/a.py", "{top}/ws/README.md", "{top}/lib/b.py"])
def test_a_small_file_is_found_and_read_where_it_is_otherwise_found(roots, asked):
    asked = asked.format(top=roots.top)
    place, file = find_cached(roots.resolver, asked)
    assert place == roots.resolver.find(asked)
    assert place.spelled == str(place.path)
    # Reading moves the access time, which is not compared.
    assert os.path.samestat(file.status, place.path.stat())
    assert (file.status.st_size, file.status.st_mtime_ns) == (2, place.path.stat().st_mtime_ns)
    assert file.content == place.path.read_bytes()
    assert (file.read(1, 1), b"".join(file.chunks(lambda: None, 1))) == (b"k", b"k")


@pytest.mark.parametrize(
    "asked",
    [
        *("../outside/secret.txt", "src/../README.md", "./README.md", "src//a.py", "README.md/", ".", "/"),
        *(
            "{top}/outside/secret.txt",
            "{top}/ws-secrets/k.txt",
            "{top}/ws",
            "{top}/ws/../outside/secret.txt",
        ),
        *("nothing.txt", "src/nothing/a.py", "README.md/a.py"),
    ],
)
def test_what_takes_more_than_a_look_is_left_alone(roots, asked):
    assert find_cached(roots.resolver, asked.format(top=roots.top)) is None


@pytest.mark.parametrize("target", ["README.md", "../outside/secret.txt", "/etc/passwd", "nowhere"])
def test_no_link_is_followed_to_a_file_or_through_a_folder(roots, target):
    roots.link("ws/link.txt", target)
    roots.link("ws/folder", "src")
    roots.link("ws/out", "../outside")
    for asked in ("link.txt", "folder/a.py", "out/secret.txt"):
        assert find_cached(roots.resolver, asked) is None


def test_a_root_that_became_a_link_is_not_followed(roots):
    assert find_cached(roots.resolver, "README.md") is not None
    roots.inside.rename(roots.top / "was")
    roots.write("outside/README.md", CANARY)
    roots.inside.symlink_to(roots.outside)
    assert find_cached(roots.resolver, "README.md") is None


def test_a_root_that_was_made_anew_is_the_one_that_is_read(roots):
    roots.inside.rename(roots.top / "was")
    roots.write("ws/README.md", "new")
    assert find_cached(roots.resolver, "README.md")[1].content == b"new"


def test_the_deepest_root_is_the_one(roots):
    resolver = territory_of(roots.inside, roots.inside / "src", writable=())
    place, _ = find_cached(resolver, "src/a.py")
    assert place == resolver.find("src/a.py")
    assert place.root == roots.inside / "src"


def test_what_is_no_small_regular_file_is_found_and_not_read(roots):
    os.mkfifo(roots.inside / "pipe")
    roots.write("ws/large.txt", "x" * (MAX_BYTES + 1))
    os.link(roots.outside / "secret.txt", roots.inside / "hard.txt")
    for asked in ("pipe", "large.txt", "hard.txt", "src"):
        place, file = find_cached(roots.resolver, asked)
        assert place == roots.resolver.find(asked)
        assert file is None


def test_where_the_operator_allows_hard_links_they_are_read(roots):
    os.link(roots.inside / "README.md", roots.inside / "hard.txt")
    resolver = territory_of(roots.inside, reads_hard_links=True)
    assert find_cached(resolver, "hard.txt")[1].content == b"ok"


@pytest.mark.parametrize("size", [0, 1, MAX_BYTES])
def test_sizes_at_the_bounds_are_read_whole(roots, size):
    roots.write("ws/file.txt", "x" * size)
    assert find_cached(roots.resolver, "file.txt")[1].content == b"x" * size


def _forgotten(path: Path) -> None:
    """Out of the kernel's memory, where it does as it is asked."""
    with path.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_content_that_is_not_in_memory_is_not_waited_for(roots):
    for name in ("tried.txt", "file.txt"):
        _forgotten(roots.write(f"ws/{name}", "x" * MAX_BYTES))
    with (roots.inside / "tried.txt").open("rb", buffering=0) as opened:
        try:
            os.preadv(opened.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            pass
        else:
            pytest.skip("the kernel keeps it in memory all the same")
    place, found = find_cached(roots.resolver, "file.txt")
    assert (place.name, found) == ("file.txt", None)


def test_a_file_that_grew_since_it_was_looked_at_is_not_half_read(roots, monkeypatch):
    monkeypatch.setattr(os, "preadv", lambda *_arguments: 1)
    assert find_cached(roots.resolver, "README.md")[1] is None


def test_nothing_of_another_file_system_is_opened(roots, monkeypatch):
    """It may belong to a server that does not answer: to open a file there, or to ask its size, waits."""
    monkeypatch.setattr(page_cache_reader, "_local_devices", frozenset)
    monkeypatch.setattr(page_cache_reader, "_content", lambda _found: pytest.fail("it was opened"))
    assert find_cached(roots.resolver, "README.md")[1] is None


def test_names_that_are_not_in_memory_are_not_waited_for(roots, monkeypatch):
    openat2 = files._openat2

    def cold(folder, path, flags, resolve=files._WITHOUT_LINKS):
        if resolve & files._RESOLVE_CACHED and path.endswith(b"README.md"):
            raise BlockingIOError
        return openat2(folder, path, flags, resolve)

    monkeypatch.setattr(files, "_openat2", cold)
    assert find_cached(roots.resolver, "README.md") is None


def test_without_openat2_nothing_is_known_at_once(roots, monkeypatch):
    monkeypatch.setattr(files, "has_openat2", lambda: False)
    assert find_cached(roots.resolver, "README.md") is None


@pytest.mark.parametrize("number", [None, 100_000])
def test_without_statx_nothing_is_read(roots, monkeypatch, number):
    monkeypatch.setattr(files, "_STATX", number)
    assert find_cached(roots.resolver, "README.md")[1] is None


def test_a_cached_name_is_opened_as_strictly_as_any(roots):
    roots.link("ws/link.txt", "README.md")
    folder = os.open(roots.inside, os.O_PATH)
    try:
        for relative in ("../outside/secret.txt", "/etc/passwd", "link.txt", "a\0b"):
            with pytest.raises(OSError, match=r"Errno"):
                open_cached(folder, relative, os.O_PATH)
    finally:
        os.close(folder)


def test_a_look_tells_what_the_system_tells(roots):
    path = roots.write("ws/file.txt", "four")
    with path.open("rb") as opened:
        look = statx_cached(opened.fileno())
    status = path.stat()
    assert stat.S_ISREG(look.mode)
    assert (look.mode, look.size, look.links) == (status.st_mode, 4, 1)
    assert os.makedev(*look.device) == status.st_dev


def test_local_disks_are_told_by_their_kind(monkeypatch, tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "23 22 8:17 / /data\\040disk rw - xfs /dev/sdb1 rw\n"
        "24 22 0:50 / /home/far rw - fuse.sshfs far: rw\n"
        "25 22 8:33 / /mnt/stick rw - fuseblk /dev/sdc1 rw\n"
        "26 22 0:51 / /mnt/share rw - nfs4 server:/ rw\n"
    )
    monkeypatch.undo()
    monkeypatch.setattr(page_cache_reader, "_MOUNTS", Path(mounts))
    assert page_cache_reader._local_devices.__wrapped__() == {(254, 0), (8, 17)}
