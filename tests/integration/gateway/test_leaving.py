"""A client that goes away in the middle of what it asked for: it is done whole, or not at all."""

import asyncio

from interlock.runtime.workflow_runs import WorkflowRunService
from tests.integration.gateway.test_runs import workflow_house


async def left(harness, client) -> None:
    """Until the server knows that nobody is there any more."""
    (connection,) = harness.gateway.sockets._open
    await client.close()
    async with asyncio.timeout(10):
        while any(not task.cancelling() for task in connection._under_way):
            await asyncio.sleep(0.02)


async def test_a_run_that_is_started_by_somebody_who_leaves_is_begun(open_harness, tmp_path, monkeypatch):
    harness = await workflow_house(open_harness, tmp_path)
    client = await harness.connect()
    made, go_on = asyncio.Event(), asyncio.Event()
    real = WorkflowRunService.start

    async def slowly(self, *arguments, **more):
        made.set()
        await go_on.wait()
        return await real(self, *arguments, **more)

    monkeypatch.setattr(WorkflowRunService, "start", slowly)
    await client.send("runs.start", workflow="plan_build_review", mode="coding")
    await made.wait()
    await left(harness, client)
    go_on.set()
    async with asyncio.timeout(10):
        while not (runs := await harness.agent_runtime.runs.book.runs()):
            await asyncio.sleep(0.02)
    assert [run.workflow for run in runs] == ["plan_build_review"]
