"""What a terminal and `exec --json` make of a session's feed: the events of the agent loop, each once."""

from interlock.agent.events import (
    CUT_OFF,
    AskUser,
    ReasoningDelta,
    RetryAnnounced,
    TaskEnded,
    TextDelta,
    ToolCallInfo,
    ToolDenied,
    ToolResultInfo,
    TurnCompleted,
)
from interlock.channels.terminal.agent_events import AgentEventReader
from interlock.feed.entries import EntryMessage, LogEntry, TaskEndCode
from interlock.feed.render import render_entry, render_reasoning, render_text
from interlock.log.hash_chain import EventHeader

DENIAL = {"call_id": "d", "tool_name": "bash", "mode": "chat", "error_code": "MODE_DENIED", "error": "no"}


def entry(kind, payload=None, message=None, *, task="t_1", code=TaskEndCode.TASK_FAILED):
    header = EventHeader("e", 1, "s_1", 7, task, None, kind)
    return render_entry(LogEntry(header, payload or {}, message, code))


def turn(number, text, *calls, finish_reason="stop", task="t_1"):
    payload = {
        "turn": number,
        "tool_calls": len(calls),
        "input_tokens": 3,
        "output_tokens": 4,
        "finish_reason": finish_reason,
    }
    requested = [{"id": call, "name": "bash", "arguments": "{}"} for call in calls]
    said = EntryMessage("assistant", text, requested, None, turn=number)
    return entry("turn.completed", payload, said, task=task)


def said(number, text):
    return entry(
        "message.appended", {"role": "assistant"}, EntryMessage("assistant", text, [], None, turn=number)
    )


def result(call):
    content = '{"ok": true, "stdout": "x"}'
    payload = {"call_id": call, "tool_name": "bash"}
    return entry("tool_call.completed", payload, EntryMessage("tool", content, [], call, "bash"))


def live(offset, text, number=1):
    return [render_text("t_1", number, offset, text)]


def done():
    return entry("task.finished", {"status": "done"})


def read(*items):
    reader = AgentEventReader()
    return [event for part in items for item in part for event in reader.read(item)]


def test_text_comes_once_whether_it_was_seen_live_or_not():
    ended = [TurnCompleted(1, "Hello", 0, 3, 4), TaskEnded("done")]
    assert read(turn(1, "Hello"), done()) == [TextDelta(1, 0, "Hello"), *ended]
    whole = read(live(0, "Hel"), live(3, "lo"), turn(1, "Hello"), done())
    assert whole == [TextDelta(1, 0, "Hel"), TextDelta(1, 3, "lo"), *ended]
    joined_late = read(live(0, "Hel"), turn(1, "Hello"), done())
    assert joined_late == [TextDelta(1, 0, "Hel"), TextDelta(1, 3, "lo"), *ended]


def test_a_turn_is_complete_after_the_results_of_its_calls():
    denied = entry("tool_call.denied", DENIAL)
    assert read(turn(1, "", "c", "d"), result("c"), denied, turn(2, "Done.")) == [
        ToolCallInfo("c", "bash", {}),
        ToolCallInfo("d", "bash", {}),
        ToolResultInfo("c", "bash", {"ok": True, "stdout": "x"}),
        ToolDenied("d", "bash", "chat", "MODE_DENIED", "no", "Continue without it."),
        TurnCompleted(1, "", 2, 3, 4),
        TextDelta(2, 0, "Done."),
        TurnCompleted(2, "Done.", 0, 3, 4),
    ]


def test_a_task_that_waits_for_an_answer_has_reported_its_turn():
    asked = entry("ask_user.asked", {"question_id": "q", "call_id": "c", "question": {}})
    assert read(turn(1, "", "c"), asked, entry("task.waiting", {"question_id": "q"})) == [
        ToolCallInfo("c", "bash", {}),
        AskUser("c", "q"),
        TurnCompleted(1, "", 1, 3, 4),
    ]


