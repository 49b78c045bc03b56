"""`interlock undo` as a person uses it after an agent went wrong."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.harness.cli import CliRunner, one_line_error


class Agent:
    """Calls tools in one session, which each process continues."""

    def __init__(self, shell: CliRunner) -> None:
        self.shell = shell
        self.root = shell.home / "work"
        self.root.mkdir()
        self.session = ""

    def __call__(self, tool: str, **arguments) -> dict:
        told = self.shell.json("tool", "call", tool, "--args", json.dumps(arguments), *self.options)
        self.session = told["session_id"]
        return told

    def each(self, *calls: tuple[str, dict]) -> None:
        """Several calls in one process."""
        lines = [json.dumps({"id": "x", "name": name, "arguments": arguments}) for name, arguments in calls]
        done = self.shell("tool", "call", "--jsonl", *self.options, given="\n".join(lines).encode())
        assert [json.loads(line)["result"]["ok"] for line in done.stdout.splitlines()] == [True] * len(
            calls
        )

    @property
    def options(self) -> list[str]:
        known = ["--session", self.session] if self.session else []
        return ["--root", str(self.root), "--mode", "coding", *known]


@pytest.fixture
def agent(interlock) -> Agent:
    return Agent(interlock)


def calls_of(interlock: CliRunner, session: str) -> list[str]:
    events = interlock.json("events", "tree", session)
    return [event["payload"]["call_id"] for event in events if event["kind"] == "tool_call.started"]


def test_what_an_agent_did_is_shown_taken_back_and_done_again(interlock, agent):
    (agent.root / "f").write_text("mine\n")
    (agent.root / "d").mkdir()
    (agent.root / "d/g").write_text("also mine\n")
    agent("read_file", path="f")
    agent.each(
        ("edit_file", {"path": "f", "find": "mine", "replace": "its"}),
        ("delete_file", {"path": "d", "recursive": True}),
        ("write_file", {"path": "new/n", "content": "x"}),
        ("move_file", {"source": "f", "destination": "h"}),
    )
    dry = interlock.json("undo", agent.session, "--dry-run")["changes"]
    assert [change["action"] for change in dry] == ["moved", "created", "deleted", "replaced"]
    assert not (agent.root / "f").exists()

    done = interlock("undo", agent.session)
    words = [line.split("/")[0].strip() for line in done.stdout.splitlines()]
    assert words == ["removed", "recreated", "restored"]
    assert (agent.root / "f").read_text() == "mine\n"
    assert (agent.root / "d/g").read_text() == "also mine\n"
    assert sorted(path.name for path in agent.root.iterdir()) == ["d", "f"]

    again = done.stderr.split()[-1]
    interlock("undo", again)
    assert sorted(path.name for path in agent.root.iterdir()) == ["h", "new"]
    assert (agent.root / "h").read_text() == "its\n"

    kinds = [event["kind"] for event in interlock.json("events", "tree", agent.session)]
    assert kinds[-4:] == ["undo.started", "undo.finished"] * 2


def test_a_file_that_was_changed_twice_is_named_once(interlock, agent):
    (agent.root / "f").write_text("one\n")
    agent("read_file", path="f")
    agent.each(
        ("edit_file", {"path": "f", "find": "one", "replace": "two"}),
        ("edit_file", {"path": "f", "find": "two", "replace": "three"}),
    )
    assert interlock("undo", agent.session, "--dry-run").stdout == f"replaced  {agent.root}/f\n"
    assert interlock("undo", agent.session).stdout == f"restored      {agent.root}/f\n"
    assert (agent.root / "f").read_text() == "one\n"


def test_what_was_changed_since_is_left_and_the_exit_code_says_so(interlock, agent):
    """Nor can a name drive the terminal, or forge a line."""
    name = "a\x1b[31m\nremoved b"
    agent("write_file", path=name, content="x")
    (agent.root / name).write_text("mine now")
    told = interlock.json("undo", agent.session, expect=1)
    assert told["changes"] == [
        {"path": str(agent.root / name), "action": "created", "left_because": ("it was changed since then")}
    ]
    assert (agent.root / name).read_text() == "mine now"
    done = interlock("undo", agent.session, expect=1)
    assert done.stdout.startswith(f"left          {agent.root}/a")
    assert done.stdout.endswith("(it was changed since then)\n")
    assert done.stdout.count("\n") == 1
    assert "\x1b" not in done.stdout
    assert "interlock undo" not in done.stderr


def test_there_is_one_line_where_there_is_nothing_to_undo(interlock):
    assert "'nothing'" in one_line_error(interlock, "undo", "nothing", "--dry-run")


def test_an_erased_session_takes_what_was_kept_with_it(interlock, agent):
    (agent.root / "f").write_text("very private")
    agent("delete_file", path="f")
    kept = interlock.home / "state" / "kept"
    assert any(b"very private" in path.read_bytes() for path in kept.rglob("*.kept"))
    interlock("sessions", "delete", agent.session, "--yes")
    assert any(b"very private" in path.read_bytes() for path in kept.rglob("*.kept"))
    interlock("sessions", "erase", agent.session, "--yes")
    assert not any(path.is_file() and b"private" in path.read_bytes() for path in kept.rglob("*"))
    one_line_error(interlock, "undo", agent.session)


@pytest.mark.full
def test_with_no_room_nothing_is_kept_and_that_is_told(interlock, agent):
    interlock.variables["TOOL_KEPT_BYTES"] = "0"
    told = agent("write_file", path="a", content="x")
    assert told["meta"]["can_be_undone"] is False
    assert "cannot be undone" in told["stdout"]
    one_line_error(interlock, "undo", agent.session)


KILLED = """
import os, signal, sys
from interlock.sandbox import file_changer
from interlock.cli.main import main

real = file_changer.FileChanger.replace

def killed(self, *arguments, **more):
    real(self, *arguments, **more)
    os.kill(os.getpid(), signal.SIGKILL)

file_changer.FileChanger.replace = killed
sys.argv = ["interlock", *sys.argv[1:]]
main()
"""


def test_a_call_that_was_killed_after_its_effect_can_be_undone(interlock, agent):
    file = agent.root / "f"
    file.write_text("mine")
    agent("read_file", path="f")
    arguments = json.dumps({"path": "f", "content": "its"})
    command = ["tool", "call", "write_file", "--args", arguments, "--root", str(agent.root)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *command, "--mode", "coding", "--session", agent.session],
        env=interlock.environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=interlock.home,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert file.read_text() == "its"
    interlock("undo", calls_of(interlock, agent.session)[-1])
    assert file.read_text() == "mine"
