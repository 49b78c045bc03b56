"""Commands of several processes at the same time do not keep one another's changes of protected names."""

import os
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from tests.escape.confinement import SOON_SECONDS

HOOK = ".git/hooks/pre-commit"


class Processes:
    """`interlock tool call`, as two workers of one machine: with one state folder and one root."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        (self.root / ".git/hooks").mkdir(parents=True)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "INTERLOCK_STATE_DIR": str(place / "state"),
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
        words = [sys.executable, "-P", "-m", "interlock", "sessions", "list"]
        subprocess.run(words, env=self._environment, check=True, capture_output=True)

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
