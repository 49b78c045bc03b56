"""What is old goes by whole tasks and whole exchanges, and what is not old stays."""

from interlock.agent.context import ModelContext
from interlock.config.modes import ToolMode
from interlock.log.channel_events import ReplyFailed
from interlock.log.kinds import ToolCallFailed
from interlock.runtime.task_rows import Task, TaskStatus
from interlock.sessions.models import Role
from interlock.sessions.transcript import read_messages_through_task
from tests.integration.retention.archive import CALLS


async def test_what_is_old_goes_whole_and_what_is_not_stays(archive):
    session = await archive.session(60)
    old = await archive.task(session, 50)
    new = await archive.task(session, 10)
    before = await archive.store.sessions.get(session)
    swept = await archive.sweep()
    assert archive.faults() == []
    assert (swept.streams, swept.messages) == (1, 4)
    assert archive.left(session, old.id) == set()
    assert archive.left(session, new.id) >= {"message.appended", "task.finished", "ask_user.answered"}
    asked, thought, result, answer = await archive.words(session)
    assert (asked, thought, answer) == ("hello", f"thinking of {new.id}", f"answer to {new.id}")
    assert "confirmed" in result
    dump = archive.dump()
    for words in ("thinking of", "answer to", "because of"):
        assert f"{words} {new.id}" in dump or f"{words}{new.id}" in dump
        assert f"{words} {old.id}" not in dump
        assert f"{words}{old.id}" not in dump
    assert (await archive.shop.tasks.get(old.id)).reason is None
    assert (await archive.shop.tasks.get(new.id)).reason == f"because of {new.id}"
    assert [
        question.task for question in await archive.shop.questions.list_questions(include_closed=True)
    ] == [new.id]
    assert await archive.store.sessions.get(session) == before


async def test_a_task_is_as_old_as_its_end(archive):
    session = await archive.session(60)
    task, lease = await archive.begin(session, 50)
    await archive.end(task, lease, 29)
    assert (await archive.sweep()).messages == 0
    assert len(await archive.words(session)) == 4
    assert (await archive.sweep(days=28)).messages == 4
    assert archive.faults() == []


async def test_an_event_that_is_newer_than_its_tasks_end_is_covered_by_the_erasure(archive):
    """A reply that failed days later belongs to the task, and verify compares its own time."""
    session = await archive.session(60)
    task = await archive.task(session, 50)
    archive.clock.days_ago(0)
    failed = ReplyFailed(channel="telegram", chat="1", task_id=task.id, reason="the bot was blocked")
    await archive.store.log.append(session, failed, scope=task.scope)
    assert (await archive.sweep()).events
    assert "reply.failed" not in archive.left(session, task.id)
    assert archive.faults() == []


