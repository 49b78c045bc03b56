"""One after another for the same name, side by side for others, and nothing kept."""

import asyncio

import pytest

from interlock.core.keyed_lock import KeyedLock


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
