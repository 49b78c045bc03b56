"""What a process tells of its running tasks: the text so far, watchers, and who falls behind."""

import asyncio

from interlock.agent.events import TaskEnded, TextDelta, TurnCompleted
from interlock.config.modes import ToolMode
from interlock.runtime.bus import LogAppended, TextAppended
from interlock.runtime.live_stream import MAX_WAITING, LiveStream, RunningText
from interlock.runtime.task_rows import Task, TaskStatus


def task(identity: str = "t_1", session: str = "s_1") -> Task:
    return Task(
        id=identity,
        session_id=session,
        message_seq=2,
        status=TaskStatus.running,
        mode=ToolMode.chat_safe,
        who="test",
        created_us=1,
        queued_event="e",
    )


async def heard(watching) -> list:
    watching.end()
    return [event async for _task, event in watching]


async def test_the_running_text_is_there_from_its_beginning_until_its_turn_is_over():
    live = LiveStream()
    assert live.running_text("s_1") is None
    live.publish(task(), TextDelta(1, 0, "Hel"))
    live.publish(task(), TextDelta(1, 3, "lo"))
    assert live.running_text("s_1") == RunningText("t_1", 1, "Hello")
    live.publish(task(), TurnCompleted(1, "Hello", 1, 1, 1))
    assert live.running_text("s_1") is None
    live.publish(task(), TextDelta(2, 0, "More"))
    assert live.running_text("s_1") == RunningText("t_1", 2, "More")
    live.publish(task(), TaskEnded("done"))
    assert live.running_text("s_1") is None


async def test_a_turn_that_is_asked_again_begins_anew():
    live = LiveStream()
    live.publish(task(), TextDelta(1, 0, "half of"))
    live.publish(task(), TextDelta(1, 0, "all of it"))
    assert live.running_text("s_1") == RunningText("t_1", 1, "all of it")


async def test_the_text_of_a_task_that_was_broken_off_is_forgotten():
    live = LiveStream()
    live.publish(task(), TextDelta(1, 0, "half"))
    live.ended(task())
    assert live.running_text("s_1") is None
    live.publish(task("t_2"), TextDelta(1, 0, "next"))
    assert live.running_text("s_1") == RunningText("t_2", 1, "next")


async def test_sessions_do_not_hear_each_other():
    live = LiveStream()
    with live.watch("s_1") as first, live.watch("s_2") as second:
        live.publish(task(), TextDelta(1, 0, "one"))
        live.publish(task("t_2", "s_2"), TextDelta(1, 0, "two"))
        assert live.running_text("s_1").text == "one"
        assert await heard(first) == [TextDelta(1, 0, "one")]
        assert await heard(second) == [TextDelta(1, 0, "two")]


async def test_the_running_text_and_what_a_watcher_hears_fit_together():
    live = LiveStream()
    live.publish(task(), TextDelta(1, 0, "Hel"))
    with live.watch("s_1") as watching:
        known = live.running_text("s_1").text
        live.publish(task(), TextDelta(1, 3, "lo"))
        (more,) = await heard(watching)
    assert (known + more.text, more.offset) == ("Hello", len(known))


async def test_a_watcher_hears_until_it_is_told_of_the_end_and_waits_meanwhile():
    live = LiveStream()
    with live.watch("s_1") as watching:
        told = []

        async def listen() -> None:
            async for _task, event in watching:
                told.append(event)

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0)
        live.publish(task(), TaskEnded("done"))
        watching.end()
        live.publish(task(), TextDelta(1, 0, "too late"))
        await listening
    assert told == [TaskEnded("done")]


async def test_who_falls_behind_is_cut_off_and_all_others_go_on():
    live = LiveStream()
    with live.watch("s_1") as slow, live.watch("s_1") as other:
        for number in range(MAX_WAITING):
            live.publish(task(), TextDelta(1, number, "x"))
        assert len([None async for _ in _first(other, MAX_WAITING)]) == MAX_WAITING
        live.publish(task(), TextDelta(1, MAX_WAITING, "y"))
        live.publish(task(), TextDelta(1, MAX_WAITING + 1, "z"))
        assert slow.was_cut_off
        # It ends by itself, and what it heard until then is whole.
        assert [event.text async for _task, event in slow] == ["x"] * MAX_WAITING
        assert not other.was_cut_off
        assert [event.text for event in await heard(other)] == ["y", "z"]
    assert live.running_text("s_1").text == "x" * MAX_WAITING + "yz"


async def _first(watching, count: int):
    async for told in watching:
        yield told
        count -= 1
        if not count:
            return


async def test_whoever_stops_watching_is_forgotten():
    live = LiveStream()
    with live.watch("s_1"):
        assert live._watchers
    assert not live._watchers


# -- texts of other processes ------------------------------------------------------------------------


