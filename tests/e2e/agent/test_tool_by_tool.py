"""Each tool of the specification, from a model's call to what it is told: `interlock exec` in processes of
their own, on real files and in the real sandbox (S3-12.11 to S3-12.17)."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from tests.e2e.agent.conftest import furnish
from tests.harness.cli_processes import ProcessHarness

MANY = 5
LINES = 3000

CALLS = {
    "ls": ("ls", {"path": "many", "limit": 3}),
    "find": ("find", {"path": ".", "name_pattern": "*.py"}),
    "find near": ("find", {"path": ".", "name_pattern": "*.py", "max_depth": 1}),
    "find one": ("find", {"path": ".", "name_pattern": "*.py", "limit": 1}),
    "grep": ("grep", {"path": "src", "pattern": "deep"}),
    "grep nothing": ("grep", {"path": ".", "pattern": "no such words"}),
    "grep much": ("grep", {"path": "long.txt", "pattern": "needle"}),
    "read": ("read", {"path": "ten.txt", "offset": 3, "limit_bytes": 4}),
    "read outside": ("read", {"path": "../outside.txt"}),
    "write": ("write", {"path": "made.txt", "content": "one\n", "mode": "overwrite"}),
    "append": ("write", {"path": "made.txt", "content": "two\n", "mode": "append"}),
    "read back": ("read", {"path": "made.txt"}),
    "overwrite": ("write", {"path": "made.txt", "content": "three\n", "mode": "overwrite"}),
    "read words": ("read", {"path": "words.txt"}),
    "edit one": ("edit", {"path": "words.txt", "find": "c", "replace": "X"}),
    "edit unclear": ("edit", {"path": "words.txt", "find": "a", "replace": "X"}),
    "edit second": ("edit", {"path": "words.txt", "find": "a", "replace": "Z", "occurrence": 2}),
    "edit all": ("edit", {"path": "words.txt", "find": "a", "replace": "Y", "all": True}),
    "edit nothing": ("edit", {"path": "words.txt", "find": "z", "replace": "y"}),
    "bash": ("bash", {"cmd": "pwd; echo wrong >&2; exit 3", "workdir": "src"}),
    "bash slow": ("bash", {"cmd": "echo begun; sleep 60", "timeout_seconds": 1}),
    "bash denied": ("bash", {"cmd": "echo x; git push origin main"}),
    "bash destructive": ("bash", {"cmd": "rm -rf /"}),
}
LATER = {
    "ls": lambda told: ("ls", {"path": "many", "cursor": told["ls"]["next_page_cursor"]}),
    "grep much": lambda told: (
        "grep",
        {"path": "long.txt", "pattern": "needle", "cursor": told["grep much"]["next_page_cursor"]},
    ),
}


@dataclass(frozen=True)
class Matrix:
    """What was told of each call, and what of the next page of some."""

    harness: ProcessHarness
    told: dict[str, dict]
    later: dict[str, dict]


def asking(calls) -> str:
    asked = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"tool_calls": asked})


@pytest.fixture(scope="module")
def matrix(tmp_path_factory, new_state, sqlite_template) -> Matrix:
    harness = furnish(tmp_path_factory.mktemp("tools"), new_state, sqlite_template)
    harness.variables["AUTONOUS_TOOL_BASH_DENYLIST"] = "git push,curl"
    for path, content in {
        **{f"many/{number}": "" for number in range(MANY)},
        "top.py": "",
        "src/a.py": "",
        "src/deep/b.py": "# deep\n",
        "long.txt": "a needle\n" * LINES,
        "ten.txt": "0123456789",
        "words.txt": "a b a b a c\n",
        "../outside.txt": "not for you",
    }.items():
        (harness.root / path).parent.mkdir(parents=True, exist_ok=True)
        (harness.root / path).write_text(content)

    async def work() -> Matrix:
        first = [asking(CALLS.values()), "msg:looked"]
        harness.follows(*first)
        await harness.execute("try them all")
        told = dict(zip(CALLS, harness.results(), strict=True))
        harness.follows(*first, asking(page(told) for page in LATER.values()), "msg:done")
        await harness.execute("and the next pages", "--session", harness.session)
        return Matrix(harness, told, dict(zip(LATER, harness.results()[len(CALLS) :], strict=True)))

    return asyncio.run(work())


def test_ls_lists_and_goes_on_page_by_page(matrix):
    first, rest = matrix.told["ls"], matrix.later["ls"]
    assert first["stdout"] == "many/0\nmany/1\nmany/2\n"
    assert (first["truncated_lines"], rest["truncated_lines"]) == (True, False)
    assert rest["stdout"] == "many/3\nmany/4\n"
    assert "next_page_cursor" not in rest


def test_find_keeps_to_pattern_depth_and_limit(matrix):
    assert matrix.told["find"]["stdout"] == "src/a.py\nsrc/deep/b.py\ntop.py\n"
    assert matrix.told["find near"]["stdout"] == "top.py\n"
    assert matrix.told["find one"]["stdout"] == "src/a.py\n"
    assert matrix.told["find one"]["truncated_lines"] is True


def test_grep_tells_hits_none_and_cuts_what_is_too_much(matrix):
    assert matrix.told["grep"]["stdout"] == "src/deep/b.py:1:# deep\n"
    assert (matrix.told["grep nothing"]["ok"], matrix.told["grep nothing"]["stdout"]) == (True, "")
    first, second = matrix.told["grep much"], matrix.later["grep much"]
    shown = first["stdout"].count("\n")
    assert 0 < shown < LINES
    assert (first["truncated_lines"], second["truncated_lines"]) == (True, True)
    assert second["stdout"].startswith(f"long.txt:{shown + 1}:a needle\n")


def test_read_gives_the_part_that_was_asked_for_and_nothing_outside(matrix):
    assert matrix.told["read"]["stdout"] == "3456"
    assert matrix.told["read"]["truncated_bytes"] is True
    assert matrix.told["read outside"]["error_code"] == "PATH_DENIED"
    assert "not for you" not in json.dumps(matrix.told)


def test_write_overwrites_and_appends_what_can_be_read_back(matrix):
    assert matrix.told["write"]["meta"]["bytes_written"] == 4
    assert matrix.told["append"]["meta"]["bytes_written"] == 4
    assert matrix.told["read back"]["stdout"] == "one\ntwo\n"
    assert matrix.told["overwrite"]["ok"] is True
    assert (matrix.harness.root / "made.txt").read_text() == "three\n"


def test_edit_replaces_one_or_all_and_says_where_there_is_none(matrix):
    assert matrix.told["edit one"]["meta"]["replacements"] == 1
    unclear = matrix.told["edit unclear"]
    assert (unclear["error_code"], unclear["error_class"]) == ("INVALID_ARGS", "validation")
    assert matrix.told["edit second"]["meta"]["replacements"] == 1
    assert matrix.told["edit all"]["meta"]["replacements"] == 2
    nothing = matrix.told["edit nothing"]
    assert (nothing["ok"], nothing["error_code"]) == (False, "EXECUTION_ERROR")
    assert "nothing was changed" in nothing["message"]
    assert (matrix.harness.root / "words.txt").read_text() == "Y b Z b Y X\n"


def test_bash_tells_output_and_exit_code_and_is_stopped_and_refused(matrix):
    ran = matrix.told["bash"]
    assert (ran["exit_code"], ran["stderr"]) == (3, "wrong\n")
    assert ran["stdout"] == f"{matrix.harness.root}/src\n"
    slow = matrix.told["bash slow"]
    assert (slow["error_code"], slow["error_class"], slow["stdout"]) == ("TIMEOUT", "timeout", "begun\n")
    for denied in ("bash denied", "bash destructive"):
        assert matrix.told[denied]["error_code"] == "COMMAND_DENIED"
    assert "git push" in matrix.told["bash denied"]["message"]


def test_every_call_has_its_events_with_what_the_specification_lists(matrix):
    """S3-8: arguments with the intent; time, exit code cuts with the outcome; the class of a failure."""
    intents = [
        (event.fields["tool_name"], event.fields["arguments"])
        for event in matrix.harness.events("tool_call.started")
    ]
    assert ("list_files", CALLS["ls"][1]) in intents
    assert ("bash", CALLS["bash"][1]) in intents
    for event in matrix.harness.events("tool_call.completed"):
        assert event.fields["latency_ms"] >= 0
        assert {"tool_name", "exit_code", "truncated_lines", "truncated_bytes"} <= set(event.fields)
    failed = {
        (event.fields["tool_name"], event.fields["error_class"])
        for event in matrix.harness.events("tool_call.failed", "tool_call.denied")
    }
    assert failed == {
        *(("read_file", "policy"), ("edit_file", "tool_exec"), ("edit_file", "validation")),
        *(("bash", "tool_exec"), ("bash", "timeout"), ("bash", "policy")),
    }
    assert all(
        event.fields["redacted"] is False and event.fields["error"]
        for event in matrix.harness.events("tool_call.failed", "tool_call.denied")
    )
    matrix.harness.assert_sound()
