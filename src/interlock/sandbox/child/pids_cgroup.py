"""Control groups by which the kernel itself bounds how many processes a job has.

Each supervisor (or job runner) enters a group of its own before it runs a job, and everything that the job
starts is born in it. A group is made where this account may make one whose processes still count for the
service: below the own group of the old hierarchy (cgroup v1), or in a version 2 group that systemd
delegated (`Delegate=pids` with `DelegateSubgroup=`). Elsewhere processes are only counted now and then.

It imports nothing of Interlock: it is loaded into the launcher.
"""

import itertools
import os

_PREFIX = "interlock"
# The supervisor is in the group as well, with a thread that measures memory.
_BESIDE_THE_JOB = 2
_numbers = itertools.count()


class PidsCgroup:
    def __init__(self, base: str) -> None:
        self._path = f"{base}/{_PREFIX}-{os.getpid()}-{next(_numbers)}"
        os.mkdir(self._path, 0o700)  # noqa: PTH102 - pathlib is large
        try:
            for descriptor in (self.entrance(), self.refusals()):
                os.close(descriptor)
            self.bound(None)
        except OSError:
            self.remove()
            raise

    def bound(self, tasks: int | None) -> None:
        """To as many processes and threads as a job may have; `None` is no bound."""
        _write(f"{self._path}/pids.max", "max" if tasks is None else str(tasks + _BESIDE_THE_JOB))

    def entrance(self) -> int:
        """A descriptor: a process that writes `0` to it enters, as `enter` does."""
        return os.open(f"{self._path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def refusals(self) -> int:
        """A descriptor for `count_refused`."""
        return os.open(f"{self._path}/pids.events", os.O_RDONLY | os.O_CLOEXEC)

    def remove(self) -> None:
        _remove(self._path)


def enter(entrance: int) -> None:
    """Takes the descriptor. Where the system refuses, processes are counted as if there were no group."""
    try:
        os.write(entrance, b"0")
    except OSError:
        pass
    finally:
        os.close(entrance)


def count_refused_forks(refusals: int | None) -> int:
    """How often the kernel refused a process for the group's bound."""
    if refusals is None:
        return 0
    fields = os.pread(refusals, 64, 0).split()
    return int(fields[1]) if fields[:1] == [b"max"] else 0


def create_group(base: str | None) -> PidsCgroup | None:
    try:
        return None if base is None else PidsCgroup(base)
    except OSError:
        return None


def find_writable_cgroup() -> str | None:
    """The directory in which groups may be made, if any, without those that dead processes left there."""
    try:
        base = _base()
        if base is not None:
            _remove_groups(base, of_this_process=False)
    except OSError:
        return None
    return base


def remove_own_groups(base: str | None) -> None:
    if base is not None:
        _remove_groups(base, of_this_process=True)


def _base() -> str | None:
    for line in _lines("/proc/self/cgroup"):
        hierarchy, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            own = _mounted("cgroup", "pids", path)
            return own if own is not None and os.access(own, os.W_OK) else None
        if hierarchy == "0":
            return _delegated(_mounted("cgroup2", "", path))
    return None


def _remove_groups(base: str, *, of_this_process: bool) -> None:
    """One that is in use cannot be removed."""
    for name in os.listdir(base):  # noqa: PTH208 - pathlib is large
        prefix, _, rest = name.partition("-")
        maker = rest.partition("-")[0]
        if prefix != _PREFIX or not maker.isdigit():
            continue
        is_own, is_alive = int(maker) == os.getpid(), os.path.exists(f"/proc/{maker}")  # noqa: PTH110
        if is_own if of_this_process else not is_alive:
            _remove(f"{base}/{name}")


def _delegated(own: str | None) -> str | None:
    """The group above, which systemd gave to this service with everything below it."""
    if own is None:
        return None
    above = os.path.dirname(own)  # noqa: PTH120 - pathlib is large
    if os.getxattr(above, "user.delegate") != b"1":
        return None
    _write(f"{above}/cgroup.subtree_control", "+pids")
    return above


def _mounted(kind: str, option: str, path: str) -> str | None:
    """Where a group of a hierarchy is found in the file system."""
    for line in _lines("/proc/self/mountinfo"):
        fields, _, rest = line.partition(" - ")
        root, place = fields.split(" ")[3:5]
        found, _source, options = rest.split(" ", 2)
        if found == kind and (not option or option in options.split(",")):
            return place + path.removeprefix(root.rstrip("/")).rstrip("/")
    return None


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is large
        return file.read().splitlines()


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.rmdir(path)  # noqa: PTH106 - pathlib is large
    except OSError:
        return
