"""Temporary directories of jobs, never inside an opened one.

There, a command of another session could change their content, or put a symlink in their place. A process
holds a lock on each directory of its jobs. A directory without a lock was left by a killed process, and the
next one to start removes it.
"""

import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from interlock.core.file_lock import take_lock
from interlock.sandbox.jobs import SandboxUnavailable
from interlock.sandbox.remove_untrusted_tree import remove_entry

_USUAL_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - a new folder is made there
_PREFIX = "interlock-job-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def choose_temporary_root(opened: Iterable[Path]) -> Path:
    """By its real path."""
    roots = tuple(opened)
    for name in (tempfile.gettempdir(), *_USUAL_PLACES):
        place = Path(name).resolve()
        if place.is_dir() and not any(place.is_relative_to(root) for root in roots):
            return place
    raise SandboxUnavailable(
        "every folder for temporary files is an opened folder; set TMPDIR to another one"
    )


def make_job_directory(place: Path) -> tuple[Path, int]:
    """A new directory, and the descriptor whose lock marks it as in use."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        lock = _locked(directory)
        # A process that starts at this moment may have taken it for an abandoned one.
        if lock is not None and directory.exists():
            return directory, lock
        if lock is not None:
            os.close(lock)


def remove_job_directory(directory: Path, lock: int) -> None:
    try:
        _remove(directory)
    finally:
        os.close(lock)


def remove_abandoned_directories(place: Path) -> None:
    """Remove directories of killed processes of this account."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if not _NAME.fullmatch(entry.name) or not _is_own(entry):
                continue
            lock = _locked(Path(entry.path))
            if lock is not None:
                remove_job_directory(Path(entry.path), lock)


def _is_own(entry: "os.DirEntry[str]") -> bool:
    """False if it was removed meanwhile, or cannot be read."""
    try:
        return entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return False


def _locked(directory: Path) -> int | None:
    """Lock it; None if in use or removed."""
    try:
        descriptor = os.open(directory, _DIRECTORY)
    except OSError:
        return None
    with suppress(OSError):
        if take_lock(descriptor, patience_seconds=0):
            return descriptor
    os.close(descriptor)
    return None


def _remove(directory: Path) -> None:
    with suppress(OSError):
        above = os.open(directory.parent, _DIRECTORY)
        try:
            remove_entry(above, directory.name)
        finally:
            os.close(above)
