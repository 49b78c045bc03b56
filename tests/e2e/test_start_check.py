"""The self-check at the start: which tools this machine cannot offer, said and recorded."""

import json
import signal
import sqlite3
import subprocess
import time

import pytest

from tests.harness.cli import CliRunner

MISSING_RG = "warning: search_files cannot be used: the program rg is missing; install ripgrep"
NO_SANDBOX = "warning: bash, bash_readonly cannot be used: commands cannot be confined (bubblewrap is not"


def opened(shell: CliRunner, sandbox: str = "off") -> CliRunner:
    """Without a sandbox unless a test looks at it: on a busy machine its probe may fail."""
    (shell.home / "root").mkdir()
    shell.variables |= {
        "TOOL_ALLOWED_ROOTS": str(shell.home / "root"),
        "SESSION_OPEN_MODES": "chat,plan,coding",
        "TOOL_SANDBOX": sandbox,
    }
    return shell


def started_and_stopped(shell: CliRunner, *words: str, until: str) -> str:
    """What a process that runs until it is stopped writes to stderr."""
    process = shell.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    written = []
    for line in process.stderr:
        written.append(line)
        if until in line:
            break
    # Signals are handled once it has said that it is there, a moment later.
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=60)[1]
    return "".join(written) + rest


def recorded(shell: CliRunner) -> list[dict]:
    lines = shell("events", "tail", "system", "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    return [event["payload"] for event in events if event["kind"] == "tools.unavailable"]


STARTS = [
    pytest.param(("serve", "--port", "0"), "is listening", marks=pytest.mark.full),
    (("serve", "--port", "0", "--workers", "1"), "is listening"),
    (("worker",), "working on"),
    pytest.param(("supervisor", "--workers", "1"), "1 workers on", marks=pytest.mark.full),
]


@pytest.mark.parametrize(("words", "until"), STARTS)
def test_a_process_that_stays_says_which_tools_a_missing_program_keeps_away(tmp_path, words, until):
    shell = opened(CliRunner.in_bare_environment(tmp_path, "bash"))
    said = started_and_stopped(shell, *words, until=until)
    assert said.count(MISSING_RG) == 1
    assert said.count("warning:") == 1
    (event,) = recorded(shell)
    assert (event["need"], event["tools"]) == ("program:rg", ["search_files"])
    assert "install ripgrep" in event["reason"]


def test_it_is_said_also_where_nothing_is_open(tmp_path):
    shell = CliRunner.in_bare_environment(tmp_path, "bash")
    shell.variables["TOOL_SANDBOX"] = "off"
    assert shell("exec", "hello").stderr.count(MISSING_RG) == 1


@pytest.mark.parametrize("words", [("chat",), ("exec", "hello"), ("exec", "--quiet", "hello")])
def test_a_conversation_says_it_too(tmp_path, words):
    shell = opened(CliRunner.in_bare_environment(tmp_path, "bash"))
    assert shell(*words).stderr.count(MISSING_RG) == 1
    assert [event["need"] for event in recorded(shell)] == ["program:rg"]


def test_what_cannot_be_confined_is_said_in_the_same_place(tmp_path):
    shell = opened(CliRunner.in_bare_environment(tmp_path, "bash", "rg"), sandbox="bubblewrap")
    assert shell("exec", "hello").stderr.count(NO_SANDBOX) == 1
    (event,) = recorded(shell)
    assert (event["need"], event["tools"]) == ("sandbox", ["bash", "bash_readonly"])
    (failed,) = [row for row in shell.json("doctor", expect=1) if row["state"] == "failed"]
    assert failed["what"] == "sandbox"
    assert "bash, bash_readonly cannot be used" in failed["detail"]


@pytest.mark.parametrize(
    "choice",
    [
        {"TOOL_DENIED": "search_files"},
        {"TOOL_FS_ENABLED": "false"},
    ],
)
def test_what_was_left_out_by_choice_is_not_said(tmp_path, choice):
    shell = opened(CliRunner.in_bare_environment(tmp_path, "bash"))
    shell.variables |= choice
    assert "warning" not in shell("exec", "hello").stderr
    assert recorded(shell) == []


def test_a_shell_without_walls_by_choice_is_not_a_missing_sandbox(tmp_path):
    shell = opened(CliRunner.in_bare_environment(tmp_path, "bash", "rg"), sandbox="off")
    assert "warning" not in shell("exec", "hello").stderr
    assert recorded(shell) == []


def test_a_sound_machine_says_nothing(interlock):
    opened(interlock, sandbox="auto")
    assert "warning" not in interlock("exec", "hello").stderr
    assert recorded(interlock) == []


def test_stored_settings_that_cannot_be_read_are_said_at_the_start(interlock):
    interlock("settings", "set", "tools.fs.enabled", "false")
    with sqlite3.connect(interlock.home / "state" / "interlock.db") as connection:
        connection.execute("UPDATE settings_versions SET document = '[]'")
    said = started_and_stopped(interlock, "worker", until="working on")
    assert "warning: no task can run: version 1 of the stored settings cannot be read" in said
    assert "interlock settings show" in said


def test_a_folder_on_the_command_line_takes_the_place_of_one_named_by_its_alias(interlock):
    opened(interlock)
    del interlock.variables["TOOL_ALLOWED_ROOTS"]
    interlock.variables["AUTONOUS_TOOL_ALLOWED_ROOTS"] = str(interlock.home / "root")
    (interlock.home / "other").mkdir()
    words = ("serve", "--port", "0", "--root", str(interlock.home / "other"))
    assert "is listening" in started_and_stopped(interlock, *words, until="is listening")
