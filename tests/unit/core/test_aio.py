"""Cancelling for certain, delays that double, a lock for each name, and events that call."""

import asyncio
import gc

import pytest

from interlock.core.aio import (
    Backoff,
    KeyedLock,
    NotifyingEvent,
    cancel_and_wait,
    finish_uncancelled,
    wait_for_event,
    wait_uncancelled,
)

# -- a lock for each name --


async def test_the_same_name_takes_turns_in_order():
    turns, seen = KeyedLock(), []

    async def work(number):
        async with turns.of("s"):
            seen.append(number)
            await asyncio.sleep(0)
            seen.append(number)

    await asyncio.gather(*(work(number) for number in range(5)))
    assert seen == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert not turns._locks
    assert not turns._waiting


async def test_other_names_do_not_wait():
    turns = KeyedLock()
    async with turns.of("a"), asyncio.timeout(1), turns.of("b"):
        assert set(turns._locks) == {"a", "b"}


async def test_who_gives_up_waiting_or_fails_leaves_nothing_behind():
    turns = KeyedLock()
    async with turns.of("s"):
        waiting = asyncio.create_task(turns.of("s").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    with pytest.raises(ValueError, match="no"):
        async with turns.of("s"):
            raise ValueError("no")
    assert not turns._locks


# -- cancelling --


class Stubborn:
    """Work that goes on when it is cancelled, until it may end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.cancels, self.may_end = 0, asyncio.Event()
        self._error = error

    async def run(self) -> None:
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancels += 1
        if self._error is not None:
            raise self._error


async def test_what_was_cancelled_has_really_ended_even_if_its_waiter_is_cancelled_again():
    slow, quick = Stubborn(), asyncio.create_task(asyncio.sleep(60))
    work = asyncio.create_task(slow.run())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(cancel_and_wait(work, quick))
    for _ in range(3):
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
    await asyncio.sleep(0.01)
    assert (slow.cancels, quick.cancelled()) == (4, True)
    slow.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.done()


async def test_an_error_of_what_was_cancelled_is_neither_raised_nor_logged():
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
    slow = Stubborn(OSError("no"))
    work = asyncio.create_task(slow.run())
    slow.may_end.set()
    await asyncio.sleep(0)
    await cancel_and_wait(work)
    del work
    gc.collect()
    assert unheard == []


async def test_without_tasks_there_is_nothing_to_wait_for():
    await cancel_and_wait()


@pytest.mark.parametrize("wait", [wait_uncancelled, finish_uncancelled])
async def test_what_must_not_be_interrupted_is_waited_for_and_the_cancellation_passed_on(wait):
    work = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(wait(work))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    work.set_result("done")
    (end,) = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(end, asyncio.CancelledError)
    assert work.result() == "done"


async def test_uncancelled_it_gives_the_result():
    work = asyncio.get_running_loop().create_future()
    work.set_result("done")
    assert await wait_uncancelled(work) is None
    assert await finish_uncancelled(work) == "done"


# -- delays --


def test_delays_double_up_to_the_longest_and_begin_anew():
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_seconds() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.next_seconds() == 0.5


async def test_a_wait_ends_with_its_event_or_its_time():
    event = asyncio.Event()
    assert not await wait_for_event(event, 0.01)
    asyncio.get_running_loop().call_later(0.01, event.set)
    async with asyncio.timeout(5):
        assert await Backoff(60.0, 60.0).wait_for(event)


# -- events that call --


def test_an_event_calls_each_function_while_it_is_wanted():
    event, called = NotifyingEvent(), []
    with event.calling(lambda: called.append("a")), event.calling(lambda: called.append("b")):
        event.set()
        assert called == ["a", "b"]
    with event.calling(lambda: called.append("late")):
        assert called[2:] == ["late"]
    event.set()
    assert called == ["a", "b", "late"]
