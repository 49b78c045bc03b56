"""Commands of several processes at the same time do not keep one another's changes of protected names."""

import os
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from tests.harness.sandbox import SOON_SECONDS

HOOK = ".git/hooks/pre-commit"


class Processes:
    """`interlock tool call`, as two workers of one machine: with one state folder and one root."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        (self.root / ".git/hooks").mkdir(parents=True)
        self.state, self.temporary = place / "state", place / "temporary"
        self.temporary.mkdir()
        self._environment = {
            "TMPDIR": str(self.temporary),
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "INTERLOCK_STATE_DIR": str(self.state),
            "WORKSPACE_DIR": str(place / "workspace"),
            "TOOL_ALLOWED_ROOTS": str(self.root),
        }
        self.begun: list[subprocess.Popen[bytes]] = []

    def begin(self, command: str) -> "subprocess.Popen[bytes]":
        arguments = orjson.dumps({"cmd": command}).decode()
        words = ("tool", "call", "bash", "--mode", "coding", "--json", "--args", arguments)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "interlock", *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.begun.append(process)
        return process

    def next_start(self) -> None:
        self._run("sessions", "list")

    def events(self, kind: str) -> list[dict]:
        lines = [orjson.loads(line) for line in self._run("events", "export").splitlines()]
        return [line for line in lines if line.get("kind") == kind]

    def _run(self, *words: str) -> bytes:
        command = [sys.executable, "-P", "-m", "interlock", *words]
        return subprocess.run(command, env=self._environment, check=True, capture_output=True).stdout

    def end(self, process: "subprocess.Popen[bytes]") -> dict:
        out, complaints = process.communicate(timeout=4 * SOON_SECONDS)
        assert process.returncode == 0, (out, complaints)
        return orjson.loads(out)

    def wait_for(self, name: str) -> None:
        deadline = time.monotonic() + 4 * SOON_SECONDS
        while not (self.root / name).exists():
            assert time.monotonic() < deadline, [each.poll() for each in self.begun]
            time.sleep(0.02)


def until(name: str) -> str:
    return f"touch begun-{name}; while [ ! -e {name} ]; do sleep 0.05; done"


@pytest.fixture
def processes(tmp_path):
    made = Processes(tmp_path)
    yield made
    for process in made.begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("before", ["nothing", "a hook of the person's"])
def test_a_hook_is_not_kept_by_a_command_of_another_process(processes, before):
    hook = processes.root / HOOK
    if before != "nothing":
        hook.write_text(before)
    # By a name that the judge of commands cannot see.
    (processes.root / "target").write_text(HOOK)
    changing = processes.begin(f'echo evil > "$(cat target)"; {until("first")}')
    processes.wait_for("begun-first")
    if not hook.exists() or hook.read_text() != "evil\n":
        pytest.skip("the sandbox that is used here does not let it be written at all")
    harmless = processes.begin(until("second"))
    processes.wait_for("begun-second")
    (processes.root / "first").touch()
    processes.end(changing)
    assert (hook.read_text() if hook.exists() else "nothing") == before
    (processes.root / "second").touch()
    processes.end(harmless)
    assert (hook.read_text() if hook.exists() else "nothing") == before


def test_a_hook_of_a_command_whose_server_was_killed_is_gone_when_the_next_one_starts(processes):
    hook = processes.root / HOOK
    (processes.root / "target").write_text(HOOK)
    killed = processes.begin(f'echo evil > "$(cat target)"; {until("never")}')
    processes.wait_for("begun-never")
    if not hook.exists():
        pytest.skip("the sandbox that is used here does not let it be written at all")
    killed.kill()
    killed.communicate()
    processes.next_start()
    assert not hook.exists()
    (event,) = processes.events("protected.restored")
    assert event["stream"] == "system"
    assert orjson.loads(event["content"]) == {"paths": [str(processes.root / ".git/hooks")]}


def test_what_commands_of_a_killed_server_left_is_removed_at_the_next_start_and_no_other(processes):
    """Their home, their temporary files and what they had written; not those of a server that lives."""
    spools = processes.state / "outputs"
    killed, living = (
        processes.begin(f'echo told; echo x > "$HOME/file"; echo x > "$TMPDIR/file"; {until(name)}')
        for name in ("never", "later")
    )
    for name in ("never", "later"):
        processes.wait_for(f"begun-{name}")
    assert (len(list(processes.temporary.rglob("file"))), len(list(spools.rglob("*.*")))) == (4, 4)
    (processes.temporary / "interlock-mine").mkdir()
    killed.kill()
    killed.communicate()
    # Long enough for what is done beside it.
    processes.end(processes.begin("sleep 1"))
    assert (len(list(processes.temporary.rglob("file"))), len(list(spools.rglob("*.*")))) == (2, 2)
    (processes.root / "later").touch()
    processes.end(living)
    assert [path.name for path in processes.temporary.glob("interlock-*")] == ["interlock-mine"]
    assert list(spools.rglob("*.*")) == []
