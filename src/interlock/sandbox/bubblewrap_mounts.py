"""What a job sees of the file system under bubblewrap, as the words that tell it so.

Mounts are made by path, and a path may lead elsewhere by the time it is mounted. So everything that a
profile opens is opened here first, and its identity goes along: before a job runs, `job_runner.py` makes
sure that each path is still the same file in there. What is mounted then stays so, whatever becomes of
the path.
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

# Folders are searched for protected names breadth first, and no further than this.
MAX_ENTRIES = 20_000
_PROC, _DEV = Path("/proc"), Path("/dev")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
_LINKS |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
READ_ONLY_BIND, READ_WRITE_BIND = "--ro-bind", "--bind"


class MountArguments:
    """Later ones lie over earlier ones, so what is written comes after what is read."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self.identities: list[FileIdentity] = []

    def add(self, paths: Iterable[Path], how: str, *, may_miss: bool = False) -> None:
        """An `OSError` names what is missing."""
        for path in sorted(paths, key=lambda one: len(one.parts)):
            try:
                self._add(path, how)
            except FileNotFoundError:
                if not may_miss:
                    raise

    def _add(self, path: Path, how: str) -> None:
        device, inode, real = identify_path(path)
        if real != str(path):
            # It was free of links when it was judged. A job may have moved a folder inside an opened one
            # away, and left a link to anywhere in its place.
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        self.words += [how, real, real]
        self.identities.append((os.fsencode(real), device, inode))

    def add_machine(self) -> None:
        """Read-only, for root owns the switches of the kernel in there even without any capability."""
        self.words += ["--proc", str(_PROC), "--remount-ro", str(_PROC), "--dir", str(_DEV)]
        for device in DEVICES:
            self.words += ["--dev-bind-try", str(device), str(device)]
        for name, target in _LINKS.items():
            self.words += ["--symlink", target, str(_DEV / name)]

    def add_protected(self, profile: SandboxProfile) -> None:
        """Names that exist and must not be written are read-only. The folders they need above them become
        mounts of their own, which cannot be moved away. Nothing is made: what is missing stays missing.
        `.git/HEAD` is not mounted, for git could not replace it; the guard judges it afterwards."""
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
    """Not /proc, which is a new one. A link stays one, where what it leads to is there as well."""
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
    """Device, inode and real path of what is there now."""
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
    """What exists of the protected names, and of the folders they need, the outer ones first.

    Links are passed over: nothing can be mounted on one.
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
