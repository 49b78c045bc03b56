"""A message that steers: given to the task at work, once and in its place, or else a task by itself."""

import orjson
import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import SessionFenced
from interlock.log.kinds import SessionModeChanged
from interlock.questions.rows import QuestionStatus
from interlock.runtime.task_rows import TaskStatus
from interlock.sessions.export import export_session
from interlock.sessions.models import Role
from interlock.sessions.transcript import read_messages, read_messages_through_task


async def nothing():
    pass


async def steer(harness, session, content="go left", **options):
    return await harness.tasks.put(session, content, who="bob", steer=True, **options)


def context(harness, session, task):
    with harness.store.database.reading() as connection:
        messages = read_messages_through_task(connection, session, task.id)
    return [(message.content, message.is_steering) for message in messages]


async def say(harness, task, lease, text):
    await harness.sessions.append_message(
        task.session_id, Role.assistant, text, scope=task.scope, token=lease.token
    )


async def test_it_is_given_once_and_stands_where_the_task_got_it(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    first, second = await steer(harness, session, "go left"), await steer(harness, session, "and slowly")
    await say(harness, task, lease, "said before it was given")
    taken = await harness.tasks.take_steering(task, lease, nothing)
    assert [(message.content, message.is_steering) for message in taken] == [
        ("go left", True),
        ("and slowly", True),
    ]
    await say(harness, task, lease, "said after")
    assert await harness.tasks.take_steering(task, lease, nothing) == []
    assert [(await harness.tasks.get(each.id)).status for each in (first, second)] == [TaskStatus.done] * 2
    steered = [payload for kind, payload in harness.events(session) if kind == "task.steered"]
    assert steered == [
        {"task_id": each.id, "into": task.id, "message_seq": each.message_seq} for each in (first, second)
    ]
    own = [("hello", False), ("said before it was given", False), ("go left", True), ("and slowly", True)]
    assert context(harness, session, task) == [*own, ("said after", False)]
    await harness.tasks.finish(task.id, TaskStatus.done, "", lease)
    assert await harness.tasks.resumable(session) is None
    following = await harness.put(session, "next")
    assert context(harness, session, following) == [*own, ("said after", False), ("next", False)]
    assert harness.faults() == []


async def test_what_the_task_did_is_stored_before_it_is_given(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    stored = []

    async def before():
        stored.append(harness.kinds(session)[-1])

    assert await harness.tasks.take_steering(task, lease, before) == []
    assert stored == []
    await steer(harness, session)
    await harness.tasks.take_steering(task, lease, before)
    assert stored == ["task.queued"]


async def test_if_the_task_ends_before_it_is_a_task_like_any_other(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    queued, steering = await harness.put(session, "queued"), await steer(harness, session)
    await harness.tasks.finish(task.id, TaskStatus.done, "", lease)
    following = await harness.tasks.start(queued.id, lease)
    assert await harness.tasks.take_steering(following, lease, nothing) == []
    await harness.tasks.finish(queued.id, TaskStatus.done, "", lease)
    assert (await harness.tasks.resumable(session)).id == steering.id
    assert context(harness, session, steering) == [("hello", False), ("queued", False), ("go left", False)]


async def test_it_overtakes_what_is_queued_and_leaves_that_where_it_was(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    queued = await harness.put(session, "queued")
    await steer(harness, session)
    assert [each.content for each in await harness.tasks.take_steering(task, lease, nothing)] == ["go left"]
    assert context(harness, session, task) == [("hello", False), ("go left", True)]
    await harness.tasks.finish(task.id, TaskStatus.done, "", lease)
    assert (await harness.tasks.resumable(session)).id == queued.id


async def test_with_nothing_at_work_it_is_a_message_like_any_other(harness):
    session = await harness.session()
    alone = await steer(harness, session)
    behind = await steer(harness, session, "behind one that has not begun")
    steers = [payload["steers"] for kind, payload in harness.events(session) if kind == "task.queued"]
    assert steers == ["", ""]
    assert [alone.status, behind.status] == [TaskStatus.queued] * 2


async def test_sent_again_under_its_id_it_is_the_same_before_and_after_it_was_given(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    identity = "t_0123456789abcdef"
    first = await steer(harness, session, task_id=identity)
    assert await steer(harness, session, task_id=identity) == first
    assert len(await harness.tasks.take_steering(task, lease, nothing)) == 1
    assert (await steer(harness, session, task_id=identity)).status is TaskStatus.done
    assert await harness.tasks.take_steering(task, lease, nothing) == []


async def test_it_may_be_cancelled_until_it_is_given(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    steering = await steer(harness, session)
    await harness.tasks.cancel(steering.id, who="bob")
    assert await harness.tasks.take_steering(task, lease, nothing) == []
    assert (await harness.tasks.get(steering.id)).status is TaskStatus.cancelled


async def test_a_task_that_is_to_stop_gets_none(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    steering = await steer(harness, session)
    await harness.tasks.cancel(task.id, who="ada")
    assert await harness.tasks.take_steering(task, lease, nothing) == []
    await harness.tasks.end_cancelled(task.id, lease)
    assert (await harness.tasks.resumable(session)).id == steering.id


async def test_a_task_that_waits_goes_on_with_it(harness):
    session = await harness.session()
    task, question = await harness.parked(session)
    await steer(harness, session)
    assert (await harness.questions.get(question.id)).status is not QuestionStatus.open
    lease = await harness.leases.take(session, "w2")
    again = await harness.tasks.start(task.id, lease)
    assert [each.content for each in await harness.tasks.take_steering(again, lease, nothing)] == [
        "go left"
    ]


async def test_a_worker_that_lost_the_session_takes_none(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    steering = await steer(harness, session)
    harness.expire_lease(session)
    await harness.leases.take(session, "w2")
    with pytest.raises(SessionFenced):
        await harness.tasks.take_steering(task, lease, nothing)
    assert (await harness.tasks.get(steering.id)).status is TaskStatus.queued


async def test_an_erased_message_is_given_to_nobody(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    steering = await steer(harness, session)
    harness.store.execute(
        "UPDATE events SET content = NULL WHERE stream = ? AND seq = ?", session, steering.message_seq
    )
    assert await harness.tasks.take_steering(task, lease, nothing) == []
    assert (await harness.tasks.get(steering.id)).status is TaskStatus.done


@pytest.mark.parametrize(("who", "steers"), [("ada", True), ("bob", False)])
async def test_who_may_steer_only_their_own_steers_no_task_of_another(harness, who, steers):
    session = await harness.session()
    task, lease = await harness.started(session)
    await harness.tasks.put(session, "go left", who=who, steer=True, only_own=True)
    assert [each.content for each in await harness.tasks.take_steering(task, lease, nothing)] == (
        ["go left"] if steers else []
    )


async def test_tried_again_the_request_has_what_steered_it(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    await steer(harness, session, "go left")
    await harness.put(session, "queued")
    await steer(harness, session, "and slowly")
    await harness.tasks.take_steering(task, lease, nothing)
    await harness.tasks.finish(task.id, TaskStatus.failed, "the model was down", lease)
    again = await harness.tasks.retry(task.id, who="ada")
    assert context(harness, session, again)[-1] == ("hello\n\ngo left\n\nand slowly", False)


async def test_people_read_it_where_the_task_got_it_and_know_its_number(harness):
    session = await harness.session()
    task, lease = await harness.started(session)
    steering = await steer(harness, session)
    await say(harness, task, lease, "said before it was given")
    (taken,) = await harness.tasks.take_steering(task, lease, nothing)
    await say(harness, task, lease, "said after")
    told = await harness.sessions.transcript(session)
    assert [each.content for each in told] == ["hello", "said before it was given", "go left", "said after"]
    with harness.store.database.reading() as connection:
        stored = read_messages(connection, session)
        lines = list(map(orjson.loads, export_session(connection, session)))
    (exported,) = [line for line in lines if line.get("content") == "go left"]
    assert [each.seq for each in stored] == sorted(each.seq for each in stored)
    (found,) = [each for each in stored if each.is_steering]
    ((taken_seq,),) = harness.store.query(
        "SELECT seq FROM events WHERE stream = ? AND kind = 'task.steered'", session
    )
    assert (found.seq, found.taken_seq) == (steering.message_seq, taken_seq)
    assert found == taken
    assert exported["taken_seq"] == taken_seq


async def test_it_never_gives_the_task_its_senders_mode(harness):
    """The session was tightened while the task ran, and opened again before it was steered."""
    session = await harness.session(ToolMode.coding)
    task, lease = await harness.started(session)
    switch = SessionModeChanged(who="ada", from_mode="coding", to_mode="chat_safe")
    await harness.store.log.append(session, switch)
    await harness.store.log.append(
        session, SessionModeChanged(who="ada", from_mode="chat_safe", to_mode="coding")
    )
    steering = await steer(harness, session)
    assert steering.mode is ToolMode.coding
    assert len(await harness.tasks.take_steering(task, lease, nothing)) == 1
    again = await harness.tasks.start(task.id, lease)
    assert (again.mode, again.who, again.credential_id) == (ToolMode.chat_safe, "ada", None)
