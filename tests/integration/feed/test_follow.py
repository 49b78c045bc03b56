"""A feed: what this process writes comes at once, all else from the log; nothing twice, nothing missed."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from interlock.agent.events import ReasoningDelta, TextDelta, TurnCompleted
from interlock.config.modes import ToolMode
from interlock.core.errors import UserError
from interlock.feed import follow
from interlock.feed.follow import FeedHub
from interlock.feed.frames import FeedItemType
from interlock.log.kinds import SessionRenamed
from interlock.log.stream_appender import EventScope
from interlock.log.task_events import (
    TaskCancelled,
    TaskFinished,
    TaskStarted,
    TurnCompletedEvent,
    TurnDiscarded,
)
from interlock.log.writer import EventLog
from interlock.redaction.redactor import Redactor
from interlock.runtime.bus import Bus, LogAppended, ResyncRequested, TextAppended, TextPart
from interlock.runtime.live_stream import LiveStream
from interlock.runtime.task_rows import Task, TaskStatus
from interlock.sessions.models import Role
from interlock.wiring.projections import PROJECTIONS
from tests.harness.log_capture import capture_logs
from tests.harness.tasks import until

TASK = EventScope("t_1")


class Subscriber:
    def __init__(self):
        self.items = []

    def deliver(self, item):
        self.items.append(item)

    async def ready(self):
        pass

    @property
    def numbers(self):
        return [item.seq for item in self.items if item.is_last]

    def text(self, turn=1):
        """The text of a turn, put together as a client does."""
        text = ""
        for item in self.items:
            if item.type is FeedItemType.stream_chunk and item.data["turn"] == turn:
                text = text[: item.data["offset"]] + item.data["content"]
        return text


class Process:
    """The log, the bus and the feed of one process, above a store that others use as well."""

    def __init__(self, store, transport=None):
        self.bus = Bus(transport)
        self.live = LiveStream(self.bus)
        self.log = EventLog(store.database, Redactor(), PROJECTIONS, self.bus.publish_committed)
        self.hub = FeedHub(store.database, self.bus, self.live, lambda _session_id, item: item)

    async def follow(self, session, **where):
        subscriber = Subscriber()
        await self.hub.follow(session, subscriber, **where)
        return subscriber


@pytest.fixture
def process(store):
    made = Process(store)
    yield made
    made.log.close()


@pytest.fixture
def read_counts(monkeypatch):
    """How often the log of a session was read."""
    counts = []

    def counted(connection, session_id, **where):
        found = read(connection, session_id, **where)
        counts.append(len(found))
        return found

    read = follow.read_entries
    monkeypatch.setattr(follow, "read_entries", counted)
    return counts


@asynccontextmanager
async def polling(hub):
    running = asyncio.create_task(hub.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def new_session(store):
    return (await store.sessions.create(opened_by="test")).id


def renamed(title="x"):
    return SessionRenamed(title=title, who="test")


def turn(number, text, calls=None):
    return TurnCompletedEvent(
        turn=number,
        finish_reason="stop",
        tool_calls=len(calls or ()),
        input_tokens=1,
        output_tokens=1,
        latency_ms=1.0,
        content=text,
        calls=calls,
    )


def started():
    return TaskStarted(task_id="t_1", mode="chat_safe", worker="w", attempt=1)


def task_of(session):
    return Task(
        id="t_1",
        session_id=session,
        message_seq=2,
        status=TaskStatus.running,
        mode=ToolMode.chat_safe,
        who="test",
        created_us=1,
        queued_event="e",
    )


async def test_what_this_process_writes_is_not_read_back(store, process, read_counts):
    session = await new_session(store)
    subscriber = await process.follow(session, after=1)
    for number in range(20):
        await process.log.append(session, renamed(f"title {number}"), renamed("again"))
    await until(lambda: subscriber.numbers == list(range(2, 42)))
    assert read_counts == []
    later = await process.follow(session, after=0)
    assert [(each.type, each.data) for each in later.items[1:]] == [
        (each.type, each.data) for each in subscriber.items
    ]


async def test_what_another_process_wrote_in_between_is_read_and_nothing_comes_twice(store, process):
    session = await new_session(store)
    other = Process(store)
    subscriber = await process.follow(session, after=0)
    for _ in range(10):
        await other.log.append(session, renamed("there"))
        await process.log.append(session, renamed("here"))
    await until(lambda: len(subscriber.numbers) >= 21)
    assert subscriber.numbers == list(range(1, 22))
    other.log.close()


async def test_both_processes_write_at_once_and_each_sees_all_in_order(store, process):
    session = await new_session(store)
    other = Process(store)
    subscribers = [await process.follow(session, after=0), await other.follow(session, after=0)]
    async with polling(process.hub), polling(other.hub):
        await asyncio.gather(
            *(each.log.append(session, renamed()) for _ in range(50) for each in (process, other))
        )
        await until(lambda: all(len(each.numbers) >= 101 for each in subscribers))
    assert [each.numbers for each in subscribers] == [list(range(1, 102))] * 2
    other.log.close()


async def test_who_comes_back_at_any_number_misses_nothing_and_sees_nothing_twice(store, process):
    session = await new_session(store)
    writing = asyncio.gather(*(process.log.append(session, renamed()) for _ in range(60)))
    joined = []
    for after in range(12):
        subscriber = Subscriber()
        begin, _ = await process.hub.follow(session, subscriber, after=after)
        joined.append((begin, subscriber))
    await writing
    await process.hub.catch_up(session)
    for begin, subscriber in joined:
        assert subscriber.numbers == list(range(begin + 1, 62)), f"after {begin}"


async def test_without_any_message_the_log_is_looked_at(store, process):
    session = await new_session(store)
    subscriber = await process.follow(session, after=0)
    async with polling(process.hub):
        await store.log.append(session, renamed())
        await until(lambda: subscriber.numbers == [1, 2])


async def test_an_event_that_is_visible_after_later_ones_is_found(store, process, monkeypatch):
    """PostgreSQL: the newest number of all is there before that of a transaction that took longer."""
    session = await new_session(store)
    subscriber = await process.follow(session, after=0)
    looks = []

    def stale(connection, names):
        looks.append(names)
        return read_heads(connection, names) if len(looks) > 1 else [(session, 1)]

    read_heads = follow.read_heads
    monkeypatch.setattr(follow, "read_heads", stale)
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.05)
    await store.log.append(session, renamed())
    async with polling(process.hub):
        await until(lambda: subscriber.numbers == [1, 2])


async def test_what_takes_a_look_at_earlier_events_is_read(store, process):
    session = await new_session(store)
    subscriber = await process.follow(session, after=1)
    call = {"id": "c", "name": "bash", "arguments": "{}"}
    await process.log.append(session, started(), turn(1, "", [call]), scope=TASK)
    message = store.sessions.draft(Role.tool, "{}", tool_call_id="c")
    await process.log.append(session, message.event(), scope=TASK)
    await process.log.append(session, store.sessions.draft(Role.assistant, "Kept").event(), scope=TASK)
    await process.log.append(session, TaskFinished(task_id="t_1", status="failed", reason="no"), scope=TASK)
    await until(lambda: len(subscriber.numbers) == 5)
    by_type = {item.type: item.data for item in subscriber.items}
    assert by_type[FeedItemType.tool_result]["tool_name"] == "bash"
    assert by_type[FeedItemType.error]["code"] == "TASK_FAILED"


async def test_a_stored_answer_replaces_what_was_shown_of_its_turn(store, process):
    session = await new_session(store)
    subscriber = await process.follow(session, after=1)
    await process.log.append(session, started(), scope=TASK)
    process.live.publish(task_of(session), TextDelta(1, 0, "Hel"))
    process.live.publish(task_of(session), TextDelta(1, 3, "lo"))
    await until(lambda: subscriber.text() == "Hello")
    late = await process.follow(session, after=1)
    assert late.text() == "Hello"
    await process.log.append(session, turn(1, "Hello you"), scope=TASK)
    await until(lambda: 3 in subscriber.numbers)
    chunks = [item.data for item in subscriber.items if item.type is FeedItemType.stream_chunk]
    assert [(each["offset"], each["content"]) for each in chunks] == [(0, "Hello"), (5, " you")]
    assert late.text() == (await process.follow(session, after=0)).text() == "Hello you"


async def test_a_text_waits_for_the_turn_before_it_while_the_log_is_read(store, process, monkeypatch):
    session = await new_session(store)
    subscriber = await process.follow(session, after=1)
    await process.log.append(session, started(), scope=TASK)
    await until(lambda: subscriber.numbers == [2])

    def slow(connection, session_id, **where):
        time.sleep(0.2)
        return read(connection, session_id, **where)

    read = follow.read_entries
    monkeypatch.setattr(follow, "read_entries", slow)
    # What another process wrote makes the feed read.
    await store.log.append(session, renamed())
    await process.log.append(session, turn(1, "One"), scope=TASK)
    process.live.publish(task_of(session), TextDelta(2, 0, "Two"))
    await until(lambda: subscriber.text(2) == "Two")
    chunks = [item for item in subscriber.items if item.type is FeedItemType.stream_chunk]
    assert [(item.data["turn"], item.data["content"]) for item in chunks] == [(1, "One"), (2, "Two")]


async def test_a_kept_text_and_a_closing_answer_have_a_turn_of_their_own(store, process):
    session = await new_session(store)
    await process.log.append(session, started(), turn(1, "One"), scope=TASK)
    await process.log.append(session, store.sessions.draft(Role.assistant, "Kept").event(), scope=TASK)
    subscriber = await process.follow(session, after=0)
    assert (subscriber.text(1), subscriber.text(2)) == ("One", "Kept")


async def test_the_text_of_another_process_comes_as_it_grows_and_whole_to_who_missed_its_beginning(
    store, process
):
    asked = []
    process.bus.subscribe(asked.append, ResyncRequested)
    session = await new_session(store)
    await store.log.append(session, started(), scope=TASK)

    def said(offset, text, turn=1):
        process.bus._deliver(TextAppended(session, "t_1", turn, offset, text, is_remote=True))

    subscriber = await process.follow(session, after=0)
    said(3, "lo")
    assert asked == [ResyncRequested(session)]
    said(0, "Hello")
    said(3, "lo")
    said(5, " you")
    await until(lambda: subscriber.text() == "Hello you")
    said(0, "Hello you there")
    await until(lambda: subscriber.text() == "Hello you there")
    said(0, "Once more")
    await until(lambda: subscriber.text() == "Once more")
    said(20, "beyond")
    assert asked == [ResyncRequested(session)] * 2


async def test_a_text_that_is_produced_here_is_not_overwritten_from_elsewhere(store, process):
    session = await new_session(store)
    await store.log.append(session, started(), scope=TASK)
    subscriber = await process.follow(session, after=0)
    process.live.publish(task_of(session), TextDelta(1, 0, "mine"))
    process.bus._deliver(TextAppended(session, "t_1", 1, 0, "old", is_remote=True))
    process.live.publish(task_of(session), TextDelta(1, 4, " too"))
    await until(lambda: subscriber.text() == "mine too")
    # Its task goes on in another process.
    process.live.publish(task_of(session), TurnCompleted(1, "", 0, 0, 0))
    process.bus._deliver(TextAppended(session, "t_1", 1, 0, "theirs", is_remote=True))
    await until(lambda: subscriber.text() == "theirs")


async def test_no_text_from_outside_grows_without_end(store, process, monkeypatch):
    monkeypatch.setattr(follow, "MAX_TEXT_CHARS", 1000)
    session = await new_session(store)
    await store.log.append(session, started(), scope=TASK)
    subscriber = await process.follow(session, after=0)
    process.bus._deliver(TextAppended(session, "t_1", 1, 0, "x" * 900, is_remote=True))
    for _ in range(100):
        process.bus._deliver(TextAppended(session, "t_1", 1, 900, "y" * 101, is_remote=True))
    await until(lambda: len(subscriber.text()) == 900)
    process.bus._deliver(TextAppended(session, "t_1", 1, 900, "y" * 100, is_remote=True))
    await until(lambda: len(subscriber.text()) == 1000)


async def test_an_event_that_cannot_be_handled_at_once_is_read(store, process, monkeypatch):
    session = await new_session(store)
    subscriber = await process.follow(session, after=1)
    monkeypatch.setattr(follow, "entry_of_event", lambda _event: 1 / 0)
    with capture_logs():
        await process.log.append(session, renamed())
        await until(lambda: subscriber.numbers == [2])


async def test_what_was_rolled_back_is_handed_over_to_nobody(store, process):
    session, other = await new_session(store), await new_session(store)
    written = []
    process.bus.subscribe(lambda message: written.extend(message.events), LogAppended)

    def failing(transaction):
        transaction.record(renamed("gone"))
        transaction.on(other).record(renamed("gone as well"))
        raise UserError("no")

    def working(transaction):
        transaction.on(other).record(renamed("there"))
        return transaction.record(renamed("here"))

    outcomes = await asyncio.gather(
        process.log.append(session, renamed("first")),
        process.log.transact(session, failing),
        process.log.transact(session, working),
        process.log.append(session, TaskCancelled(task_id="t", who="x")),
        return_exceptions=True,
    )
    assert [isinstance(each, Exception) for each in outcomes] == [False, True, False, False]
    await until(lambda: len(written) >= 4)
    assert sorted((event.stream == other, event.seq, event.kind) for event in written) == [
        (False, 2, "session.renamed"),
        (False, 3, "session.renamed"),
        (False, 4, "task.cancelled"),
        (True, 2, "session.renamed"),
    ]


async def test_text_of_another_process_that_comes_during_a_read_begins_no_further_read(
    store, process, monkeypatch
):
    session = await new_session(store)
    await store.log.append(session, started(), scope=TASK)
    subscriber = await process.follow(session, after=0)
    reads, read = [], follow.SessionFeed._read

    async def slow(feed, after, through):
        reads.append(after)
        found = await read(feed, after, through)
        # Each read lasts until another delta has come.
        process.bus._deliver(
            TextAppended(session, "t_1", 1, len(reads) - 1, "x", is_remote=True),
        )
        return found

    monkeypatch.setattr(follow.SessionFeed, "_read", slow)
    process.bus._deliver(LogAppended(session))
    await until(lambda: subscriber.text() == "x")
    await asyncio.sleep(0.1)
    assert len(reads) == 1


async def test_a_discarded_text_is_shown_to_nobody_who_comes_later(store, process):
    session = await new_session(store)
    await process.log.append(session, started(), scope=TASK)
    first = await process.follow(session, after=0)
    process.live.publish(task_of(session), TextDelta(1, 0, "half"))
    await until(lambda: first.text() == "half")
    discarded = TurnDiscarded(turn=1, error_class="network", error="it broke off")
    await process.log.append(session, discarded, scope=TASK)
    await until(lambda: first.numbers[-1] == 3)
    assert (await process.follow(session, after=0)).text() == ""


async def test_what_only_a_models_provider_can_read_is_not_shown(store, process):
    session = await new_session(store)
    subscriber = await process.follow(session, after=0)
    reasoning = {"text": "hm", "model": "m", "opaque": "signed"}
    await process.log.append(session, replace(turn(1, "Hello"), reasoning=reasoning), scope=TASK)
    await until(lambda: subscriber.numbers == [1, 2])
    shown = [item.data["payload"] for item in subscriber.items if "payload" in item.data]
    assert shown[-1]["reasoning"] == {"text": "hm", "model": "m"}


# -- reasoning ---------------------------------------------------------------------------------------


def reasoning(subscriber):
    """(text, time) of the reasoning, put together as a client does."""
    text, duration_ms = "", None
    for item in subscriber.items:
        if item.type is FeedItemType.reasoning_chunk:
            text = text[: item.data["offset"]] + item.data["content"]
            duration_ms = item.data["duration_ms"]
    return text, duration_ms


async def test_reasoning_is_shown_before_its_text_and_to_whoever_comes_later(store, process):
    session = await new_session(store)
    await process.log.append(session, started(), scope=TASK)
    first = await process.follow(session, after=0)
    for delta in (ReasoningDelta(1, 0, "Hm, "), ReasoningDelta(1, 4, "so."), ReasoningDelta(1, 7, "", 90)):
        process.live.publish(task_of(session), delta)
        await until(lambda delta=delta: reasoning(first)[0].endswith(delta.text))
    await until(lambda: reasoning(first) == ("Hm, so.", 90))
    process.live.publish(task_of(session), TextDelta(1, 0, "Noon."))
    await until(lambda: first.text() == "Noon.")
    second = await process.follow(session, after=0)
    assert (reasoning(second), second.text()) == (("Hm, so.", 90), "Noon.")
    kinds = [item.type for item in second.items if item.seq is None]
    assert kinds == [FeedItemType.reasoning_chunk, FeedItemType.stream_chunk]
    await process.log.append(session, turn(1, "Noon."), scope=TASK)
    await until(lambda: first.numbers[-1] == 3)
    assert reasoning(await process.follow(session, after=0)) == ("", None)


async def test_another_process_shows_reasoning_too_and_asks_for_what_it_missed(store, process):
    session = await new_session(store)
    await process.log.append(session, started(), scope=TASK)
    subscriber, wanted = await process.follow(session, after=0), []
    process.bus.subscribe(wanted.append, ResyncRequested)
    late = TextAppended(session, "t_1", 1, 4, "so.", TextPart.reasoning, is_remote=True)
    process.bus._deliver(late)
    assert wanted == [ResyncRequested(session)]
    whole = replace(late, offset=0, text="Hm, so.", duration_ms=90)
    process.bus._deliver(whole)
    await until(lambda: reasoning(subscriber) == ("Hm, so.", 90))


async def test_discarded_reasoning_is_shown_to_nobody_who_comes_later(store, process):
    session = await new_session(store)
    await process.log.append(session, started(), scope=TASK)
    first = await process.follow(session, after=0)
    process.live.publish(task_of(session), ReasoningDelta(1, 0, "half"))
    await until(lambda: reasoning(first)[0] == "half")
    discarded = TurnDiscarded(turn=1, error_class="network", error="it broke off")
    await process.log.append(session, discarded, scope=TASK)
    await until(lambda: first.numbers[-1] == 3)
    assert reasoning(await process.follow(session, after=0)) == ("", None)


async def test_a_task_that_is_cancelled_behind_the_running_one_hides_no_text(store, process):
    session = await new_session(store)
    await process.log.append(session, started(), scope=TASK)
    subscriber = await process.follow(session, after=0)
    cancelled = TaskCancelled(task_id="t_2", who="ada")
    await process.log.append(session, cancelled, scope=EventScope("t_2"))
    await until(lambda: subscriber.numbers[-1] == 3)
    process.live.publish(task_of(session), TextDelta(1, 0, "goes on"))
    await until(lambda: subscriber.text() == "goes on")
    await process.hub.leave(session, subscriber)
    # Also to those that come later, when nobody followed it.
    assert (await process.follow(session, after=0)).text() == "goes on"
