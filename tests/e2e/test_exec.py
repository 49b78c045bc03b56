"""`interlock exec` for scripts: the answer on stdout, all else on stderr, an exit code that says why."""

import json
import os
import signal
import subprocess
import time

import pytest

from tests.harness.case_tables import each_row
from tests.harness.cli import CliRunner, one_line_error
from tests.harness.terminal import script

DENIED = ["call:read_file {}"] * 3


@pytest.fixture
def shell(tmp_path) -> CliRunner:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "notes.txt").write_text("buy milk\n")
    return CliRunner(tmp_path, {"WORKSPACE_DIR": str(tmp_path / "workspace")})


def with_model(shell: CliRunner, *items: str, **variables: str) -> CliRunner:
    shell.variables |= {"MODEL": script(shell.home, *items), **variables}
    return shell


def test_the_answer_is_on_stdout_and_the_way_to_it_on_stderr(shell):
    done = shell("exec", "read notes.txt", "--mode", "chat", "--root", "project")
    assert done.stdout == "Content of notes.txt:\n```\nbuy milk\n```\n"
    assert "  > read_file path=notes.txt\n    buy milk\n" in done.stderr
    assert "recorded  interlock events tree s_" in done.stderr


def test_whoever_chose_no_mode_is_told_how_to_open_one(shell):
    told = shell("exec", "read notes.txt").stderr
    assert "(the same command with --mode chat --root FOLDER); continue without it.\n" in told
    told = shell("exec", "read notes.txt", "--root", "project").stderr
    assert "(the same command with --mode chat); continue without it.\n" in told
    chosen = shell("exec", "write hello to hello.txt", "--mode", "chat", "--root", "project").stderr
    assert "denied: write_file is not allowed in chat mode" in chosen
    assert "(the same command with --mode coding); continue without it.\n" in chosen
    done = shell("exec", "write hello to hello.txt", "--mode", "coding", "--root", "project")
    assert "denied" not in done.stderr


def test_no_mode_is_suggested_where_a_setting_denies_the_tool_anyway(shell):
    shell.variables["TOOL_FS_ENABLED"] = "false"
    told = shell("exec", "read notes.txt", "--root", "project").stderr
    assert "--mode" not in told
    assert "Only the operator can change this, where Interlock is started (TOOL_FS_ENABLED)." in told


def test_quiet_leaves_nothing_on_stderr(shell):
    done = shell("exec", "-q", "what time is it?")
    assert done.stdout.startswith("It is 20")
    assert done.stderr == ""
    failed = with_model(shell, "err:auth")("exec", "--quiet", "go", expect=1)
    assert failed.stdout == ""
    assert failed.stderr == "the script says: err:auth\n"


def test_json_tells_what_happens_a_line_each(shell):
    read = {"name": "read_file", "arguments": {"path": "a"}}
    call = json.dumps({"msg": "Let me see.\x1b[2J", "tool_calls": [read]})
    done = with_model(shell, call, "msg:I cannot read here.")("exec", "go", "--json")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["type"] for line in lines if line["type"] != "text_delta"]
    assert kinds == [
        *("session", "tool_call", "tool_denied", "turn_completed"),
        *("turn_completed", "task_ended", "task"),
    ]
    (called,) = [line for line in lines if line["type"] == "tool_call"]
    (denied,) = [line for line in lines if line["type"] == "tool_denied"]
    assert called["call_id"] == denied["call_id"]
    assert {name for name, value in denied.items() if value} == {
        *("type", "call_id", "tool_name", "mode", "error_code", "message", "next_action")
    }
    text = "".join(line["text"] for line in lines if line["type"] == "text_delta" and line["turn"] == 2)
    assert text == "I cannot read here."
    assert lines[-1] == {
        "type": "task",
        "task_id": lines[-1]["task_id"],
        "session_id": lines[0]["session_id"],
        "status": "done",
        "reason": "",
        "exit_code": 0,
    }


def test_the_task_can_come_by_the_input(shell):
    def given(data: bytes) -> subprocess.CompletedProcess:
        return shell.run("exec", "-q", "-", given=data)

    assert given(b"what time is it?\n").stdout.startswith(b"It is 20")
    assert "现在是" in given("现在几点?".encode()).stdout.decode()
    for data in (b"", b" \n", b"\xff\xfe", b"x" * (1024 * 1024 + 1)):
        refused = given(data)
        assert refused.returncode == 2
        assert refused.stderr.startswith(b"interlock: ")


