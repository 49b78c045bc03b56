"""The processes of a fleet, each as if on a machine of its own, and what the store says in the end."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from interlock.db.database import StoreConfig
from tests.harness.cli_processes import same_code


@dataclass
class Member:
    """One process, which is started again under the same name."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "interlock", *self.command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()


@dataclass
class Child(Member):
    """A worker that a supervisor of ours started, and starts again."""

    parent: Member | None = None

    def start(self) -> None:
        self.starts += 1

    def signal(self, number: int) -> None:
        for pid in _workers_of(self.parent)[: 1 if number == signal.SIGSTOP else None]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        for pid in _workers_of(self.parent)[-1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _workers_of(parent: Member) -> list[int]:
    """The processes it started to work, the oldest first."""
    found = []
    for tasks in Path(f"/proc/{parent.process.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in tasks.read_text().split()]
    return sorted(pid for pid in found if _is_worker(pid))


def _is_worker(pid: int) -> bool:
    try:
        return b"--supervised" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


@dataclass
class Fleet:
    folder: Path
    variables: Mapping[str, str]
    # Whether all have one state folder, as on one machine.
    shares_state: bool = False
    workers: list[Member] = field(default_factory=list)
    gateways: list[Member] = field(default_factory=list)
    token: str = ""

    def environment(self, name: str) -> dict[str, str]:
        state = self.folder / ("state" if self.shares_state else f"state-{name}")
        return {
            "INTERLOCK_STATE_DIR": str(state),
            "WORKSPACE_DIR": str(self.folder / "workspace"),
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            **same_code(),
            **self.variables,
        }

    def add_worker(self) -> Member:
        name = f"worker-{len(self.workers) + 1}"
        member = Member(name, ("worker",), self.environment(name), self.folder)
        self.workers.append(member)
        member.start()
        return member

    def add_gateway(self, *options: str) -> Member:
        name, port = f"gateway-{len(self.gateways) + 1}", _free_port()
        command = ("serve", "--port", str(port), *(options or ("--no-worker",)))
        member = Member(name, command, self.environment(name), self.folder, port=port)
        self.gateways.append(member)
        member.start()
        return member

    def add_children(self, of: Member, count: int) -> None:
        for place in range(count):
            name = f"{of.name}-worker-{place + 1}"
            self.workers.append(Child(name, (), {}, self.folder, parent=of))

    @property
    def members(self) -> list[Member]:
        return [*self.workers, *self.gateways]

    def interlock(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *words],
            env=self.environment("console"),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    async def opened(self) -> "Fleet":
        """Every gateway listens, and there is a token to come in with."""
        self.token = (
            await asyncio.to_thread(self.interlock, "token", "add", f"crowd-{secrets.token_hex(4)}")
        ).strip()
        async with asyncio.timeout(60):
            for gateway in self.gateways:
                while not _is_listening(gateway.port):
                    assert gateway.process.poll() is None, gateway.log
                    await asyncio.sleep(0.05)
        return self

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        url = self.variables.get("DATABASE_URL") or f"sqlite:///{self.folder / 'state' / 'interlock.db'}"
        connection = StoreConfig(url, busy_timeout_seconds=10).connect()
        try:
            return [tuple(row) for row in connection.query(statement, parameters)]
        finally:
            connection.close()

    def verified(self) -> dict[str, Any]:
        return orjson.loads(self.interlock("events", "verify", "--json"))

    async def end(self) -> None:
        for member in self.members:
            member.signal(signal.SIGCONT)
            member.signal(signal.SIGTERM)
        for member in self.members:
            if member.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(member.process.wait, 30)
                member.kill()


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
