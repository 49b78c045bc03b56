"""A worker whose task asks: it holds nothing meanwhile, and goes on with the answer."""

from interlock.worker.handler import Done, Waiting
from interlock.worker.rows import TaskStatus
from tests.conftest import open_store
from tests.integration.worker.shop import Handler, Shop, until

YES = {"confirmed": True}


def asking_once(shop):
    """Asks at the first attempt and is done at the second."""

    async def handling(task, lease, cancelled):
        if task.attempts > 1:
            return Done()
        return Waiting((await shop.asked(task, lease)).id)

    return Handler(handling)


async def test_a_task_that_asks_holds_nothing_and_goes_on_with_the_answer(shop):
    session, other = await shop.session(), await shop.session()
    async with shop.working(asking_once(shop), sessions=1, poll_seconds=60):
        task = await shop.put(session)
        waiting = await shop.reached(task.id, TaskStatus.waiting)
        await until(lambda: shop.store.query("SELECT expires_ms FROM session_leases") == [(0,)])
        elsewhere = await shop.put(other)
        await shop.reached(elsewhere.id, TaskStatus.waiting)
        await shop.questions.answer(waiting.question_id, YES, who="ada")
        (ended,) = await shop.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 0)
    told = [kind for kind in shop.kinds(session) if kind.startswith("task.")]
    assert told == ["task.queued", "task.started", "task.waiting", "task.started", "task.finished"]
    assert shop.faults() == []


async def test_a_parked_task_goes_on_after_a_restart(shop):
    session = await shop.session()
    task = await shop.put(session)
    async with shop.working(asking_once(shop)):
        waiting = await shop.reached(task.id, TaskStatus.waiting)
    await shop.questions.answer(waiting.question_id, YES, who="ada")
    again_store = open_store(shop.store.config)
    again = Shop(again_store)
    async with again.working(asking_once(again), "w2"):
        (ended,) = await again.ended(task.id)
    again_store.close()
    assert (ended.status, ended.attempts) == (TaskStatus.done, 2)


async def test_a_message_instead_of_an_answer_is_worked_on_after_what_asked(shop):
    session = await shop.session()
    handler = asking_once(shop)
    async with shop.working(handler, poll_seconds=60):
        task = await shop.put(session)
        await shop.reached(task.id, TaskStatus.waiting)
        message = await shop.put(session, "never mind")
        await shop.ended(task.id)
        await shop.reached(message.id, TaskStatus.waiting)
    assert [seen.id for seen in handler.seen] == [task.id, task.id, message.id]
    assert shop.ends(session) == [(task.id, "done")]
