"""Tools that misbehave, calls that are garbled, and callers that change their mind twice."""

import asyncio

import pytest

from interlock.core.errors import ErrorCode, ToolError
from interlock.redaction.redactor import MARK
from interlock.tools.result import ToolResult
from tests.harness.single_tool import SECRET
from tests.harness.tools import DeclaredTool


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
async def test_a_tool_cannot_end_the_process(make_harness, error):
    def leave(_arguments, _context):
        raise error

    rude = make_harness(DeclaredTool(run=leave))
    result = await rude.call()
    assert result.as_dict()["error_code"] in {"EXECUTION_ERROR", "CANCELLED"}
    assert rude.kinds() == ["tool_call.started", "tool_call.failed"]


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(stdout="a\ud800b\x00c", stderr="\udfff"),
        ToolResult(stdout=b"bytes", stderr=5),
        ToolResult(
            meta={"when": object(), "big": 2**70, 5: float("nan"), "raw": b"x", "deep": {"s": {1, 2}}}
        ),
        ToolResult(meta=None),
        ToolResult(meta={"a": "\ud800"}),
    ],
)
async def test_odd_results_can_still_be_shown_and_recorded(make_harness, result):
    import orjson

    odd = make_harness(DeclaredTool(run=lambda _a, _c: result))
    shown = await odd.call()
    orjson.dumps(shown.as_dict())
    assert odd.kinds() == ["tool_call.started", "tool_call.completed"]


@pytest.mark.parametrize("arguments", [{"text": object()}, {"text": "\ud800"}, {5: "x"}, {"text": 2**70}])
async def test_arguments_that_are_not_json_are_refused(make_harness, arguments):
    echo = make_harness()
    assert (await echo.call(arguments)).as_dict()["error_code"] == "INVALID_ARGS"


async def test_a_garbled_name_is_recorded(make_harness):
    echo = make_harness()
    result = await echo.call(name="\ud800tool\x00")
    assert result.as_dict()["error_code"] == "TOOL_NOT_FOUND"
    assert echo.kinds() == ["tool_call.failed"]


async def test_cancelled_twice_while_it_stops_the_tool_is_waited_for(make_harness):
    running, ended = asyncio.Event(), asyncio.Event()

    async def slow_to_stop(_arguments, _context):
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            ended.set()

    slow = make_harness(DeclaredTool(run=slow_to_stop))
    task = asyncio.create_task(slow.call())
    await running.wait()
    for _ in range(4):
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert slow.kinds() == ["tool_call.started", "tool_call.failed"]


async def test_a_tool_error_of_no_known_code_is_a_fault_and_recorded(make_harness):
    def odd(_arguments, _context):
        raise ToolError("NO_SUCH_CODE", "x\ud800", "y")

    broken = make_harness(DeclaredTool(run=odd))
    assert (await broken.call()).as_dict()["error_code"] == "EXECUTION_ERROR"
    assert broken.kinds() == ["tool_call.started", "tool_call.failed"]


async def test_everything_beside_the_output_is_bounded_and_redacted_too(make_harness):
    told = []

    def chatty(_arguments, context):
        context.report_progress(f"half way with {SECRET}")
        return ToolResult(exit_code=2**70, next_page_cursor=f"after {SECRET}", meta={"big": "x" * 100_000})

    noisy = make_harness(DeclaredTool(run=chatty))
    result = await noisy.call(report_progress=told.append)
    assert told == [f"half way with {MARK}"]
    assert result.exit_code == 1
    assert result.next_page_cursor == f"after {MARK}"
    assert result.meta == {"omitted": "100010 bytes of details"}


async def test_what_a_tool_says_of_its_failure_is_redacted_for_the_caller_and_the_log(make_harness):
    def tell(_arguments, _context):
        raise ToolError(ErrorCode.EXECUTION_ERROR, f"no answer with {SECRET}", f"Try {SECRET} again.")

    failing = make_harness(DeclaredTool(run=tell))
    told = (await failing.call()).as_dict()
    assert (told["message"], told["next_action"]) == (f"no answer with {MARK}", f"Try {MARK} again.")
    assert SECRET not in str(failing.events())
    assert failing.events()[-1][1]["redacted"] is True


async def test_a_cursor_that_is_too_long_is_none(make_harness):
    endless = make_harness(DeclaredTool(run=lambda _a, _c: ToolResult(next_page_cursor="x" * 5000)))
    assert (await endless.call()).next_page_cursor is None


async def test_a_secret_in_an_invented_name_does_not_pass(make_harness):
    echo = make_harness()
    for length in range(40, 64):
        told = str((await echo.call(name="x" * length + SECRET)).as_dict())
        assert not any(SECRET[at : at + 6] in told for at in range(len(SECRET) - 5)), told
    recorded = str(echo.events())
    assert not any(SECRET[at : at + 6] in recorded for at in range(len(SECRET) - 5))


async def test_a_tool_that_judges_for_ever_is_stopped(make_harness):
    class Endless(DeclaredTool):
        async def prepare(self, arguments, context):
            await asyncio.Event().wait()

    tool = Endless()
    result = await make_harness(tool, timeout_seconds=0.05).call()
    assert result.failure.error_code is ErrorCode.TIMEOUT
    assert tool.calls == 0


async def test_a_tool_that_wants_to_exit_while_it_judges_has_refused(make_harness):
    result = await make_harness(DeclaredTool(refusal=SystemExit(3))).call()
    assert result.failure.error_code is ErrorCode.EXECUTION_ERROR
