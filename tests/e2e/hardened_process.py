"""Runs a command behind the walls that our units ask systemd for, as far as they can be put up without it.

    python -m tests.e2e.hardened_process ACCOUNT WRITABLE… -- PROGRAM ARGUMENT…

It must be root, and give itself away: namespaces of mounts, then the account, no capabilities, no new
privileges, and last the system calls that are refused (by libseccomp, as systemd does it).
"""

import ctypes
import ctypes.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CLONE_NEWNS = 0x00020000
PR_SET_NO_NEW_PRIVS = 38
REFUSE = 0x00050000 | 1  # SCMP_ACT_ERRNO(EPERM)
ALLOW = 0x7FFF0000
# RestrictNamespaces=yes.
NAMESPACES = 0x7E020080
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def put_up_mounts(writable: list[str], walls: set[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    mount("--make-rprivate", "/")
    # ProtectProc=invisible.
    mount("-t", "proc", "-o", "hidepid=invisible", "proc", "/proc")
    # ProtectControlGroups, and the greater part of ProtectKernelTunables.
    for path in ("/proc/sys", "/sys") if "ProtectKernelTunables" in walls else ("/sys",):
        mount("--bind", path, path)
        mount("-o", "remount,bind,ro", path)
    if "ProtectKernelLogs" in walls:
        mount("--bind", "/dev/null", "/proc/kmsg")
    # PrivateDevices.
    devices = Path(tempfile.mkdtemp())
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(devices))
    for name in DEVICES:
        (devices / name).touch()
        mount("--bind", f"/dev/{name}", str(devices / name))
    (devices / "shm").mkdir(0o1777)
    (devices / "fd").symlink_to("/proc/self/fd")
    mount("--rbind", str(devices), "/dev")
    # ProtectSystem=strict and ReadWritePaths.
    for path in writable:
        mount("--bind", path, path)
    mount("-o", "remount,bind,ro", "/")


def refuse_calls(names: list[str], walls: set[str]) -> None:
    """SystemCallFilter, and RestrictNamespaces if that is among the walls."""
    seccomp = ctypes.CDLL(ctypes.util.find_library("seccomp"), use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(ALLOW)))
    for name in names:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            seccomp.seccomp_rule_add(context, ctypes.c_uint32(REFUSE), number, 0)
    if "RestrictNamespaces" in walls:
        _refuse_namespaces(seccomp, context)
    if seccomp.seccomp_load(context):
        raise OSError("seccomp_load")


def _refuse_namespaces(seccomp: ctypes.CDLL, context: ctypes.c_void_p) -> None:
    number = seccomp.seccomp_syscall_resolve_name(b"setns")
    seccomp.seccomp_rule_add(context, ctypes.c_uint32(REFUSE), number, 0)
    for call in ("unshare", "clone"):
        number = seccomp.seccomp_syscall_resolve_name(call.encode())
        for bit in range(32):
            if NAMESPACES & 1 << bit:
                comparison = _Comparison(0, 7, 1 << bit, 1 << bit)  # SCMP_CMP_MASKED_EQ
                seccomp.seccomp_rule_add(context, ctypes.c_uint32(REFUSE), number, 1, comparison)
    number = seccomp.seccomp_syscall_resolve_name(b"clone3")
    seccomp.seccomp_rule_add(context, ctypes.c_uint32(0x00050000 | 38), number, 0)  # as systemd: ENOSYS


class _Comparison(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


def main() -> None:
    account, *rest = sys.argv[1:]
    at = rest.index("--")
    walls = set(os.environ.pop("WALLS").split())
    refused = os.environ.pop("REFUSED_CALLS").split()
    put_up_mounts(rest[:at], walls)
    libc = ctypes.CDLL(None, use_errno=True)
    # CapabilityBoundingSet=
    for number in range(41):
        libc.prctl(24, number, 0, 0, 0)
    os.setgroups([])
    os.setresgid(int(account), int(account), int(account))
    os.setresuid(int(account), int(account), int(account))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    refuse_calls(refused, walls)
    os.execv(rest[at + 1], rest[at + 1 :])  # noqa: S606


main()
