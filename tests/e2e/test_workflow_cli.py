"""`interlock workflow` as people and scripts use it."""

import asyncio
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.cli import command_line_session
from tests.harness.cli import CliRunner
from tests.harness.workflows import EXAMPLE
from tests.integration.workflow.graphs import TWO

ASKING = 'call:ask_user {"type": "confirmation", "message": "Shall I?"}\nmsg:done\n'


@dataclass(frozen=True)
class Desk:
    home: Path

    def run(self, *arguments: str, expect: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        own = {
            "WORKSPACE_DIR": str(self.home / "workspace"),
            "MODEL": f"scripted:{EXAMPLE}/script.txt",
        }
        return CliRunner(self.home, own | variables)(*arguments, expect=expect)

    def put(self, name: str, graph: str, **files: str) -> Path:
        folder = self.home / "workspace" / "workflows" / name
        folder.mkdir(parents=True)
        (folder / "workflow.toml").write_text(graph)
        for step, text in files.items():
            (folder / f"{step}.md").write_text(text)
        return folder


@pytest.fixture
def desk(tmp_path, sqlite_template) -> Desk:
    (tmp_path / "state").mkdir(mode=0o700)
    shutil.copy(sqlite_template, tmp_path / "state" / "interlock.db")
    (tmp_path / "root").mkdir()
    return Desk(tmp_path)


def test_the_example_is_checked_run_and_shown(desk):
    shutil.copytree(EXAMPLE, desk.home / "workspace" / "workflows" / EXAMPLE.name)
    assert "with problems: 0" in desk.run("workflow", "check").stderr
    assert EXAMPLE.name in desk.run("workflow", "list").stdout
    here = ("--mode", "coding", "--root", str(desk.home / "root"))
    done = desk.run("workflow", "run", EXAMPLE.name, "greet", *here, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["status"] == "done"
    assert lines[-1]["steps"] == 5
    completed = [line["node"] for line in lines if line["type"] == "node" and line["status"] == "completed"]
    assert completed[-1] == "done"
    assert (desk.home / "root" / "greeting.txt").read_text() == "Hello, Ada.\nGoodbye, Ada.\n"
    shown = desk.run("workflow", "show", lines[-1]["run_id"]).stdout
    assert "The farewell is missing." in shown
    assert "> build  (otherwise)" in desk.run("workflow", "show", EXAMPLE.name).stdout
    assert lines[-1]["run_id"] in desk.run("workflow", "runs").stdout


def test_a_run_that_ends_while_it_is_told_of_is_told_to_its_end(desk, monkeypatch):
    """Reading what a step answered takes so long that the run ends meanwhile."""
    at_once = command_line_session.CommandLineSession.answer_of

    async def slowly(self, task):
        await asyncio.sleep(0.4)
        return await at_once(self, task)

    monkeypatch.setattr(command_line_session.CommandLineSession, "answer_of", slowly)
    shutil.copytree(EXAMPLE, desk.home / "workspace" / "workflows" / EXAMPLE.name)
    here = ("--mode", "coding", "--root", str(desk.home / "root"))
    done = desk.run("workflow", "run", EXAMPLE.name, "greet", *here)
    told = [line for line in done.stderr.splitlines() if line.startswith("completed")]
    assert [line.split()[1] for line in told] == [
        *("plan", "build", "review", "verdict"),
        *("build", "review", "verdict", "done"),
    ]
    assert "It is good." in done.stdout


def test_a_faulty_workflow_is_told_fault_by_fault_and_not_run(desk):
    folder = desk.put("two", TWO.replace('to = "end"', 'to = "nd"'), first="Go.", second="Go.")
    told = desk.run("workflow", "check", "two", expect=1).stdout
    assert f"{folder}/workflow.toml: edges[1].to must name a node; did you mean end?" in told
    refused = desk.run("workflow", "run", "two", expect=1).stderr
    assert "two/workflow.toml: edges[1].to must" in refused
    assert "did you mean two?" in desk.run("workflow", "run", "twoo", expect=1).stderr


def test_a_run_waits_is_answered_elsewhere_and_goes_on_here(desk):
    desk.put("two", TWO, first="Ask.", second="Go.")
    (desk.home / "script.txt").write_text(f"when:Step first\n{ASKING}when:Step second\nmsg:done\n")
    model = {"MODEL": f"scripted:{desk.home}/script.txt"}
    waiting = desk.run("workflow", "run", "two", "--json", expect=5, **model)
    run_id = json.loads(waiting.stdout.splitlines()[-1])["run_id"]
    (question,) = json.loads(desk.run("questions", "list", "--json").stdout)
    desk.run("questions", "answer", question["id"], "--yes")
    done = desk.run("workflow", "resume", run_id, "--here", **model)
    assert done.stdout.splitlines()[-1] == "done: end"
    assert "is done" in desk.run("workflow", "pause", run_id, expect=1).stderr


def test_a_run_can_be_paused_and_stopped_from_another_process(desk):
    desk.put("two", TWO, first="Ask.", second="Go.")
    (desk.home / "script.txt").write_text(ASKING)
    model = {"MODEL": f"scripted:{desk.home}/script.txt"}
    waiting = desk.run("workflow", "run", "two", "--json", expect=5, **model)
    run_id = json.loads(waiting.stdout.splitlines()[-1])["run_id"]
    assert "paused" in desk.run("workflow", "pause", run_id).stdout
    assert "running" in desk.run("workflow", "resume", run_id).stdout
    assert "stopped" in desk.run("workflow", "stop", run_id).stdout
    assert "stopped" in desk.run("workflow", "show", run_id).stdout


def test_a_run_is_not_gone_on_with_where_its_mode_is_not_open(desk):
    desk.put("two", TWO, first="Ask.", second="Go.")
    (desk.home / "script.txt").write_text(ASKING)
    model = {"MODEL": f"scripted:{desk.home}/script.txt"}
    here = ("--mode", "coding", "--root", str(desk.home / "root"))
    waiting = desk.run("workflow", "run", "two", *here, "--json", expect=5, **model)
    run_id = json.loads(waiting.stdout.splitlines()[-1])["run_id"]
    refused = desk.run("workflow", "resume", run_id, "--here", expect=3, **model)
    assert "is in coding mode, which is not open here; use --mode coding" in refused.stderr


def test_what_the_steps_said_and_what_was_refused_is_told_and_nothing_of_it_twice(desk):
    desk.put("two", TWO, first="Ask.", second="Go.")
    write = 'call:write_file {"path": "a.txt", "content": "x"}\n'
    script = f"when:Step first\n{write}{ASKING}when:Step second\nmsg:All of it is done.\n"
    (desk.home / "script.txt").write_text(script.replace("msg:done", "msg:The person agreed."))
    model = {"MODEL": f"scripted:{desk.home}/script.txt"}
    waiting = desk.run("workflow", "run", "two", expect=5, **model)
    told, *how = waiting.stdout.splitlines()
    assert told.startswith("waiting for an answer in first: Shall I?")
    (question,) = json.loads(desk.run("questions", "list", "--json").stdout)
    (run,) = json.loads(desk.run("workflow", "runs", "--json").stdout)
    answer, go_on = f"questions answer {question['id']}", f"workflow resume {run['run_id']} --here"
    assert how == [f"interlock {answer}", f"interlock {go_on}"]
    desk.run("questions", "answer", question["id"], "--yes")
    done = desk.run("workflow", "resume", run["run_id"], "--here", **model)
    assert done.stdout.splitlines() == ["The person agreed.", "All of it is done.", "done: end"]
    assert "  denied write_file: " in done.stderr
    again = desk.run("workflow", "resume", run["run_id"], "--here", **model)
    assert "active    first" not in done.stderr
    assert "completed" not in again.stderr


def test_a_run_that_cannot_be_begun_leaves_no_session_behind(desk):
    desk.put("two", TWO, first="Use sk-very-secret-words-123.", second="Go.")
    done = desk.run("workflow", "run", "two", expect=1, OPENAI_API_KEY="sk-very-secret-words-123")
    assert "contains a secret" in done.stderr
    assert json.loads(desk.run("sessions", "list", "--archived", "--json").stdout) == []
