"""What a process holds, from outside: memory, descriptors, threads, children, files, leases."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from interlock.db.driver import lease_ms

TICKS = os.sysconf("SC_CLK_TCK")
HELD_LEASES = "SELECT count(*) FROM leases WHERE name LIKE 'session:%' AND expires_ms > ?"
WORK = "SELECT count(*) FROM tasks WHERE status IN ('queued', 'running')"


@dataclass(frozen=True, slots=True)
class Holdings:
    """At one moment. `cpu_seconds` counts the process and its ended children."""

    at: float
    cpu_seconds: float
    anonymous_kb: int
    descriptors: int
    threads: int
    children: int
    temporary_files: int
    leases: int
    unfinished_tasks: int
    database_mb: float
    journal_mb: float
    state_files: int


class Watch:
    def __init__(self, pid: int, state: Path, temporary: Path) -> None:
        self._proc = Path(f"/proc/{pid}")
        self._state = state
        self._temporary = temporary

    def look(self) -> Holdings:
        database = self._state / "interlock.db"
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as store:
            [[leases]] = store.execute(HELD_LEASES, [lease_ms()])
            [[work]] = store.execute(WORK)
        journal = database.with_name("interlock.db-wal")
        return Holdings(
            at=time.monotonic(),
            cpu_seconds=self._cpu_seconds(),
            anonymous_kb=self._status("RssAnon:"),
            descriptors=len(list((self._proc / "fd").iterdir())),
            threads=self._status("Threads:"),
            children=len(list(self._children())),
            temporary_files=sum(1 for _ in self._temporary.rglob("*")),
            leases=leases,
            unfinished_tasks=work,
            database_mb=database.stat().st_size / 1e6,
            journal_mb=journal.stat().st_size / 1e6 if journal.exists() else 0.0,
            state_files=sum(1 for _ in self._state.rglob("*")),
        )

    def _status(self, field: str) -> int:
        for line in (self._proc / "status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
        raise LookupError(field)

    def _cpu_seconds(self) -> float:
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS

    def _children(self) -> Iterator[str]:
        for tasks in self._proc.glob("task/*/children"):
            yield from tasks.read_text().split()
