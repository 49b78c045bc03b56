"""`interlock tool call` on files, with and without --jsonl, as a person or a script would use it."""

import json
import shlex
import subprocess

import pytest

from tests.harness.case_tables import each_row
from tests.harness.cli import CliRunner, one_line_error


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("one\ntwo\n")
    (folder / "src" / "a.py").write_text("print('hello')\n")
    return folder


def lines(interlock, text: str | bytes, *options: str, expect: int = 0) -> list[dict]:
    """What `tool call --jsonl` answers to these lines."""
    given = text if isinstance(text, bytes) else text.encode()
    done = interlock.run("tool", "call", "--jsonl", *options, given=given)
    assert done.returncode == expect, done.stderr
    assert b"Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def asked(*calls: tuple[str, dict]) -> str:
    return "".join(
        json.dumps({"id": number, "name": name, "arguments": arguments}) + "\n"
        for number, (name, arguments) in enumerate(calls)
    )


def test_a_session_of_calls_reads_edits_and_reads_back(interlock, project):
    answers = lines(
        interlock,
        asked(
            ("list_files", {}),
            ("edit_file", {"path": "README.md", "find": "two", "replace": "three"}),
            ("read_file", {"path": "README.md"}),
            ("edit_file", {"path": "README.md", "find": "two", "replace": "three"}),
            ("read", {"path": "README.md"}),
        ),
        *("--mode", "coding", "--root", str(project)),
    )
    results = [answer["result"] for answer in answers]
    assert [answer["id"] for answer in answers] == [0, 1, 2, 3, 4]
    assert results[0]["stdout"] == "README.md\nsrc/\n"
    assert results[1]["error_code"] == "READ_REQUIRED"
    assert results[3]["meta"]["replacements"] == 1
    assert results[4]["stdout"] == (project / "README.md").read_text() == "one\nthree\n"
    assert interlock.json("sessions", "list") == []
    assert interlock("sessions", "list").stderr == "no chats yet; use --group all to list every session\n"
    (session,) = interlock.json("sessions", "list", "--group", "commands")
    tree = interlock.json("events", "tree", session["id"])
    kinds = [event["kind"] for event in tree]
    assert kinds.count("tool_call.started") == 4
    assert kinds.count("tool_call.failed") == 1
    outcomes = [child["kind"] for event in tree for child in event["children"]]
    assert outcomes == ["tool_call.completed"] * 4
    interlock("events", "verify")


@each_row(
    ("line", "message"),
    [
        (b"not json\n", "not valid JSON"),
        (b"[]\n", "not a JSON object"),
        (b'"x"\n', "not a JSON object"),
        (b'{"id": 1}\n', "name"),
        (b'{"id": 1, "name": 7}\n', "name"),
        (b'{"id": 1, "name": "ls", "arguments": 7}\n', "arguments"),
        (b'{"id": 1, "name": "ls", "timeout_seconds": "5"}\n', "timeout_seconds"),
        (b'{"id": 1, "name": "ls", "timeout_seconds": true}\n', "timeout_seconds"),
        (b'{"id": 1, "name": "ls", "surprise": 1}\n', "surprise"),
        (b"\xff\xfe\n", "not valid JSON"),
        (b"\x00\n", "not valid JSON"),
        (b'{"id": 1, "name": "' + b"x" * 17_000_000 + b'"}\n', "longer than"),
    ],
)
def test_a_line_that_is_no_call_is_answered_and_the_next_is_made(interlock, project, line, message):
    answers = lines(
        interlock,
        line + b'\n\n{"id": "next", "name": "ls"}',
        *("--mode", "chat", "--root", str(project)),
    )
    assert len(answers) == 2
    assert answers[0]["result"]["error_code"] == "INVALID_ARGS"
    assert message in answers[0]["result"]["message"]
    assert answers[1] == {"id": "next", "result": answers[1]["result"]}
    assert answers[1]["result"]["ok"]


def test_a_line_with_half_a_character_is_answered_under_its_id(interlock, project):
    answers = lines(
        interlock,
        b'{"id": "half", "name": "read_file", "arguments": {"path": "\\udcff"}}\n'
        b'{"id": "\\ud800", "name": "ls"}\n{"id": 3, "name": "ls"',
        *("--mode", "chat", "--root", str(project)),
    )
    assert [answer["id"] for answer in answers] == ["half", None, None]
    assert {answer["result"]["error_code"] for answer in answers} == {"INVALID_ARGS"}


def test_any_json_value_can_be_an_id(interlock):
    identities = [None, 7, "x", {"a": [1]}, 1.5, True]
    text = "".join(json.dumps({"id": identity, "name": "current_time"}) + "\n" for identity in identities)
    assert [answer["id"] for answer in lines(interlock, text)] == identities


def test_no_lines_are_no_calls(interlock):
    assert lines(interlock, "") == []


