"""What outlives the process, on both databases: taken in once, sealed together, told once."""

import asyncio
import re

import pytest

from interlock.channels.telegram.bot_lease import BotLease, BotLeaseLost
from interlock.channels.telegram.store import DisplayedTask, TelegramStore
from interlock.channels.telegram.updates import IncomingKind, IncomingMessage
from interlock.db.leases import Leases
from interlock.log.channel_events import ReplySent
from interlock.log.stream_appender import NO_SCOPE
from interlock.redaction.redactor import Redactor

BOT, CHAT = 7, 501
SECRET = "hunter2-hunter2-hunter2"


async def made(store, bot=BOT, *secrets) -> TelegramStore:
    lease = BotLease(store.leases, bot)
    assert await lease.take()
    return TelegramStore(store.database, store.log, Redactor(secrets), lease)


@pytest.fixture
async def records(store) -> TelegramStore:
    return await made(store, BOT, SECRET)


def message(number: int, text: str = "hi", chat: int = CHAT) -> IncomingMessage:
    return IncomingMessage(
        update_id=number,
        kind=IncomingKind.text,
        chat_id=chat,
        user_id=CHAT,
        is_private=True,
        message_id=number * 10,
        text=text,
        sent_s=5,
    )


async def test_the_same_update_is_taken_in_once_and_moves_the_place(records):
    assert await records.place() is None
    await records.take_in([message(1), message(2)], 3)
    await records.take_in([message(2, "again"), message(3)], 4)
    assert [each.incoming.text for each in await records.waiting(CHAT)] == ["hi"] * 3
    assert (await records.place()).next_update == 4


async def test_another_bot_in_the_same_store_has_a_place_of_its_own(store, records):
    await records.take_in([message(1)], 2)
    other = await made(store, BOT + 1)
    assert await other.place() is None
    assert await other.waiting(CHAT) == []


async def test_no_secret_waits_in_the_inbox(records):
    await records.take_in([message(1, f"it is {SECRET}")], 2)
    assert SECRET not in (await records.waiting(CHAT))[0].incoming.text


async def test_what_is_sealed_stays_together_whatever_comes_behind(store, records):
    session = await store.sessions.create(opened_by="test")
    group = [message(1), message(2)]
    await records.take_in(group, 3)
    task = DisplayedTask(records.task_id(group[0]), CHAT, session.id, CHAT)
    await records.seal(group, task)
    await records.seal(group, task)
    await records.take_in([message(3)], 4)
    assert [each.task_id for each in await records.waiting(CHAT)] == [task.task_id, task.task_id, None]
    assert await records.session_of(CHAT) == session.id
    assert await records.open_tasks() == [task]
    await records.done(group)
    assert [each.incoming.update_id for each in await records.waiting(CHAT)] == [3]
    assert await records.chats_with_work() == [CHAT]


async def test_messages_are_noted_and_their_end_is_told_once(store, records):
    session = await store.sessions.create(opened_by="test")
    task = DisplayedTask(records.task_id(message(1)), CHAT, session.id, CHAT, 10)
    await records.seal([message(1)], task)
    await records.note_shown(task.task_id, "text:0:0", 70)
    await records.note_shown(task.task_id, "status", 71)
    await records.note_shown(task.task_id, "status", None)
    assert (await records.task(task.task_id)).shown == {"text:0:0": 70}
    state = await records.ask("q_1", task)
    assert state == {}
    await records.note_state("q_1", {"at": 1, "values": {"a": SECRET}}, message(1))
    assert (await records.ask("q_1", task))["at"] == 1
    assert SECRET not in str(await records.question("q_1"))
    sent = ReplySent(channel="telegram", chat=str(CHAT), task_id=task.task_id, message_ids=[70])
    await records.end(task, sent, NO_SCOPE)
    assert await records.task(task.task_id) is None
    assert await records.question("q_1") is None
    assert store.query("SELECT count(*) FROM events WHERE kind = 'reply.sent'") == [(1,)]


async def test_a_deleted_session_is_talked_in_no_more_and_erasing_takes_its_answers(store, records):
    session = await store.sessions.create(opened_by="test")
    task = DisplayedTask(records.task_id(message(1)), CHAT, session.id, CHAT)
    await records.seal([message(1)], task)
    await records.ask("q_1", task)
    await store.delete(session.id, who="test")
    assert await records.session_of(CHAT) is None
    await store.erase(session.id)
    assert store.query("SELECT * FROM telegram_questions") == []


async def test_a_question_is_found_by_the_message_that_shows_it(records):
    task = DisplayedTask(records.task_id(message(1)), CHAT, "s_1", CHAT)
    await records.seal([message(1)], task)
    await records.ask("q_1", task)
    await records.note_shown(task.task_id, "prompt:q_1:2", 90)
    assert await records.question_of_message(CHAT, 90) == "q_1"
    assert await records.question_of_message(CHAT + 1, 90) is None
    assert await records.question_of_message(CHAT, 91) is None


async def test_the_same_message_is_always_the_same_task(records):
    assert re.fullmatch("t_[0-9a-f]{16}", records.task_id(message(1)))
    assert records.task_id(message(1)) == records.task_id(message(1, "edited"))
    assert len({records.task_id(message(n, chat=c)) for n in (1, 2) for c in (CHAT, CHAT + 1)}) == 4


async def test_one_process_holds_a_bot_and_only_it_stores_anything(store, records):
    """The one before was stopped for too long: it wakes up, and stores nothing any more."""
    second = BotLease(store.leases, BOT)
    assert not await second.take()
    assert not second.is_held()
    with pytest.raises(BotLeaseLost):
        await TelegramStore(store.database, store.log, Redactor(), second).take_in([message(1)], 2)
    store.execute("UPDATE leases SET expires_ms = 1")
    with pytest.raises(BotLeaseLost):
        await records.take_in([message(1)], 2)
    assert await second.take()
    session = await store.sessions.create(opened_by="test")
    task = DisplayedTask("t_1", CHAT, session.id, CHAT)
    sent = ReplySent(channel="telegram", chat="1", task_id="t_1", message_ids=[])
    for late in (
        records.take_in([message(1)], 2),
        records.seal([message(1)], task),
        records.done([message(1)]),
        records.talk_in(CHAT, session.id),
        records.note_shown("t_1", "status", 1),
        records.ask("q_1", task),
        records.note_state("q_1", {}, message(1)),
        records.note_answer(message(1), "q_1"),
        records.end(task, sent, NO_SCOPE),
    ):
        with pytest.raises(BotLeaseLost):
            await late
    assert store.query("SELECT 1 FROM events WHERE kind = 'reply.sent'") == []
    await second.release()
    third = BotLease(store.leases, BOT)
    assert await third.take()


async def test_a_lease_that_is_not_renewed_is_known_to_be_lost(store):
    lease = BotLease(Leases(store.log, seconds=0.3), BOT)
    assert await lease.take()
    keeping = asyncio.create_task(lease.keep())
    await asyncio.sleep(0.6)
    assert lease.is_held()
    store.execute("UPDATE leases SET token = token + 1")
    await asyncio.wait_for(keeping, 5)
    assert not lease.is_held()
