"""What was said, as it is stored and as a task is to be told it."""

from dataclasses import replace

import pytest

from interlock.core.errors import SessionNotFound
from interlock.log.stream_appender import EventScope
from interlock.log.task_events import TurnCompletedEvent
from interlock.models.provider import Reasoning
from interlock.redaction.redactor import MARK, Redactor
from interlock.sessions.models import Role
from interlock.sessions.storable_message import StorableMessage, make_storable
from interlock.sessions.transcript import read_messages, read_messages_through_task, read_task_messages

SECRET = "correct-horse-battery-staple"
CALL = [{"id": "c1", "name": "current_time", "arguments": "{}"}]


@pytest.fixture
async def session(store) -> str:
    """The second message came while the first was still worked on; the third after that."""
    identity = (await store.sessions.create(opened_by="test")).id

    async def said(role: Role, text: str, task: str | None, **more: object) -> None:
        await store.sessions.append_message(identity, role, text, scope=EventScope(task), **more)

    await said(Role.user, "first", "t_1")
    await said(Role.assistant, "", "t_1", tool_calls=CALL)
    await said(Role.user, "second", "t_2")
    await said(Role.tool, "noon", "t_1", tool_call_id="c1")
    await said(Role.assistant, "answer to first", "t_1")
    await said(Role.user, "third", "t_3")
    await said(Role.assistant, "answer to second", "t_2")
    return identity


def told(store, session: str, task: str | None) -> list[str]:
    with store.database.reading() as connection:
        return [message.content for message in read_messages_through_task(connection, session, task)]


async def test_messages_come_in_the_order_they_were_stored(store, session):
    with store.database.reading() as connection:
        messages = read_messages(connection, session)
        later = read_messages(connection, session, after_seq=messages[4].seq)
    assert [message.content for message in messages] == [
        *("first", "", "second", "noon", "answer to first", "third", "answer to second")
    ]
    assert messages[1].tool_calls == CALL
    assert messages[3].tool_call_id == "c1"
    assert [message.content for message in later] == ["third", "answer to second"]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("t_1", ["first", "", "noon", "answer to first"]),
        ("t_2", ["first", "", "noon", "answer to first", "second", "answer to second"]),
        ("t_3", ["first", "", "noon", "answer to first", "second", "answer to second", "third"]),
        ("t_unknown", []),
    ],
)
async def test_a_task_is_told_each_earlier_task_whole_and_nothing_that_is_queued_behind_it(
    store, session, task, expected
):
    assert told(store, session, task) == expected


async def test_without_a_task_each_result_follows_its_call(store, session):
    assert told(store, session, None) == [
        *("first", "", "noon", "second", "answer to first", "third", "answer to second")
    ]


async def test_what_belongs_to_no_task_stands_where_it_is(store, session):
    await store.sessions.append_message(session, Role.user, "by the way")
    await store.sessions.append_message(session, Role.user, "fourth", scope=EventScope("t_4"))
    assert told(store, session, "t_4")[-2:] == ["by the way", "fourth"]
    assert "by the way" not in told(store, session, "t_3")


async def test_a_tasks_own_messages_are_its_own_alone(store, session):
    with store.database.reading() as connection:
        first = read_messages(connection, session)[0].seq
        own = read_task_messages(connection, session, first, "t_1")
    assert [message.content for message in own] == ["first", "", "noon", "answer to first"]


async def test_erased_and_unknown_sessions_have_nothing_to_tell(store, session):
    await store.delete(session, who="test")
    with store.database.reading() as connection:
        for read in (read_messages, lambda db, where: read_messages_through_task(db, where, None)):
            with pytest.raises(SessionNotFound):
                read(connection, session)
            with pytest.raises(SessionNotFound):
                read(connection, "s_nobody")


SIGNED = Reasoning("The key is in a.txt.", "thinker", '[{"signature":"c2ln"}]')


def turn(message: StorableMessage) -> TurnCompletedEvent:
    return TurnCompletedEvent(
        turn=1,
        finish_reason="tool_calls",
        tool_calls=1,
        input_tokens=1,
        output_tokens=1,
        latency_ms=1.0,
        content=message.content,
        calls=message.tool_calls,
        reasoning=message.reasoning_fields(),
    )


async def test_reasoning_is_read_back_as_it_was_stored_and_is_content_that_can_be_erased(store):
    identity = (await store.sessions.create(opened_by="test")).id
    message = store.sessions.draft(Role.assistant, "", tool_calls=CALL, reasoning=SIGNED)
    await store.log.append(identity, turn(message))
    with store.database.reading() as connection:
        assert [each.reasoning for each in read_messages(connection, identity)] == [SIGNED]
        ((facts, content),) = connection.query(
            "SELECT facts, content FROM events WHERE kind = 'turn.completed'", ()
        )
    assert "a.txt" in content
    assert "a.txt" not in facts


@pytest.mark.parametrize(
    ("reasoning", "stored"),
    [
        (SIGNED, SIGNED),
        # A signature is over the text as it was.
        (replace(SIGNED, text=f"It is {SECRET}."), Reasoning(f"It is {MARK}.", "thinker")),
        (replace(SIGNED, opaque=f'[{{"data":"{SECRET}"}}]'), replace(SIGNED, opaque="")),
        (replace(SIGNED, text="a\x00b\ud800"), None),
    ],
)
def test_reasoning_is_redacted_before_it_is_stored(reasoning, stored):
    message = make_storable(Redactor([SECRET]), Role.assistant, "", reasoning=reasoning)
    assert message.reasoning is not None
    assert SECRET not in str(message.reasoning_fields())
    assert message.redacted is (reasoning is not SIGNED)
    if stored is not None:
        assert message.reasoning == stored
    else:
        assert "\x00" not in message.reasoning.text
        message.reasoning.text.encode()
