"""Threads for blocking work."""

import asyncio
import subprocess
import sys
import threading
import weakref

import pytest

from interlock.core.threads import DaemonThreadPool


async def test_the_result_of_the_work_comes_back():
    assert await DaemonThreadPool("t").start(lambda: 7) == 7


@pytest.mark.parametrize("error", [ValueError("no"), OSError(2, "no")])
async def test_what_the_work_raises_comes_back(error):
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await DaemonThreadPool("t").start(fail)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, StopIteration])
async def test_work_that_wants_to_end_the_process_has_failed(error):
    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError, match=error.__name__):
        await DaemonThreadPool("t").start(fail)


async def test_an_idle_thread_is_used_again():
    threads = DaemonThreadPool("t")
    used = {await threads.start(threading.get_ident) for _ in range(300)}
    assert len(used) == 1


async def test_threads_that_were_needed_once_end_although_there_is_always_some_work(monkeypatch):
    monkeypatch.setattr("interlock.core.threads.IDLE_SECONDS", 0.2)
    name = "needed-once"
    threads, meeting = DaemonThreadPool(name), threading.Barrier(10)

    def alive() -> int:
        return sum(thread.name == name for thread in threading.enumerate())

    await asyncio.gather(*(threads.start(meeting.wait) for _ in range(10)))
    assert alive() == 10
    async with asyncio.timeout(20):
        while alive() > 1:
            await threads.start(lambda: None)
    assert await threads.start(lambda: 7) == 7


async def test_an_idle_thread_holds_nothing_of_its_last_work():
    class Large:
        pass

    threads = DaemonThreadPool("t")
    gone = weakref.ref(await threads.start(Large))
    async with asyncio.timeout(20):
        while gone() is not None:
            await asyncio.sleep(0.01)
    assert gone() is None


async def test_many_pieces_of_work_run_side_by_side():
    threads = DaemonThreadPool("t")
    meeting = threading.Barrier(30)
    numbers = await asyncio.gather(*(threads.start(lambda: meeting.wait(20)) for _ in range(30)))
    assert sorted(numbers) == list(range(30))


async def test_a_caller_that_stopped_waiting_is_no_error():
    threads, go_on = DaemonThreadPool("t"), threading.Event()
    waiting = threads.start(lambda: go_on.wait(20))
    waiting.cancel()
    go_on.set()
    assert await threads.start(lambda: 1) == 1


def test_work_that_hangs_does_not_keep_the_process_from_ending():
    code = (
        "import asyncio, threading\n"
        "from interlock.core.threads import DaemonThreadPool\n"
        "async def main():\n"
        "    begun = threading.Event()\n"
        "    DaemonThreadPool('t').start(lambda: (begun.set(), threading.Event().wait()))\n"
        "    begun.wait(20)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
