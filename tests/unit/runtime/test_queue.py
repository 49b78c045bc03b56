"""The bell of one process: everybody hears it, nothing piles up, and who stops listening is forgotten."""

import asyncio

from interlock.runtime.bus import CancelRequested, WorkAvailable
from interlock.runtime.work_queue import BusNotifier


async def listening(notifier: BusNotifier):
    """A listener that hears from now on."""
    rings = notifier.notifications()
    first = asyncio.ensure_future(anext(rings))
    await asyncio.sleep(0)
    return rings, first


async def test_everybody_who_listens_hears_a_ring():
    notifier = BusNotifier()
    (one, first), (two, second) = await listening(notifier), await listening(notifier)
    notifier.notify("s1")
    assert [await first, await second] == [WorkAvailable("s1"), WorkAvailable("s1")]
    await one.aclose()
    await two.aclose()


async def test_rings_for_one_session_do_not_pile_up():
    notifier = BusNotifier()
    rings, first = await listening(notifier)
    for _ in range(1000):
        notifier.notify("s1")
    notifier.notify("s2")
    assert [await first, await anext(rings)] == [WorkAvailable("s1"), WorkAvailable("s2")]
    waiting = asyncio.ensure_future(anext(rings))
    await asyncio.sleep(0)
    assert not waiting.done()
    notifier.notify("s1")
    assert await waiting == WorkAvailable("s1")
    await rings.aclose()


async def test_who_stops_listening_is_forgotten():
    notifier = BusNotifier()
    notifier.notify("nobody hears this")
    rings, first = await listening(notifier)
    assert len(notifier._subscribers) == 1
    first.cancel()
    await asyncio.wait({first})
    await rings.aclose()
    assert notifier._subscribers == set()


async def test_a_stir_of_another_process_is_told_apart_from_a_ring():
    notifier = BusNotifier()
    rings, first = await listening(notifier)
    notifier.hear(CancelRequested("s1"))
    notifier.hear(WorkAvailable("s1"))
    assert [await first, await anext(rings)] == [CancelRequested("s1"), WorkAvailable("s1")]
    await rings.aclose()


async def test_rings_that_nobody_comes_to_are_forgotten_beyond_some(monkeypatch):
    """Whoever is on a wire can ring for any number of sessions."""
    monkeypatch.setattr("interlock.runtime.work_queue.MAX_HEARD", 10)
    notifier = BusNotifier()
    rings, first = await listening(notifier)
    for number in range(100):
        notifier.hear(WorkAvailable(f"s{number}"))
    assert await first == WorkAvailable("s90")
    assert [await anext(rings) for _ in range(9)] == [
        WorkAvailable(f"s{number}") for number in range(91, 100)
    ]
    await rings.aclose()
