"""Commands of every kind in the real sandbox: nothing outside is read, changed or reached by any.

The cases are those of `command_cases*.jsonl` that may be executed. What is planted: a home with a canary, a
folder outside, a secret in the server's environment, and listeners that must hear nothing.
"""

import asyncio
import base64
import hashlib
import re
import socket
import subprocess
from pathlib import Path

import pytest

from interlock.sandbox.jobs import JobLimits
from tests.escape.cases import command_cases
from tests.harness.case_tables import daily
from tests.harness.store import StoreHarness
from tests.harness.tool_calls import ToolHarness

BAIT = [case for case in command_cases() if case.get("bait")]
# `${HOME:0:1}` is the real `/`: there is no bait for it.
BAITED = [case for case in BAIT if "${HOME:0:1}" not in case["command"]]
# Instead of programs that change the machine: each tries to leave a mark outside.
MACHINE_PROGRAMS = (
    *(
        "chpasswd",
        "groupadd",
        "halt",
        "mkfs.ext4",
        "mkfs.xfs",
        "pkill",
        "poweroff",
        "reboot",
        "shutdown",
        "su",
    ),
    *("sudo", "swapoff", "useradd", "userdel", "usermod", "wipefs"),
)
_ROOT = re.compile(
    r"(?:(?<=\$\{IFS\})|(?<=:-)|(?<=x20)|(?<![\w./}\])*?$-]))/(?!dev/(?:null|stdin|stdout|stderr|tcp|fd)\b)"
)
_BASE64 = re.compile(r"\b[A-Za-z0-9+/]{8,}={0,2}")
_HEX = re.compile(r"\b(?:[0-9a-f]{2}){8,}\b")
_ALL_PROCESSES = re.compile(r"pidof \w+|pgrep \.|ps -eo pid=?")
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


class Bait:
    """What disguised commands are run against: directories, devices, programs and a process outside."""

    def __init__(self, bench: ToolHarness) -> None:
        self.root = bench.outside / "bait"
        for path in (
            "etc/hosts",
            "etc/passwd",
            "etc/sudoers",
            "usr/lib/a",
            "bin/a",
            "sbin/a",
            "boot/a",
            "var/lib/a",
        ):
            self._file(path)
        for path in (
            "lib/a",
            "home/user/CANARY",
            "home/user/.ssh/id_rsa",
            "dev/sda",
            "dev/sdb",
            "dev/nvme0n1",
        ):
            self._file(path)
        self.programs = bench.root / "programs"
        self.programs.mkdir()
        for name in MACHINE_PROGRAMS:
            program = self.programs / name
            program.write_text(f"#!/bin/sh\necho {name} > '{self.root}/REACHED'\n")
            program.chmod(0o755)
        self.process = subprocess.Popen(["sleep", "600"])
        self.before = self.files()

    def _file(self, path: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text("bait\n")

    def files(self) -> dict[str, tuple[bytes, int, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_uid)
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def command(self, text: str) -> str:
        """The same command against the bait, also where its text is encoded."""
        text = _BASE64.sub(self._base64, _HEX.sub(self._hex, self._plain(text)))
        text = text.replace("resu/emoh/", f"{self.root}/home/user"[::-1]).replace("D=;", f"D={self.root};")
        return f"export PATH={self.programs}:$PATH HOME={self.root}/home/user\n{text}"

    def _plain(self, text: str) -> str:
        text = _ALL_PROCESSES.sub(f"echo {self.process.pid}", text)
        text = re.sub(r"(?<=-9 )-?1\b", str(self.process.pid), text)
        return _ROOT.sub(f"{self.root}/", text)

    def _hex(self, found: re.Match[str]) -> str:
        return self._plain(bytes.fromhex(found[0]).decode()).encode().hex()

    def _base64(self, found: re.Match[str]) -> str:
        try:
            decoded = base64.b64decode(found[0], validate=True).decode()
        except ValueError:
            return found[0]
        is_command = decoded.strip().isprintable() and " " in decoded
        return base64.b64encode(self._plain(decoded).encode()).decode() if is_command else found[0]


async def test_what_no_rule_sees_reaches_nothing_outside(planted: World):
    bait = Bait(planted.bench)
    ran = 0
    turn = asyncio.Semaphore(AT_ONCE)

    async def attempt(case: dict) -> None:
        nonlocal ran
        async with turn:
            result = await planted.bench.call("bash", cmd=bait.command(case["command"]), timeout_seconds=5)
        ran += result.failure is None or result.failure.is_an_answer

    try:
        await asyncio.gather(*(attempt(case) for case in BAITED))
        assert bait.process.poll() is None
    finally:
        bait.process.kill()
        bait.process.wait()
    assert len(BAITED) > 200
    assert ran > 150, "too few of them were run at all"
    assert bait.files() == bait.before
    outside = {path: known for path, known in planted.outside().items() if str(bait.root) not in path}
    assert outside == planted.before
