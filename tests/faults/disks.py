"""Real small file systems, which run full, lose their inodes or become read-only while they are in use."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest


def _can_mount() -> bool:
    if shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
        return True


TAKE_ALL = """
import os, sys
filler, is_full = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), False
while True:
    try:
        os.write(filler, b"x" * 4096)
    except OSError:
        is_full = is_full or os.write(1, b".")
"""

mounting = pytest.mark.skipif(not _can_mount(), reason="this user may not mount a file system")


@dataclass(frozen=True)
class Disk:
    path: Path

    @property
    def _filler(self) -> Path:
        return self.path / "filler"

    @property
    def _crumbs(self) -> Path:
        return self.path / "crumbs"

    def fill(self, leaving: int = 0) -> None:
        """Take all space but so many bytes."""
        descriptor = os.open(self._filler, os.O_CREAT | os.O_WRONLY)
        with suppress(OSError):
            while True:
                os.write(descriptor, b"x" * 4096)
        size = os.fstat(descriptor).st_size
        os.ftruncate(descriptor, max(0, size - leaving))
        os.close(descriptor)

    @contextmanager
    def kept_full(self) -> Iterator[None]:
        """Another program takes whatever is free, again and again."""
        program = [sys.executable, "-c", TAKE_ALL, str(self._filler)]
        with subprocess.Popen(program, stdout=subprocess.PIPE) as taking:
            try:
                taking.stdout.read(1)
                yield
            finally:
                taking.kill()

    def free(self) -> None:
        self._filler.unlink()

    def use_up_names(self) -> None:
        """Leave no inode for a new file."""
        self._crumbs.mkdir()
        with suppress(OSError):
            for number in range(1_000_000):
                (self._crumbs / str(number)).touch()

    def give_names_back(self) -> None:
        for crumb in self._crumbs.iterdir():
            crumb.unlink()
        self._crumbs.rmdir()

    def remount(self, option: str) -> None:
        """`ro`, as a system does whose disk failed, or `rw` again."""
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.path)], check=True)


@contextmanager
def small_disk(folder: Path, *, size: str = "2m", inodes: int = 500) -> Iterator[Disk]:
    folder.mkdir()
    options = f"size={size},nr_inodes={inodes}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield Disk(folder)
    finally:
        # A process that has just been ended may hold it for a moment.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
