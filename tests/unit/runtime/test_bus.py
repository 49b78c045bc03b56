"""The bus of one process: who subscribes hears, who leaves is forgotten, and one fault is not another's."""

import asyncio
import threading

from interlock.log.stream_appender import AppendedEvent
from interlock.runtime.bus import (
    Bus,
    CancelRequested,
    LogAppended,
    ProgressReported,
    SessionChanged,
    TextAppended,
    WorkAvailable,
    decode_message,
    encode_message,
)
from tests.harness.log_capture import capture_logs


class Line:
    """A transport whose other end is a list."""

    def __init__(self, *, has_others: bool = True):
        self.sent = []
        self.watched = []
        self.has_others = has_others
        self.receive = None

    def send(self, message):
        self.sent.append(message)

    def watch(self, session_id):
        self.watched.append(session_id)

    def unwatch(self, session_id):
        self.watched.remove(session_id)

    def watch_changes(self):
        self.watched.append("changes")

    async def run(self, receive, has_room):
        self.receive = receive
        await asyncio.Event().wait()


def written(stream: str, seq: int) -> AppendedEvent:
    return AppendedEvent(f"e{seq}", 1, stream, seq, None, None, "session.renamed", "{}", None)


def test_subscribers_hear_the_kinds_and_sessions_that_they_asked_for():
    bus, work, one, all_logs = Bus(), [], [], []
    bus.subscribe(work.append, WorkAvailable, CancelRequested)
    bus.subscribe(one.append, LogAppended, session_id="s_1")
    bus.subscribe(all_logs.append, LogAppended)
    messages = [WorkAvailable("s_1"), CancelRequested("s_2"), LogAppended("s_1"), LogAppended("s_2")]
    for message in messages:
        bus.publish(message)
    assert work == messages[:2]
    assert one == messages[2:3]
    assert all_logs == messages[2:]


def test_who_unsubscribes_hears_no_more_and_is_forgotten():
    bus, first, second = Bus(), [], []
    leave = bus.subscribe(first.append, WorkAvailable, CancelRequested)
    bus.subscribe(second.append, WorkAvailable)
    leave()
    bus.publish(WorkAvailable("s_1"))
    bus.publish(CancelRequested("s_1"))
    assert (first, second) == ([], [WorkAvailable("s_1")])
    assert list(bus._handlers) == [(WorkAvailable, None)]


def test_a_subscriber_that_fails_keeps_the_message_from_no_other():
    bus, heard = Bus(), []

    def failing(_message):
        raise ValueError("its own fault")

    bus.subscribe(failing, WorkAvailable)
    bus.subscribe(heard.append, WorkAvailable)
    with capture_logs() as logs:
        bus.publish(WorkAvailable("s_1"))
    assert heard == [WorkAvailable("s_1")]
    assert [line["event"] for line in logs] == ["message_not_handled"]


def test_the_transport_watches_what_is_subscribed_to_and_sends_what_is_published():
    line = Line()
    bus = Bus(line)
    leave = [
        bus.subscribe(print, LogAppended, session_id="s_1"),
        bus.subscribe(print, TextAppended, session_id="s_1"),
        bus.subscribe(print, LogAppended),
    ]
    assert line.watched == ["s_1"]
    for each in leave:
        each()
    assert line.watched == []
    bus.publish(WorkAvailable("s_1"))
    bus.publish(ProgressReported("s_1", "c", "it goes on"))
    assert line.sent == [WorkAvailable("s_1")], "progress stays within the process"


async def test_what_other_processes_send_is_delivered_and_not_sent_back():
    line, heard = Line(), []
    bus = Bus(line)
    bus.subscribe(heard.append, WorkAvailable)
    running = asyncio.create_task(bus.run())
    await asyncio.sleep(0)
    line.receive(WorkAvailable("s_1"))
    assert (heard, line.sent) == ([WorkAvailable("s_1")], [])
    running.cancel()


async def test_committed_events_come_by_stream_in_order_and_others_are_told_without_them():
    line, heard = Line(), []
    bus = Bus(line)
    bus.subscribe(heard.append, LogAppended)
    events = [written("s_1", 1), written("system", 7), written("s_2", 1), written("s_1", 2)]
    writer = threading.Thread(target=bus.publish_committed, args=(events,))
    writer.start()
    writer.join()
    assert heard == [], "only on the event loop"
    await asyncio.sleep(0)
    assert [(each.session_id, [event.seq for event in each.events]) for each in heard] == [
        ("s_1", [1, 2]),
        ("system", [7]),
        ("s_2", [1]),
    ]
    assert [each for each in line.sent if isinstance(each, LogAppended)] == [
        LogAppended("s_1"),
        LogAppended("s_2"),
    ]
    assert not any(message.events for message in line.sent if isinstance(message, LogAppended))


async def test_who_lists_sessions_hears_once_of_a_commit_that_changes_one():
    line, heard = Line(), []
    bus = Bus(line)
    bus.subscribe(heard.append, SessionChanged)
    assert line.watched == ["changes"]
    silent = written("s_2", 1)._replace(kind="turn.completed")
    bus.publish_committed([written("s_1", 1), silent, written("s_1", 2), silent._replace(seq=2)])
    await asyncio.sleep(0)
    assert heard == [SessionChanged("s_1", 2)]
    assert SessionChanged("s_1", 2) in line.sent


async def test_what_nobody_wants_to_know_of_a_commit_costs_no_turn_of_the_loop(monkeypatch):
    calls = []
    monkeypatch.setattr(
        asyncio.get_running_loop(), "call_soon_threadsafe", lambda *call: calls.append(call)
    )
    bus = Bus(Line(has_others=False))
    bus.subscribe(print, WorkAvailable)
    bus.publish_committed([written("s_1", 1)])
    assert calls == []
    leave = bus.subscribe(print, LogAppended, session_id="s_2")
    bus.publish_committed([written("s_1", 1)])
    leave()
    bus.publish_committed([written("s_1", 2)])
    assert len(calls) == 1


def test_a_commit_after_the_loop_has_ended_is_passed_over():
    bus = Bus()

    async def subscribe():
        bus.subscribe(print, LogAppended)

    asyncio.run(subscribe())
    bus.publish_committed([written("s_1", 1)])


def test_nothing_that_stays_within_the_process_can_come_from_outside():
    decoded = decode_message(encode_message(TextAppended("s", "t", 1, 0, "x")))
    assert decoded == TextAppended("s", "t", 1, 0, "x")
    assert decoded.is_remote
    for line in (
        b'["log", "s", [["e", 1, "s", 1, null, null, "k", "{}", null]]]',
        b'["text", "s", "t", 1, 0, "x", false]',
    ):
        assert decode_message(line) is None