@pytest.mark.parametrize(
    ("items", "variables", "code", "words"),
    [
        (["err:auth"], {}, 1, "err:auth"),
        (["msg:one"], {"CONTROL_MAX_DAY_TOKENS": "1"}, 0, ""),
        ([*DENIED, "msg:I may not."], {}, 0, "is not allowed in chat_safe mode"),
        (["call:current_time"] * 4, {"CONTROL_MAX_TURNS": "2"}, 4, "CONTROL_MAX_TURNS"),
        (['call:bash_readonly {"cmd": "date -u +%Y"}'] * 9, {}, 4, "CONTROL_MAX_REPEATS"),
        (
            ['call:ask_user {"type": "confirmation", "message": "?"}'] * 4,
            {},
            0,
            "no person is available to answer",
        ),
        (["err:server", "msg:well"], {"CONTROL_RETRY_SECONDS": "0.01"}, 0, "retrying"),
    ],
)
def test_the_exit_code_says_why_it_ended(shell, items, variables, code, words):
    opened = ("--mode", "chat", "--root", "project") if "bash_readonly" in items[0] else ()
    done = with_model(shell, *items, **variables)("exec", "go", *opened, expect=code)
    assert words in done.stderr
    assert done.stderr.count(words) == 1 or "denied: " in done.stderr or not words
    task = shell.json("tasks", "list")[0]
    assert task["status"] == ("done" if code == 0 else "failed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_cancels_its_task(shell, number):
    with_model(shell, "sleep:60000")
    with shell.start("exec", "go", stderr=subprocess.PIPE, text=True) as running:
        while not shell.json("tasks", "list", "--status", "running"):
            assert running.poll() is None
            time.sleep(0.05)
        os.kill(running.pid, number)
        _out, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "cancelled" in told
    (task,) = shell.json("tasks", "list")
    assert task["status"] == "cancelled"


def test_where_only_the_command_line_is_used_it_writes_checkpoints_and_sends_anchors(shell):
    proof = {"EVENT_CHECKPOINT_EVENTS": "1", "EVENT_ANCHORS": f"file:{shell.home}/anchors"}
    with_model(shell, "sleep:500", "msg:done", **proof)
    for _ in range(3):
        shell("exec", "go")
    told = shell.json("events", "verify")
    assert told["ok"]
    assert min(told["signed"], told["anchors"]) >= 1


def test_a_session_is_continued_and_keeps_its_model(shell):
    with_model(shell, "msg:one", "msg:two")
    first = shell("exec", "go")
    session = first.stderr.split()[-1]
    assert shell("exec", "go on", "--session", session).stdout == "two\n"
    said = [json.loads(line) for line in shell("sessions", "export", session).stdout.splitlines()]
    assert [line["content"] for line in said if line["type"] == "message"] == ["go", "one", "go on", "two"]


@each_row(
    ("arguments", "code"),
    [
        ((), 2),
        (("--no-such-option", "go"), 2),
        (("-x",), 2),
        ((" ",), 2),
        (("go", "--mode", "nothing"), 2),
        (("go", "--root", "nowhere"), 2),
        (("go", "--session", "s_nobody"), 1),
        (("go", "--agent", "nobody"), 1),
        (("go", "--model", "nobody"), 1),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_recorded(shell, arguments, code):
    done = shell("exec", *arguments, expect=code)
    assert done.stdout == ""
    assert done.stderr
    assert shell.json("sessions", "list", "--group", "all") == []


def test_a_setting_that_cannot_be_used_is_told_in_one_line(shell):
    shell.variables["MODEL"] = "openai"
    assert "OPENAI_MODEL" in one_line_error(shell, "exec", "go")


def test_refused_calls_end_in_an_answer_on_stdout(shell):
    done = with_model(shell, *DENIED, "msg:I may not read files here.")("exec", "go")
    assert done.stdout == "I may not read files here.\n"
    assert done.stderr.count("denied: read_file is not allowed in chat_safe mode") == 3
    lines = with_model(shell, *DENIED, "msg:I may not.")("exec", "go", "--json").stdout.splitlines()
    assert json.loads(lines[-1])["status"] == "done"
