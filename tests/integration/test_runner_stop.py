"""What a time-out or a cancellation means: either nothing happened, or what happened is told (S3-6.3.1)."""

import asyncio
import threading

import pytest

from interlock.core.errors import ErrorCode
from interlock.policy.authority_inputs import CallLimits
from interlock.sandbox.paths import PathResolver
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread
from interlock.tools.tool import Effect, PolicySwitch
from tests.harness.tools import DeclaredTool

WRITING = {"effect": Effect.write, "switches": frozenset({PolicySwitch.fs})}


class Worker:
    """A tool's blocking work with a point of no return, which each test steers."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.took_effect = False

    def before_its_effect(self, arguments, context):
        def work() -> ToolResult:
            self.begun.set()
            self.go_on.wait(20)
            try:
                context.cancel.begin_effect()
                self.took_effect = True
            finally:
                self.ended.set()
            return ToolResult(stdout="done")

        return run_in_thread(context.cancel, work)

    def after_its_effect(self, arguments, context):
        def work() -> ToolResult:
            context.cancel.begin_effect()
            self.took_effect = True
            self.begun.set()
            self.go_on.wait(20)
            self.ended.set()
            return ToolResult(stdout="done")

        return run_in_thread(context.cancel, work)


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 20)


async def test_a_call_that_ran_out_of_time_has_no_effect_later(make_harness):
    worker = Worker()
    desk = make_harness(DeclaredTool("slow", run=worker.before_its_effect, seconds=0.05))
    result = await desk.call()
    assert result.failure.error_code is ErrorCode.TIMEOUT
    assert result.failure.next_action.startswith("Request less")
    worker.go_on.set()
    await until(worker.ended)
    assert not worker.took_effect
    assert desk.kinds()[-2:] == ["tool_call.started", "tool_call.failed"]


async def test_a_tool_that_minds_no_cancellation_has_no_effect_later_either(make_harness, monkeypatch):
    """It need not do its work on a thread of ours to be held to it."""
    monkeypatch.setattr("interlock.gates.runner.GRACE_SECONDS", 0.05)
    told, took_effect = asyncio.Event(), []

    async def stubborn(arguments, context):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await told.wait()
        context.cancel.begin_effect()
        took_effect.append(True)
        return ToolResult(stdout="done")

    desk = make_harness(DeclaredTool("stubborn", run=stubborn, seconds=0.05))
    result = await desk.call()
    assert result.failure.error_code is ErrorCode.TIMEOUT
    told.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert took_effect == []


async def test_an_effect_before_the_time_ran_out_is_told_as_it_went(make_harness):
    worker = Worker()
    desk = make_harness(DeclaredTool("slow", run=worker.after_its_effect, seconds=0.05))
    calling = asyncio.ensure_future(desk.call())
    await until(worker.begun)
    asyncio.get_running_loop().call_later(0.2, worker.go_on.set)
    result = await calling
    assert result.ok
    assert result.stdout == "done"
    assert desk.kinds()[-1] == "tool_call.completed"


async def test_an_effect_whose_end_never_comes_is_told_as_unknown(make_harness, monkeypatch):
    monkeypatch.setattr("interlock.gates.runner.GRACE_SECONDS", 0.05)
    worker = Worker()
    desk = make_harness(DeclaredTool("slow", run=worker.after_its_effect, seconds=0.05))
    result = await desk.call()
    assert result.failure.error_code is ErrorCode.TIMEOUT
    assert "not known" in result.failure.message
    assert result.failure.next_action.startswith("Check whether it took effect")
    worker.go_on.set()
    await until(worker.ended)


async def test_a_cancelled_call_that_took_effect_is_recorded_as_completed(make_harness):
    worker = Worker()
    desk = make_harness(DeclaredTool("slow", run=worker.after_its_effect))
    calling = asyncio.ensure_future(desk.call())
    await until(worker.begun)
    calling.cancel()
    asyncio.get_running_loop().call_later(0.05, worker.go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert worker.took_effect
    assert desk.kinds()[-1] == "tool_call.completed"


async def test_a_cancelled_call_without_effect_is_recorded_as_cancelled(make_harness):
    worker = Worker()
    desk = make_harness(DeclaredTool("slow", run=worker.before_its_effect))
    calling = asyncio.ensure_future(desk.call())
    await until(worker.begun)
    calling.cancel()
    asyncio.get_running_loop().call_later(0.05, worker.go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await calling
    kind, fields = desk.events()[-1]
    assert (kind, fields["error_code"]) == ("tool_call.failed", "CANCELLED")
    assert not worker.took_effect


@pytest.mark.parametrize(("asked", "given"), [(None, 30.0), (0.5, 0.5), (100, 100), (10_000, 600.0)])
async def test_a_call_may_ask_for_a_time_up_to_the_policys_maximum(make_harness, asked, given):
    desk = make_harness()
    await desk.call(timeout_seconds=asked)
    assert dict(desk.events())["tool_call.started"]["timeout_seconds"] == given


@pytest.mark.parametrize("asked", [0, -1, float("nan")])
async def test_a_time_that_is_none_is_refused(make_harness, asked):
    result = await make_harness().call(timeout_seconds=asked)
    assert result.failure.error_code is ErrorCode.INVALID_ARGS
    assert "timeout_seconds" in result.failure.message


async def test_work_that_hangs_holds_up_nobody_else(make_harness):
    """A disk that does not answer takes one thread, and never the event loop or the next call."""
    hung = [Worker() for _ in range(40)]
    calls = [
        asyncio.ensure_future(
            make_harness(DeclaredTool("slow", run=worker.before_its_effect, seconds=0.3)).call()
        )
        for worker in hung
    ]
    quick = await make_harness(
        DeclaredTool("quick", run=lambda _a, c: run_in_thread(c.cancel, ToolResult))
    ).call()
    assert quick.ok
    results = await asyncio.gather(*calls)
    assert {result.failure.error_code for result in results} == {ErrorCode.TIMEOUT}
    for worker in hung:
        worker.go_on.set()


@pytest.fixture
def unanswering_disk(monkeypatch):
    """Whoever looks at a path waits until `go_on`."""
    worker = Worker()

    def find(*_arguments, **_options):
        worker.begun.set()
        worker.go_on.wait(20)
        worker.ended.set()

    monkeypatch.setattr(PathResolver, "find", find)
    yield worker
    worker.go_on.set()


@pytest.mark.parametrize("tool", ["list_files", "delete_file"])
async def test_a_disk_that_does_not_answer_holds_up_no_judgement(harness, unanswering_disk, tool):
    """Nothing has happened yet, so the thread is left behind at once."""
    harness.limits = CallLimits(timeout_seconds=0.05)
    result = await harness.call(tool, path="a.txt")
    assert result.failure.error_code is ErrorCode.TIMEOUT
    assert not unanswering_disk.ended.is_set()


async def test_a_judgement_that_hangs_can_be_cancelled(harness, unanswering_disk):
    calling = asyncio.ensure_future(harness.call("list_files", path="a.txt"))
    await until(unanswering_disk.begun)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not unanswering_disk.ended.is_set()