def test_each_answer_comes_before_the_next_line_is_read(interlock):
    """A program can talk with it: ask, read the answer, ask again."""
    pipe = subprocess.PIPE
    process = interlock.start("tool", "call", "--jsonl", stdin=pipe, stdout=pipe)
    for number in range(3):
        process.stdin.write(json.dumps({"id": number, "name": "current_time"}).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == number
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_name_or_arguments_beside_jsonl_are_refused(interlock):
    assert "--jsonl" in one_line_error(interlock, "tool", "call", "ls", "--jsonl", expect=2)
    assert "--jsonl" in one_line_error(interlock, "tool", "call", expect=2)


def test_a_denied_path_exits_with_3_and_says_what_to_use(interlock, project):
    done = interlock(
        *("tool", "call", "read_file", "--mode", "chat", "--root", str(project)),
        *("--args", '{"path": "/etc/passwd"}'),
        expect=3,
    )
    assert "PATH_DENIED (policy)" in done.stdout
    assert str(project) in done.stdout
    assert "root:" not in done.stdout


def test_the_working_directory_can_be_opened(interlock, project):
    done = interlock.run("tool", "call", "ls", "--mode", "chat", "--root", ".", cwd=project)
    assert done.stdout == b"README.md\nsrc/\n"


def test_without_roots_the_tool_is_not_available_and_says_why(interlock):
    done = interlock("tool", "call", "read_file", "--mode", "chat", "--args", '{"path": "a"}', expect=3)
    assert "TOOL_NOT_AVAILABLE" in done.stdout
    assert "TOOL_ALLOWED_ROOTS" in done.stdout


def test_a_session_is_continued_with_what_it_has_read(interlock, project):
    options = ("--mode", "coding", "--root", str(project))
    read = interlock.json("tool", "call", "read", *options, "--args", '{"path": "README.md"}')
    edit = ("tool", "call", "edit", *options, "--args", '{"path":"README.md","find":"one","replace":"1"}')
    assert interlock.json(*edit, expect=1)["error_code"] == "READ_REQUIRED"
    assert interlock.json(*edit, "--session", read["session_id"])["ok"]


@pytest.mark.parametrize("name", ["README.md", "it's ä.md"])
def test_a_refused_edit_names_the_command_that_reads_first_in_the_same_session(interlock, project, name):
    (project / name).write_text("one\ntwo\n")
    edit = ("tool", "call", "edit_file", "--mode", "coding", "--root", str(project))
    edit += ("--args", json.dumps({"path": name, "find": "one", "replace": "1"}))
    for first in (interlock.json(*edit, expect=1)["next_action"], _next_of(interlock(*edit, expect=1))):
        (project / name).write_text("one\ntwo\n")
        reading, _, repeating = first.removeprefix("First: ").partition("   Then repeat this call with ")
        program, *read = shlex.split(reading)
        assert program == "interlock"
        assert interlock(*read).stdout == "one\ntwo\n"
        interlock(*edit, *shlex.split(repeating))
        assert (project / name).read_text() == "1\ntwo\n"


def _next_of(done) -> str:
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("next ")]
    return line.removeprefix("next").strip()


def test_a_call_may_ask_for_less_time(interlock, project):
    call = interlock.json(
        *("tool", "call", "ls", "--mode", "chat", "--root", str(project), "--timeout-seconds", "2.5")
    )
    events = interlock.json("events", "tree", call["session_id"])
    (started,) = [event for event in events if event["kind"] == "tool_call.started"]
    assert started["payload"]["timeout_seconds"] == 2.5


@each_row("value", ["0", "-1", "soon"])
def test_a_time_that_is_none_is_a_usage_error(interlock, value):
    done = interlock("tool", "call", "current_time", "--timeout-seconds", value, expect=2)
    assert "--timeout-seconds" in done.stderr
    assert done.stdout == ""
    assert interlock.json("sessions", "list", "--group", "all") == []


def test_policy_explain_judges_a_path_without_touching_it(interlock, project):
    def explain(tool, arguments, expect):
        return interlock.json(
            *("policy", "explain", tool, "--mode", "coding", "--root", str(project)),
            *("--args", json.dumps(arguments)),
            expect=expect,
        )

    assert explain("write_file", {"path": "new.txt", "content": "x"}, 0)["allowed"]
    assert not (project / "new.txt").exists()
    assert explain("write_file", {"path": "../new.txt", "content": "x"}, 3)["error_code"] == "PATH_DENIED"
    assert explain("write_file", {"path": ".git/config", "content": "x"}, 3)["error_code"] == "PATH_DENIED"
    assert explain("edit_file", {"path": "README.md", "find": "one", "replace": "1"}, 0)["allowed"]
    assert interlock.json("sessions", "list", "--group", "all") == []


def test_doctor_names_a_missing_program_and_the_tools_that_need_it(tmp_path):
    """S3-10.9: rg comes with Interlock; here it is run from an environment that has none."""
    without_rg = CliRunner.in_bare_environment(tmp_path, "bash")
    bare = tmp_path / "bin"
    findings = without_rg.json("doctor", expect=1)
    (missing,) = [finding for finding in findings if finding["state"] == "failed"]
    assert "rg is missing, so search_files cannot be used" in missing["detail"]
    assert "ripgrep" in missing["detail"]
    call = ("tool", "call", "grep", "--mode", "chat", "--root", str(bare), "--args", '{"pattern":"x"}')
    assert "the program rg is missing" in without_rg(*call, expect=3).stdout
    without_rg("tool", "call", "ls", "--mode", "chat", "--root", str(bare))
