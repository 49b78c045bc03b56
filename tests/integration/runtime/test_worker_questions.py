"""A worker whose task asks: it holds nothing meanwhile, and goes on with the answer."""

from interlock.runtime.task_handler import DoneOutcome, WaitingOutcome
from interlock.runtime.task_rows import TaskStatus
from tests.harness.store import open_store
from tests.harness.tasks import ScriptedHandler, TaskHarness, until

YES = {"confirmed": True}


def asking_once(harness):
    """Asks at the first attempt and is done at the second."""

    async def handling(task, lease, cancelled):
        if task.attempts > 1:
            return DoneOutcome()
        return WaitingOutcome((await harness.asked(task, lease)).id)

    return ScriptedHandler(handling)


async def test_a_task_that_asks_holds_nothing_and_goes_on_with_the_answer(harness):
    session, other = await harness.session(), await harness.session()
    async with harness.working(asking_once(harness), sessions=1, poll_seconds=60):
        task = await harness.put(session)
        waiting = await harness.reached(task.id, TaskStatus.waiting)
        await until(lambda: harness.store.query("SELECT expires_ms FROM leases") == [(0,)])
        elsewhere = await harness.put(other)
        await harness.reached(elsewhere.id, TaskStatus.waiting)
        await harness.questions.answer(waiting.question_id, YES, who="ada")
        (ended,) = await harness.ended(task.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (TaskStatus.done, 2, 0)
    told = [kind for kind in harness.kinds(session) if kind.startswith("task.")]
    assert told == ["task.queued", "task.started", "task.waiting", "task.started", "task.finished"]
    assert harness.faults() == []


async def test_a_parked_task_goes_on_after_a_restart(harness):
    session = await harness.session()
    task = await harness.put(session)
    async with harness.working(asking_once(harness)):
        waiting = await harness.reached(task.id, TaskStatus.waiting)
    await harness.questions.answer(waiting.question_id, YES, who="ada")
    again_store = open_store(harness.store.config)
    again = TaskHarness(again_store)
    async with again.working(asking_once(again), "w2"):
        (ended,) = await again.ended(task.id)
    again_store.close()
    assert (ended.status, ended.attempts) == (TaskStatus.done, 2)


async def test_a_message_instead_of_an_answer_is_worked_on_after_what_asked(harness):
    session = await harness.session()
    handler = asking_once(harness)
    async with harness.working(handler, poll_seconds=60):
        task = await harness.put(session)
        await harness.reached(task.id, TaskStatus.waiting)
        message = await harness.put(session, "never mind")
        await harness.ended(task.id)
        await harness.reached(message.id, TaskStatus.waiting)
    assert [seen.id for seen in handler.seen] == [task.id, task.id, message.id]
    assert harness.ends(session) == [(task.id, "done")]
