# ruff: noqa: PTH101, PTH115, PTH208
"""The probe's children: try to escape from the sandbox, and report how far they came.

The text of this file runs in the sandbox, in an isolated interpreter, with the targets given by `probe.py`,
which judges by the actual effects. It imports little (no `pathlib`), since it runs at every start.
"""

import _socket
import binascii
import errno
import fcntl
import marshal
import os
import sys
import time

# As type checkers know it: to load `typing` takes as long as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Root owns it, and needs no capability to write it. Opening it changes nothing.
_SWITCH = "/proc/sys/kernel/core_pattern"
_SURVIVOR_SECONDS = 3
_MAX_DESCRIPTORS = 4096
_SOCKET_SECONDS = 1.0


def attempts(facts: "dict[str, Any]") -> "dict[str, Callable[[], object]]":
    """By name, in the order they are tried in. An answer of `None` means that it worked."""
    inside, outside, state = facts["inside"], facts["outside"], facts["state"]
    server = facts["server"]
    return {
        "read_inside": lambda: _read(f"{inside}/file"),
        "write_inside": lambda: _write(f"{inside}/new-{facts['kind']}", facts["secret"]),
        "change_inside": lambda: os.chmod(f"{inside}/{facts['kind']}", 0o640),
        "use_null": lambda: _write("/dev/null", b"x", os.O_WRONLY),
        "run_shell": lambda: os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", "echo x > /dev/null"]),  # noqa: S606
        "environment": lambda: sorted(os.environ),
        "descriptors": _descriptors,
        "read_outside": lambda: _read(f"{outside}/file"),
        "list_outside": lambda: os.listdir(outside),
        "create_outside": lambda: _write(f"{outside}/new", b"x"),
        "overwrite_outside": lambda: _write(f"{outside}/file", b"x", os.O_WRONLY | os.O_TRUNC),
        "change_outside": lambda: os.chmod(f"{outside}/file", 0o640),
        "read_state": lambda: _read(facts["state_file"]),
        "list_state": lambda: os.listdir(state),
        "write_state": lambda: _write(facts["state_file"] + "-new", b"x"),
        "environment_of_server": lambda: binascii.crc32(_read(f"/proc/{server}/environ")),
        "memory_of_server": lambda: _memory(server, facts["address"], len(facts["secret"])),
        "switches": lambda: os.close(os.open(_SWITCH, os.O_WRONLY)),
        "signal_server": lambda: _signal(server, facts["pid_namespace"]),
        "tcp": lambda: _connect(_socket.SOCK_STREAM, *facts["tcp"]),
        "udp": lambda: _connect(_socket.SOCK_DGRAM, *facts["udp"]),
        "unix_by_name": lambda: _unix("\0" + facts["unix_name"]),
        "unix_by_path": lambda: _unix("socket", outside),
        "leave_tree": lambda: _leave(f"{inside}/lock-{facts['kind']}"),
    }


def main(facts: "dict[str, Any]") -> dict[str, tuple[str, object]]:
    """The system's reason, empty where there was none, and the answer."""
    found: dict[str, tuple[str, object]] = {}
    for name, attempt in attempts(facts).items():
        try:
            found[name] = ("", attempt())
        except OSError as error:
            found[name] = (errno.errorcode.get(error.errno or 0, str(error)), None)
        except Exception as error:  # noqa: BLE001 - the other attempts must go on
            found[name] = (type(error).__name__, None)
    return found


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 20)
    finally:
        os.close(descriptor)


def _write(path: str, content: bytes, flags: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL) -> None:
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _descriptors() -> list[int]:
    found = []
    for number in range(3, _MAX_DESCRIPTORS):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found


def _memory(pid: int, address: int, length: int) -> bytes:
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        return os.pread(descriptor, length, address)
    finally:
        os.close(descriptor)


def _signal(pid: int, namespace: str) -> None:
    try:
        own = os.readlink("/proc/self/ns/pid")
    except OSError:
        own = namespace
    if own != namespace:
        # The PID belongs to another process here.
        raise ProcessLookupError(errno.ESRCH, "another namespace")
    os.kill(pid, 0)


def _connect(kind: int, family: int, host: str, port: int) -> None:
    connection = _socket.socket(family, kind)
    connection.settimeout(_SOCKET_SECONDS)
    connection.connect((host, port))
    connection.send(b"x")


def _unix(name: str, folder: str = "/") -> None:
    os.chdir(folder)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(_SOCKET_SECONDS)
    connection.connect(name)


def _leave(path: str) -> None:
    """A grandchild in a session of its own, which holds a lock for as long as it lives."""
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    if os.fork():
        return
    try:
        os.setsid()
        if os.fork() == 0:
            time.sleep(_SURVIVOR_SECONDS)
    finally:
        os._exit(0)


if __name__ == "__main__":
    os.write(1, marshal.dumps(main(marshal.loads(bytes.fromhex(sys.argv[1])))))  # noqa: S302 - the probe's
