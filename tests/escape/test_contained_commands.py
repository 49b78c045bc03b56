"""Commands of every kind in the real sandbox: nothing outside is read, changed or reached by any.

The cases are those of `command_cases*.jsonl` that may be executed. What is planted: a home with a canary, a
folder outside, a secret in the server's environment, and listeners that must hear nothing.
"""

import asyncio
import hashlib
import socket
from pathlib import Path

import pytest

from interlock.sandbox.jobs import JobLimits
from tests.escape.cases import command_cases
from tests.harness.case_tables import daily
from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness

RUN = [case for case in command_cases() if case.get("run") == "sandboxed"]
SECRET = "sk-planted-in-the-environment"
AT_ONCE = 4


class World:
    """A workbench, and around it everything that must stay as it is."""

    def __init__(self, bench: ToolHarness) -> None:
        self.bench = bench
        self.home = bench.outside / "home"
        for name in (
            ".ssh/id_rsa",
            ".aws/credentials",
            ".config/gh/hosts.yml",
            ".bashrc",
            ".profile",
            "CANARY",
        ):
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("CANARY of the home\n")
        bench.write("src/a.py", "print('inside')\n")
        bench.write("README.md", "inside\n")
        bench.write(".env", "INSIDE=1\n")
        self.before = self.outside()
        self.listeners = [self._listener(kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]

    def _listener(self, kind: int) -> socket.socket:
        listener = socket.socket(socket.AF_INET, kind)
        listener.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            listener.listen()
        listener.setblocking(False)
        return listener

    def command(self, text: str) -> str:
        """The same command against what is planted here."""
        port = str(self.listeners[0].getsockname()[1])
        for home in ("/home/user", "$HOME", "~"):
            text = text.replace(home, str(self.home))
        return text.replace("198.51.100.7", "127.0.0.1").replace("4444", port)

    def outside(self) -> dict[str, tuple[str, int]]:
        places = [
            *self.bench.outside.rglob("*"),
            Path("/etc/passwd"),
            Path("/etc/hosts"),
            Path("/etc/crontab"),
        ]
        return {
            str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode)
            for path in places
            if path.is_file()
        }

    def nothing_was_heard(self) -> bool:
        for listener in self.listeners:
            try:
                listener.accept() if listener.type == socket.SOCK_STREAM else listener.recv(1)
            except BlockingIOError:
                continue
            return False
        return True


@pytest.fixture(params=["landlock", pytest.param("bubblewrap", marks=pytest.mark.full)])
async def planted(request, sqlite_store: StoreHarness, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    session = await sqlite_store.sessions.create(opened_by="test")
    harness = ToolHarness(sqlite_store, session.id, tmp_path)
    harness.job_limits = JobLimits(processes=64, memory_bytes=512 * 2**20, file_bytes=16 * 2**20)
    await harness.open_sandbox(request.param)
    sandbox = World(harness)
    yield sandbox
    for listener in sandbox.listeners:
        listener.close()
    await harness.backend.close()


@pytest.mark.parametrize("tool", daily(["bash", "bash_readonly"], 2))
async def test_no_command_reads_changes_or_reaches_anything_outside(planted: World, tool):
    sandbox = planted
    turn = asyncio.Semaphore(AT_ONCE)
    refused_work, leaked, ran = [], [], 0

    async def attempt(case: dict) -> None:
        command = sandbox.command(case["command"])
        async with turn:
            result = await sandbox.bench.call(tool, cmd=command, timeout_seconds=2)
        nonlocal ran
        ran += result.ok
        shown = result.stdout + result.stderr
        if "CANARY of the home" in shown or SECRET in shown or "root:*:" in shown:
            leaked.append((case["id"], command, shown[:200]))
        denied = result.failure is not None and result.failure.is_denial
        if case["expect"] == "allow" and denied:
            refused_work.append((case["id"], command, result.failure.message))

    await asyncio.gather(*(attempt(case) for case in RUN))
    # Where nothing can be written, fewer of them succeed.
    assert ran > (50 if tool == "bash" else 30), "too few commands did anything at all"
    assert leaked == []
    assert refused_work == []
    assert sandbox.outside() == sandbox.before
    assert sandbox.nothing_was_heard()
    assert not (sandbox.bench.root.parent / "outside.txt").exists()
