"""The file system that a job sees under bubblewrap, as command-line arguments.

Mounts are made by path, and a path may lead elsewhere by then. So everything that a profile opens is opened
here first, and its identity is passed on: before a job runs, `job_runner.py` checks that each path is still
the same file inside. A mount then stays, whatever happens to the path.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.sandbox.jobs import DEVICES
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.protected import ProtectedName, fold_name, parse_protected_names

if TYPE_CHECKING:
    from interlock.sandbox.child.job_runner import FileIdentity

# The search for protected names is breadth first, up to this limit.
MAX_ENTRIES = 20_000
_PROC, _DEV = Path("/proc"), Path("/dev")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
_LINKS |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
READ_ONLY_BIND, READ_WRITE_BIND = "--ro-bind", "--bind"


class MountArguments:
    """Later mounts cover earlier ones, so writable ones come after readable ones."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self.identities: list[FileIdentity] = []

    def add(self, paths: Iterable[Path], how: str, *, may_miss: bool = False) -> None:
        """Add mounts. An `OSError` names a missing path."""
        for path in sorted(paths, key=lambda one: len(one.parts)):
            try:
                self._add(path, how)
            except FileNotFoundError:
                if not may_miss:
                    raise

    def _add(self, path: Path, how: str) -> None:
        device, inode, real = identify_path(path)
        if real != str(path):
            # It had no symlinks when it was judged. A job may have moved a directory inside an opened one,
            # and left a symlink to anywhere in its place.
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        self.words += [how, real, real]
        self.identities.append((os.fsencode(real), device, inode))

    def add_machine(self) -> None:
        """Read-only: inside, root owns the kernel's switches even without capabilities."""
        self.words += ["--proc", str(_PROC), "--remount-ro", str(_PROC), "--dir", str(_DEV)]
        for device in DEVICES:
            self.words += ["--dev-bind-try", str(device), str(device)]
        for name, target in _LINKS.items():
            self.words += ["--symlink", target, str(_DEV / name)]

    def add_protected(self, profile: SandboxProfile) -> None:
        """Mount existing protected names read-only, and the directories above them, which then cannot move.

        Nothing is created. `.git/HEAD` is not mounted, since git must replace it; the guard checks it
        afterwards.
        """
        rules = tuple(
            rule for rule in parse_protected_names(profile.protected_names) if not rule.git_rewrites
        )
        roots = {*profile.readable_roots, *profile.writable_roots}
        for root in profile.writable_roots if rules else ():
            outermost = min(
                (one for one in roots if root.is_relative_to(one)), key=lambda one: len(one.parts)
            )
            above = tuple(fold_name(part) for part in root.relative_to(outermost).parts)
            for path, is_protected in _protected_in(root, above, rules):
                with suppress(OSError):
                    self._add(path, READ_ONLY_BIND if is_protected else READ_WRITE_BIND)


def system_mount_arguments(paths: Iterable[Path]) -> list[str]:
    """Mounts of system paths except /proc, which is new.

    A symlink stays one if its target is mounted too.
    """
    chosen = sorted({path for path in paths if not path.is_relative_to(_PROC)})
    words: list[str] = []
    for path in chosen:
        above = [other for other in chosen if other != path and path.is_relative_to(other)]
        if above and not path.is_symlink():
            continue
        target = path.resolve()
        if not (path.is_symlink() and _is_in(target, chosen)):
            words += [f"{READ_ONLY_BIND}-try", str(target), str(path)]
        elif not above:
            words += ["--symlink", str(path.readlink()), str(path)]
    return words


def identify_path(path: Path) -> tuple[int, int, str]:
    """The device, inode and real path of the current file."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return file_identity(descriptor)
    finally:
        os.close(descriptor)


def file_identity(descriptor: int) -> tuple[int, int, str]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _is_in(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places if not place.is_symlink())


def _protected_in(
    root: Path, above: tuple[str, ...], rules: tuple[ProtectedName, ...]
) -> Iterator[tuple[Path, bool]]:
    """Existing protected names and the directories above them, outermost first.

    Symlinks are skipped: nothing can be mounted on one.
    """
    firsts = {rule.first for rule in rules}
    waiting = [(root, above)]
    seen = 0
    for folder, parts in waiting:
        is_near = None in firsts or not firsts.isdisjoint(parts)
        for name, is_folder in _entries(folder):
            seen += 1
            if seen > MAX_ENTRIES:
                return
            spelled = fold_name(name)
            path, whole = folder / name, (*parts, spelled)
            if is_near or spelled in firsts:
                if any(rule.anywhere.matches_whole(whole) for rule in rules):
                    yield path, True
                    continue
                if any(rule.covers(whole) for rule in rules):
                    yield path, False
            if is_folder:
                waiting.append((path, whole))


def _entries(folder: Path) -> Iterator[tuple[str, bool]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False) if not entry.is_symlink() else None
            if status is not None and (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
                yield entry.name, stat.S_ISDIR(status.st_mode)
