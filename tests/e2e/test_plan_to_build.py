"""From a plan to its building, at the command line: in a chat, and from another process."""

import json
import subprocess
from dataclasses import replace

import pytest

from tests.harness.cli import CliRunner

PLAN = {"type": "plan_review", "message": "Right?", "plan": "Write a.txt."}
SCRIPT = [
    {"tool_calls": [{"name": "ask_user", "arguments": PLAN}]},
    "msg:I wait.",
    {"tool_calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "built\n"}}]},
    "msg:Built.",
]


@pytest.fixture
def person(tmp_path) -> CliRunner:
    (tmp_path / "project").mkdir()
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return CliRunner(
        tmp_path,
        {
            "WORKSPACE_DIR": str(tmp_path / "workspace"),
            "MODEL": f"scripted:{tmp_path}/script.json",
            "TOOL_ALLOWED_ROOTS": str(tmp_path / "project"),
        },
    )


def chat(shell: CliRunner, lines: str, *arguments: str, **more: str) -> subprocess.CompletedProcess:
    with_more = replace(shell, variables=shell.variables | more)
    return with_more("chat", *arguments, given=lines.encode())


def test_an_approved_plan_is_built_when_the_person_says_so(person, tmp_path):
    done = chat(person, "plan it\na\n\nb\n", "--mode", "plan", SESSION_OPEN_MODES="coding")
    assert "Built." in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "project" / "a.txt").read_text() == "built\n"


def test_where_coding_is_not_open_the_way_to_it_is_told_and_build_takes_it_up(person, tmp_path):
    approved = chat(person, "plan it\na\n\n", "--mode", "plan")
    assert not (tmp_path / "project" / "a.txt").exists()
    assert "to build it: interlock chat --session" in approved.stderr
    session = approved.stderr.split("--session ")[1].split()[0]
    refused = chat(person, "/build\n", "--session", session, "--mode", "plan")
    assert "coding mode is not open" in refused.stderr
    built = chat(person, "/build\n", "--session", session, "--mode", "coding")
    assert "Built." in built.stdout, built.stdout + built.stderr
    assert built.stdout.index("Write a.txt.") < built.stdout.index("Built.")
    assert "building this plan, approved by" in built.stderr
    assert (tmp_path / "project" / "a.txt").read_text() == "built\n"


def test_another_process_can_approve_and_have_it_built(person):
    person.variables["SESSION_OPEN_MODES"] = "plan,coding"
    person("tool", "call", "ask_user", "--args", json.dumps(PLAN), "--mode", "plan", "--ask", expect=0)
    (question,) = person.json("questions", "list")
    rejected = person("questions", "answer", question["id"], "--no", "--build", expect=1)
    assert "only an approved plan can be built" in rejected.stderr
    built = person("questions", "answer", question["id"], "--yes", "--build")
    assert "in coding mode" in built.stderr
    (task,) = person.json("tasks", "list")
    assert (task["status"], task["session_id"]) == ("queued", question["session_id"])
    assert person.json("sessions", "mode", question["session_id"])["mode"] == "coding"