async def test_a_session_with_a_task_that_has_not_ended_is_left_alone(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    archive.clock.days_ago(45)
    task, _ = await archive.shop.parked(session)
    assert (await archive.sweep()).events == 0
    assert archive.erased(session) == []
    archive.clock.days_ago(40)
    await archive.shop.tasks.cancel(task.id, who="ada")
    assert (await archive.sweep()).messages == 6
    assert archive.faults() == []


async def test_a_message_that_steered_a_task_goes_with_what_is_old(archive):
    """It began a task that ended unworked."""
    session = await archive.session(60)
    task, lease = await archive.begin(session, 50)
    sent = await archive.shop.tasks.put(session, "my address is Bahnhofstrasse 1", who="bob", steer=True)

    async def nothing():
        pass

    assert len(await archive.shop.tasks.take_steering(task, lease, nothing)) == 1
    await archive.end(task, lease, 50)
    assert (await archive.sweep()).messages == 5
    assert archive.left(session, sent.id) == set()
    assert "Bahnhofstrasse" not in archive.dump()
    assert archive.faults() == []


async def test_the_border_is_a_midnight(archive):
    session = await archive.session(60)
    await archive.task(session, 30.4)
    assert (await archive.sweep()).messages == 0
    await archive.task(session, 30.6)
    assert (await archive.sweep()).messages == 4


async def test_a_model_is_told_a_valid_conversation_afterwards(archive):
    """The second task's message came while the first was worked on: they lie between one another."""
    session = await archive.session(60)
    first, lease = await archive.begin(session, 50)
    second = await archive.shop.put(session, "second")
    await archive.say(session, Role.assistant, "and", first.id, tool_calls=[CALLS[0] | {"id": "c2"}])
    await archive.say(session, Role.tool, "{}", first.id, tool_call_id="c2")
    await archive.end(first, lease, 40)
    lease = await archive.shop.leases.take(session, "w1")
    await archive.shop.tasks.start(second.id, lease)
    await archive.say(session, Role.assistant, "done", second.id)
    await archive.end(second, lease, 10)
    third = await archive.shop.put(session, "third")
    assert (await archive.sweep()).events == 0
    await archive.shop.tasks.cancel(third.id, who="ada")
    assert (await archive.sweep()).messages == 6
    with archive.store.database.reading() as connection:
        told = read_messages_through_task(connection, session, third.id)
    assert [(message.role, message.content) for message in told] == [
        *(("user", "second"), ("assistant", "done")),
        ("user", "third"),
    ]
    assert ModelContext(told).unanswered == ()
    assert archive.faults() == []


async def test_messages_without_a_task_go_by_exchanges(archive):
    session = await archive.session(60)
    for days_ago, role, text in (
        (50, Role.user, "one"),
        (50, Role.assistant, "answer one"),
        (40, Role.user, "two"),
        (40, Role.assistant, "wait"),
        (20, Role.tool, "noon"),
        (20, Role.assistant, "answer two"),
    ):
        archive.clock.days_ago(days_ago)
        more = {"tool_calls": CALLS} if text == "wait" else {}
        await archive.say(session, role, text, **more, tool_call_id="c1" if role is Role.tool else None)
    assert (await archive.sweep()).messages == 2
    assert await archive.words(session) == ["two", "wait", "noon", "answer two"]
    assert (await archive.sweep(days=5)).messages == 4
    assert await archive.words(session) == []
    assert archive.faults() == []


async def test_a_question_stays_whole_while_it_is_open_or_lately_answered(archive):
    session = await archive.session(60)
    archive.clock.days_ago(50)
    lease = await archive.shop.leases.take(session, "w1")
    loose = Task(
        id="t_gone",
        session_id=session,
        message_seq=1,
        status=TaskStatus.running,
        mode=ToolMode.chat,
        who="ada",
        created_us=0,
        queued_event="x",
    )
    question = await archive.shop.asked(loose, lease)
    await archive.sweep()
    assert "ask_user.asked" in archive.left(session)
    archive.clock.days_ago(20)
    await archive.shop.questions.answer(question.id, {"confirmed": True}, who="ada")
    await archive.sweep()
    assert {"ask_user.asked", "ask_user.answered"} <= archive.left(session)
    assert archive.faults() == []
    await archive.sweep(days=10)
    assert not {"ask_user.asked", "ask_user.answered"} & archive.left(session)
    assert archive.faults() == []


def refused(call_id: str, command: str) -> ToolCallFailed:
    """The outcome of a call outside any turn, as `interlock tool call` records it."""
    return ToolCallFailed(
        call_id=call_id,
        tool_name="bash",
        mode="chat",
        authority_digest="d",
        requested_name="bash",
        error=f"{command} failed",
        error_code="TIMEOUT",
        error_class="timeout",
        latency_ms=1.0,
        next_action="",
        arguments={"cmd": command},
    )


async def test_an_old_outcome_that_is_no_message_goes_while_newer_ones_stay(archive):
    session = await archive.session(60)
    for days_ago, command in ((50, "old words"), (20, "new words")):
        archive.clock.days_ago(days_ago)
        await archive.store.log.append(session, refused(command[:3], command))
    swept = await archive.sweep()
    assert swept.messages == archive.told()[0]["messages"] == 0
    assert "old words" not in archive.dump()
    assert "new words" in archive.dump()
    assert archive.faults() == []


async def test_an_outcome_between_two_messages_does_not_keep_their_exchange(archive):
    session = await archive.session(60)
    archive.clock.days_ago(50)
    await archive.say(session, Role.user, "old question")
    archive.clock.days_ago(20)
    await archive.store.log.append(session, refused("c1", "new words"))
    assert (await archive.sweep()).messages == 1
    assert await archive.words(session) == []
    assert "tool_call.failed" in archive.left(session)
    assert archive.faults() == []
