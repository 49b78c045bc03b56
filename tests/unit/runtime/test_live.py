"""What a process publishes of its running answers: each delta, and the whole to who missed it."""

from interlock.agent.events import ReasoningDelta, TaskEnded, TextDelta, ToolProgress, TurnCompleted
from interlock.config.modes import ToolMode
from interlock.runtime.bus import Bus, ProgressReported, ResyncRequested, TextAppended, TextPart
from interlock.runtime.live_stream import LiveStream, RunningText
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


def test_the_running_text_is_there_from_its_beginning_until_its_turn_is_over():
    live = LiveStream(Bus())
    assert live.running_text("s_1") is None
    live.publish(task(), TextDelta(1, 0, "Hel"))
    live.publish(task(), TextDelta(1, 3, "lo"))
    assert live.running_text("s_1") == RunningText("t_1", 1, "Hello")
    live.publish(task(), TurnCompleted(1, "Hello", 1, 1, 1))
    assert live.running_text("s_1") is None
    live.publish(task(), TextDelta(2, 0, "More"))
    assert live.running_text("s_1") == RunningText("t_1", 2, "More")
    assert live.is_running("s_1")
    live.publish(task(), TaskEnded("done"))
    assert live.running_text("s_1") is None
    assert not live.is_running("s_1")


def test_a_turn_that_is_asked_again_begins_anew():
    live = LiveStream(Bus())
    live.publish(task(), TextDelta(1, 0, "half of"))
    live.publish(task(), TextDelta(1, 0, "all of it"))
    assert live.running_text("s_1") == RunningText("t_1", 1, "all of it")


def test_the_text_of_a_task_that_was_broken_off_is_forgotten():
    live = LiveStream(Bus())
    live.publish(task(), TextDelta(1, 0, "half"))
    live.ended(task())
    assert live.running_text("s_1") is None
    live.publish(task("t_2"), TextDelta(1, 0, "next"))
    assert live.running_text("s_1") == RunningText("t_2", 1, "next")


def test_deltas_and_progress_are_published_and_everything_else_is_in_the_log():
    bus, heard = Bus(), []
    bus.subscribe(heard.append, TextAppended, ProgressReported)
    live = LiveStream(bus)
    live.publish(task(), TextDelta(1, 0, "one"))
    live.publish(task(), ToolProgress("c_1", "half"))
    live.publish(task("t_2", "s_2"), TextDelta(1, 0, "two"))
    live.publish(task(), TurnCompleted(1, "one", 1, 1, 1))
    assert heard == [
        TextAppended("s_1", "t_1", 1, 0, "one"),
        ProgressReported("s_1", "c_1", "half"),
        TextAppended("s_2", "t_2", 1, 0, "two"),
    ]
    assert not any(message.is_remote for message in heard if isinstance(message, TextAppended))


def test_who_missed_the_beginning_gets_the_whole_text():
    bus, heard = Bus(), []
    live = LiveStream(bus)
    live.publish(task(), TextDelta(1, 0, "Hel"))
    live.publish(task(), TextDelta(1, 3, "lo"))
    bus.subscribe(heard.append, TextAppended)
    bus.publish(ResyncRequested("s_1"))
    bus.publish(ResyncRequested("s_2"))
    assert heard == [TextAppended("s_1", "t_1", 1, 0, "Hello")]


def test_reasoning_is_published_beside_the_text_and_sent_whole_with_it():
    bus = Bus()
    live, heard = LiveStream(bus), []
    for delta in (ReasoningDelta(1, 0, "Hm, "), ReasoningDelta(1, 4, "so.", 90), TextDelta(1, 0, "Yes.")):
        live.publish(task(), delta)
    assert live.running_text("s_1") == RunningText("t_1", 1, "Yes.", "Hm, so.", 90)
    bus.subscribe(heard.append, TextAppended)
    bus.publish(ResyncRequested("s_1"))
    assert heard == [
        TextAppended("s_1", "t_1", 1, 0, "Hm, so.", TextPart.reasoning, 90),
        TextAppended("s_1", "t_1", 1, 0, "Yes."),
    ]
    live.publish(task(), ReasoningDelta(1, 0, ""))
    live.publish(task(), TextDelta(1, 0, ""))
    assert live.running_text("s_1") == RunningText("t_1", 1, "")