class Line:
    """A wire whose other end is a list."""

    def __init__(self):
        self.sent = []
        self.watched = []

    def send(self, signal):
        self.sent.append(signal)

    def watch(self, session_id):
        self.watched.append(session_id)

    def unwatch(self, session_id):
        self.watched.remove(session_id)

    async def run(self, hear, has_room):
        pass


class Waker:
    def __init__(self):
        self.woken = 0

    def deliver(self, _task, _event):
        return True

    def on_remote_change(self):
        self.woken += 1


def passed_on(speaker: Line, listener: LiveStream) -> None:
    for signal in speaker.sent:
        listener.receive(signal)
    speaker.sent.clear()


async def test_another_process_hears_the_text_as_it_grows_and_its_end():
    line, waker = Line(), Waker()
    here, there = LiveStream(line), LiveStream(Line())
    there.subscribe("s_1", waker)
    here.publish(task(), TextDelta(1, 0, "Hel"))
    here.publish(task(), TextDelta(1, 3, "lo"))
    passed_on(line, there)
    assert there.running_text("s_1") == RunningText("t_1", 1, "Hello")
    assert waker.woken == 2
    here.publish(task(), TurnCompleted(1, "Hello", 1, 1, 1))
    passed_on(line, there)
    assert there.running_text("s_1") is None
    assert waker.woken == 3
    there.receive(LogAppended("s_1"))
    there.receive(LogAppended("s_2"))
    assert waker.woken == 4


async def test_what_nobody_watches_is_neither_kept_nor_asked_for():
    back = Line()
    there, waker = LiveStream(back), Waker()
    there.receive(TextAppended("s_1", "t_1", 1, 0, "text"))
    there.receive(TextAppended("s_1", "t_1", 1, 9, "more"))
    assert there.running_text("s_1") is None
    there.subscribe("s_1", waker)
    there.subscribe("s_1", other := Waker())
    assert back.watched == ["s_1"]
    there.receive(TextAppended("s_1", "t_1", 1, 0, "text"))
    there.unsubscribe("s_1", waker)
    assert there.running_text("s_1").text == "text"
    there.unsubscribe("s_1", other)
    assert there.running_text("s_1") is None
    assert back.watched == []
    assert back.sent == []


async def test_a_piece_that_comes_twice_is_heard_once():
    line, there = Line(), LiveStream(Line())
    here = LiveStream(line)
    there.subscribe("s_1", Waker())
    here.publish(task(), TextDelta(1, 0, "Hel"))
    here.publish(task(), TextDelta(1, 3, "lo"))
    doubled = [line.sent[0], line.sent[1], line.sent[1]]
    for signal in doubled:
        there.receive(signal)
    assert there.running_text("s_1").text == "Hello"


async def test_who_missed_the_beginning_asks_for_it_and_is_told():
    line, back = Line(), Line()
    here, there = LiveStream(line), LiveStream(back)
    here.publish(task(), TextDelta(1, 0, "Hel"))
    line.sent.clear()
    here.publish(task(), TextDelta(1, 3, "lo"))
    passed_on(line, there)
    assert there.running_text("s_1") is None
    assert back.sent == [], "nobody watches it there"
    there.subscribe("s_1", Waker())
    here.publish(task(), TextDelta(1, 5, "!"))
    passed_on(line, there)
    passed_on(back, here)
    passed_on(line, there)
    assert there.running_text("s_1").text == "Hello!"


async def test_a_text_that_is_given_here_is_not_overwritten_from_elsewhere():
    line, other = Line(), Line()
    here, zombie = LiveStream(line), LiveStream(other)
    here.publish(task(), TextDelta(1, 0, "mine"))
    zombie.publish(task(), TextDelta(1, 0, "old"))
    zombie.publish(task(), TaskEnded("done"))
    passed_on(other, here)
    assert here.running_text("s_1").text == "mine"


async def test_nobody_on_the_wire_makes_a_text_grow_without_end(monkeypatch):
    monkeypatch.setattr("interlock.runtime.live_stream.MAX_HEARD_CHARS", 1000)
    there, waker = LiveStream(Line()), Waker()
    there.subscribe("s_1", waker)
    there.receive(TextAppended("s_1", "t_1", 1, 0, "x" * 900))
    for _ in range(100):
        there.receive(TextAppended("s_1", "t_1", 1, 900, ""))
        there.receive(TextAppended("s_1", "t_1", 1, 900, "y" * 101))
    pieces = there.running_buffer("s_1")
    assert (pieces.chars, len(pieces.pieces)) == (900, 1)
    there.receive(TextAppended("s_1", "t_1", 1, 900, "y" * 100))
    assert pieces.chars == 1000
    there.receive(TextAppended("s_1", "t_1", 1, 0, "z" * 2000))
    assert there.running_text("s_1").text == ""
