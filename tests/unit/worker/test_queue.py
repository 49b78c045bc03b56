"""The bell of one process: everybody hears it, nothing piles up, and who stops listening is forgotten."""

import asyncio

from interlock.worker.queue import InProcessBell
from interlock.worker.wire import Ring, Stir


async def listening(bell: InProcessBell):
    """A listener that hears from now on."""
    rings = bell.rings()
    first = asyncio.ensure_future(anext(rings))
    await asyncio.sleep(0)
    return rings, first


async def test_everybody_who_listens_hears_a_ring():
    bell = InProcessBell()
    (one, first), (two, second) = await listening(bell), await listening(bell)
    bell.ring("s1")
    assert [await first, await second] == [Ring("s1"), Ring("s1")]
    await one.aclose()
    await two.aclose()


async def test_rings_for_one_session_do_not_pile_up():
    bell = InProcessBell()
    rings, first = await listening(bell)
    for _ in range(1000):
        bell.ring("s1")
    bell.ring("s2")
    assert [await first, await anext(rings)] == [Ring("s1"), Ring("s2")]
    waiting = asyncio.ensure_future(anext(rings))
    await asyncio.sleep(0)
    assert not waiting.done()
    bell.ring("s1")
    assert await waiting == Ring("s1")
    await rings.aclose()


async def test_who_stops_listening_is_forgotten():
    bell = InProcessBell()
    bell.ring("nobody hears this")
    rings, first = await listening(bell)
    assert len(bell._ears) == 1
    first.cancel()
    await asyncio.wait({first})
    await rings.aclose()
    assert bell._ears == set()


async def test_a_stir_of_another_process_is_told_apart_from_a_ring():
    bell = InProcessBell()
    rings, first = await listening(bell)
    bell.hear(Stir("s1"))
    bell.hear(Ring("s1"))
    assert [await first, await anext(rings)] == [Stir("s1"), Ring("s1")]
    await rings.aclose()


async def test_rings_that_nobody_comes_to_are_forgotten_beyond_some(monkeypatch):
    """Whoever is on a wire can ring for any number of sessions."""
    monkeypatch.setattr("interlock.worker.queue.MAX_HEARD", 10)
    bell = InProcessBell()
    rings, first = await listening(bell)
    for number in range(100):
        bell.hear(Ring(f"s{number}"))
    assert await first == Ring("s90")
    assert [await anext(rings) for _ in range(9)] == [Ring(f"s{number}") for number in range(91, 100)]
    await rings.aclose()