def test_a_text_that_is_asked_for_again_is_shown_again():
    again = read(
        live(0, "Half of"),
        entry("retry.scheduled", {"delay_seconds": 2.0, "error": "busy"}),
        live(0, "All of it"),
        turn(1, "All of it"),
    )
    assert again == [
        TextDelta(1, 0, "Half of"),
        RetryAnnounced(2.0, "busy"),
        TextDelta(1, 0, "All of it"),
        TurnCompleted(1, "All of it", 0, 3, 4),
    ]


def test_an_answer_that_is_stored_after_the_calls_of_its_turn_is_not_shown_twice():
    """It was streamed with the calls, and follows their refusal in the log."""
    withdrawn = entry(
        "turn.completed",
        {"turn": 1, "tool_calls": 1, "input_tokens": 3, "output_tokens": 4, "finish_reason": "stop"},
        EntryMessage("assistant", "", [{"id": "d", "name": "bash", "arguments": "{}"}], None, turn=1),
    )
    chunk = live(0, "")
    shown = read(
        live(0, "I may not."), chunk, withdrawn, entry("tool_call.denied", DENIAL), said(2, "I may not.")
    )
    assert [event.text for event in shown if isinstance(event, TextDelta)] == ["I may not."]


def test_how_a_task_ends_is_told_once_with_its_limit():
    assert read(turn(1, "Cut", finish_reason="length"), done())[-1] == TaskEnded("done", CUT_OFF)
    limited = (
        entry("agent.failed", {"error_class": "max_turns"}),
        entry("task.finished", {"status": "failed", "reason": "too long"}, code=TaskEndCode.LIMIT_REACHED),
    )
    assert read(*limited) == [TaskEnded("failed", "too long", "max_turns")]
    assert read(entry("agent.failed", {"error_class": "auth"}), limited[1]) == [
        TaskEnded("failed", "too long")
    ]
    assert read(entry("task.cancelled", {"who": "me"})) == []


def test_the_turns_of_another_task_begin_anew_and_those_of_a_subtask_are_its_own():
    first = read(turn(1, "One"), done(), turn(1, "Two"), done())
    assert [event.text for event in first if isinstance(event, TextDelta)] == ["One", "Two"]
    assert read(turn(1, "Inside", task="t_1.child")) == []


def test_the_text_of_a_discarded_turn_is_no_turns_text():
    asked_again = read(
        live(0, "I will"), entry("turn.discarded", {"turn": 1}), turn(1, "", "c1"), result("c1")
    )
    assert TurnCompleted(1, "", 1, 3, 4) in asked_again


def reasoned(offset, text, duration_ms=None, number=1):
    return [render_reasoning("t_1", number, offset, text, duration_ms)]


def thoughtful(number, text, thought, *calls):
    items = turn(number, text, *calls)
    items[0].data["payload"] |= {"reasoning": {"text": thought, "model": "m"}, "reasoning_ms": 90}
    return items


def thoughts(*items):
    return [event for event in read(*items) if isinstance(event, ReasoningDelta)]


def test_reasoning_comes_once_live_or_from_the_log():
    whole = [ReasoningDelta(1, 0, "Hm.", 90)]
    assert thoughts(thoughtful(1, "Yes.", "Hm."), done()) == whole
    shown = [reasoned(0, "Hm"), reasoned(2, "."), reasoned(3, "", 90), live(0, "Yes.")]
    pieces = [ReasoningDelta(1, 0, "Hm"), ReasoningDelta(1, 2, "."), ReasoningDelta(1, 3, "", 90)]
    assert thoughts(*shown, thoughtful(1, "Yes.", "Hm."), done()) == pieces
    # It is not told after its answer.
    assert thoughts(live(0, "Yes."), thoughtful(1, "Yes.", "Hm."), done()) == []
    both = thoughts(thoughtful(1, "", "Hm.", "c1"), result("c1"), thoughtful(2, "Yes.", "So."), done())
    assert both == [*whole, ReasoningDelta(2, 0, "So.", 90)]


def test_the_reasoning_of_a_discarded_turn_comes_again():
    again = [reasoned(0, "Hm"), entry("turn.discarded", {"turn": 1}), reasoned(0, "Hm, so.", 90)]
    assert thoughts(*again) == [ReasoningDelta(1, 0, "Hm"), ReasoningDelta(1, 0, "Hm, so.", 90)]
