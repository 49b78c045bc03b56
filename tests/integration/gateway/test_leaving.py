"""A client that goes away in the middle of what it asked for: it is done whole, or not at all."""

import asyncio

from interlock.events.log import EventLog
from interlock.worker.runs import RunDesk
from tests.integration.gateway.test_methods import new_session
from tests.integration.gateway.test_runs import workflow_house


async def left(house, client) -> None:
    """Until the server knows that nobody is there any more."""
    (connection,) = house.gateway.sockets._open
    await client.close()
    async with asyncio.timeout(10):
        while any(not task.cancelling() for task in connection._under_way):
            await asyncio.sleep(0.02)


async def test_a_session_that_is_deleted_by_somebody_who_leaves_is_erased_from_the_disk_too(
    house, monkeypatch
):
    """First its rows go, then what was kept of files."""
    forgotten, written, go_on = [], asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(house.runtime.sessions, "_forget_files", forgotten.append)
    client = await house.connect()
    session = await new_session(client)
    real = EventLog.transact

    async def slowly(self, stream, work, **more):
        result = await real(self, stream, work, **more)
        if stream == session:
            written.set()
            await go_on.wait()
        return result

    monkeypatch.setattr(EventLog, "transact", slowly)
    await client.send("session.delete", session_id=session)
    await written.wait()
    await left(house, client)
    go_on.set()
    async with asyncio.timeout(10):
        while not forgotten:
            await asyncio.sleep(0.02)
    assert forgotten == [session]


async def test_a_run_that_is_started_by_somebody_who_leaves_is_begun(open_house, tmp_path, monkeypatch):
    house = await workflow_house(open_house, tmp_path)
    client = await house.connect()
    made, go_on = asyncio.Event(), asyncio.Event()
    real = RunDesk.start

    async def slowly(self, *arguments, **more):
        made.set()
        await go_on.wait()
        return await real(self, *arguments, **more)

    monkeypatch.setattr(RunDesk, "start", slowly)
    await client.send("runs.start", workflow="plan_build_review", mode="coding")
    await made.wait()
    await left(house, client)
    go_on.set()
    async with asyncio.timeout(10):
        while not (runs := await house.office.runs.book.runs()):
            await asyncio.sleep(0.02)
    assert [run.workflow for run in runs] == ["plan_build_review"]
