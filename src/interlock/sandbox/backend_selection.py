"""Selects the sandbox: the first backend that the setting allows and that passes the probe.

`wiring` calls it. Without a working backend, tools that need one are not offered. A good verdict is cached
in the state directory while nothing it depends on changes, so that short commands need not probe; a bad one
is not.
"""

import asyncio
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlock import __version__
from interlock.core.files import write_durably
from interlock.sandbox.bubblewrap_backend import BubblewrapBackend
from interlock.sandbox.jobs import SandboxBackend
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.sandbox.probe import ProbeReport, probe
from interlock.sandbox.unconfined_backend import UnconfinedBackend

CACHE_NAME = "sandbox-probe.json"
_MAX_CACHE_BYTES = 64 * 1024
_MAX_VERDICTS = 16

# What a verdict depends on besides the setting: this boot, this container, these privileges.
_FACTS = ("/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease", "/proc/self/attr/current")
_NAMESPACES = ("mnt", "net", "pid", "user")
_PRIVILEGES = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")

BackendFactories = Mapping[str, Callable[[], SandboxBackend | None]]


@dataclass(frozen=True, slots=True)
class BackendSelection:
    """The selected backend. None means that nothing may be run; `reason` explains the choice.

    `reports` are the probes made for it: none if the verdict was cached.
    """

    backend: SandboxBackend | None
    reason: str
    reports: tuple[ProbeReport, ...] = ()

    @property
    def is_confined(self) -> bool:
        return self.backend is not None and self.backend.name != UnconfinedBackend.NAME


def backend_factories(opened: Iterable[Path]) -> BackendFactories:
    """The backends by the name of their setting. A factory returns `None` if its program is missing."""
    return {"landlock": LandlockBackend, "bubblewrap": lambda: BubblewrapBackend.found(opened)}


async def choose_backend(
    setting: str,
    *,
    state_folder: Path | None = None,
    is_anew: bool = False,
    made_by: BackendFactories | None = None,
    opened: Iterable[Path],
) -> BackendSelection:
    """Select a backend. `is_anew` ignores the cache, as `doctor` and the server's start do.

    `opened` are the directories that agents write to, from which nothing is run.
    """
    if setting == UnconfinedBackend.NAME:
        return BackendSelection(UnconfinedBackend(), "TOOL_SANDBOX=off: commands run without confinement")
    known = backend_factories(opened) if made_by is None else made_by
    names = tuple(known) if setting == "auto" else (setting,)
    reports: list[ProbeReport] = []
    problems: list[str] = []
    for name in names:
        backend = known[name]() if name in known else None
        if backend is None:
            problems.append(f"{name} is not installed" if name in known else f"{name} is not a sandbox")
            continue
        verdict = ProbeCache(state_folder, name, setting)
        if not is_anew and await asyncio.to_thread(verdict.is_remembered):
            return BackendSelection(backend, f"{name}: probed since the machine's start", tuple(reports))
        report = await probe(backend, state_folder=state_folder, opened=opened)
        reports.append(report)
        if report.ok:
            await asyncio.to_thread(verdict.remember)
            return BackendSelection(backend, report.text, tuple(reports))
        await asyncio.to_thread(verdict.forget)
        await backend.close()
        problems.append(report.text)
    return BackendSelection(None, "; ".join(problems), tuple(reports))


class ProbeCache:
    """One backend's good verdict on file. A faulty file counts as none."""

    def __init__(self, state_folder: Path | None, backend: str, setting: str) -> None:
        self._path = state_folder / CACHE_NAME if state_folder is not None else None
        self._key = _key(backend, setting)

    def is_remembered(self) -> bool:
        return self._key in self._load()

    def remember(self) -> None:
        kept = [(key, at) for key, at in self._load().items() if key != self._key]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._save(dict([*kept[-_MAX_VERDICTS + 1 :], (self._key, now)]))

    def forget(self) -> None:
        kept = self._load()
        if kept.pop(self._key, None) is not None:
            self._save(kept)

    def _load(self) -> dict[str, str]:
        if self._path is None:
            return {}
        try:
            content = _own_file(self._path)
            passed = json.loads(content)["passed"]
            return {str(key): str(at) for key, at in passed.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}

    def _save(self, passed: dict[str, str]) -> None:
        if self._path is None:
            return
        # A verdict that cannot be stored is found again.
        with suppress(OSError):
            write_durably(self._path, [json.dumps({"passed": passed}).encode()], replace=True)


def _own_file(path: Path) -> str:
    """The content of a file that only this account can have written."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise ValueError("someone else may have written it")
        return file.read(_MAX_CACHE_BYTES).decode("utf-8")


def _key(backend: str, setting: str) -> str:
    facts = [backend, setting, __version__, str(os.geteuid()), *(_content(path) for path in _FACTS)]
    facts += [_link(f"/proc/self/ns/{name}") for name in _NAMESPACES]
    status = _content("/proc/self/status").splitlines()
    facts += [line for line in status if line.startswith(_PRIVILEGES)]
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogateescape")).hexdigest()


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
