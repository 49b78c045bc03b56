"""The envelope of every call: its fields are always there, whatever became of the call (S3-5.3)."""

from interlock.core.errors import ErrorClass, ErrorCode
from interlock.tools.result import ToolFailure, ToolResult

ALWAYS = {"ok", "exit_code", "stdout", "stderr", "truncated_lines", "truncated_bytes"}


def failed(code: ErrorCode) -> ToolResult:
    failure = ToolFailure(code, code.error_class, "bash", "coding", "It failed.", "Try again.")
    return ToolResult(exit_code=3, stdout="so far", failure=failure)


def test_a_success_has_the_fields_of_the_envelope_and_no_others():
    assert ToolResult(stdout="x").as_dict() == {
        "ok": True,
        "exit_code": 0,
        "stdout": "x",
        "stderr": "",
        "truncated_lines": False,
        "truncated_bytes": False,
    }


def test_a_cursor_and_details_are_told_where_there_are_some():
    told = ToolResult(truncated_lines=True, next_page_cursor="c", meta={"entries": 2}).as_dict()
    assert set(told) == ALWAYS | {"next_page_cursor", "meta"}
    assert (told["truncated_lines"], told["next_page_cursor"], told["meta"]) == (True, "c", {"entries": 2})


def test_a_failure_keeps_the_envelope_and_says_why():
    told = failed(ErrorCode.EXECUTION_ERROR).as_dict()
    assert set(told) == ALWAYS | {"error_code", "error_class", "message", "next_action"}
    assert (told["ok"], told["exit_code"], told["stdout"]) == (False, 3, "so far")
    assert (told["error_code"], told["error_class"]) == ("EXECUTION_ERROR", "tool_exec")


def test_a_denial_has_six_fields():
    assert failed(ErrorCode.PATH_DENIED).as_dict() == {
        "ok": False,
        "error_code": "PATH_DENIED",
        "tool_name": "bash",
        "mode": "coding",
        "message": "It failed.",
        "next_action": "Try again.",
    }


def test_every_code_has_one_of_the_five_classes():
    """S3-8.3, S3-13.2."""
    assert {each.value for each in ErrorClass} == {
        "validation",
        "tool_exec",
        "policy",
        "timeout",
        "unknown",
    }
    classes = {code: code.error_class for code in ErrorCode}
    assert set(classes.values()) == set(ErrorClass) - {ErrorClass.unknown}
    denials = {code.value for code, each in classes.items() if each is ErrorClass.policy}
    assert denials == {
        *("MODE_DENIED", "TOOL_NOT_AVAILABLE", "PATH_DENIED", "COMMAND_DENIED", "LIMIT_EXCEEDED")
    }
    assert classes[ErrorCode.TOOL_NOT_FOUND] is classes[ErrorCode.INVALID_ARGS] is ErrorClass.validation
