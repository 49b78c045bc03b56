"""What a person sees of a conversation, and that nothing in it can drive their terminal."""

import io

from interlock.agent.events import (
    AskUser,
    ReasoningDelta,
    RetryAnnounced,
    TaskEnded,
    TextDelta,
    ToolCallInfo,
    ToolDenied,
    ToolProgress,
    ToolResultInfo,
    TurnCompleted,
)
from interlock.channels.terminal.view import (
    MAX_CHARS,
    MAX_LINES,
    TerminalView,
    TerminalWriter,
    standard_writer,
)
from tests.harness.case_tables import each_row


def shown(*events, colours: bool = False, shows_text: bool = True) -> str:
    stream = io.StringIO()
    view = TerminalView(TerminalWriter(stream, colours), shows_text=shows_text)
    for event in events:
        view.show(event)
    return stream.getvalue()


def result(call_id: str = "c", **fields: object) -> ToolResultInfo:
    return ToolResultInfo(call_id, "bash", {"ok": True, "stdout": "", "stderr": "", **fields})


def test_text_is_shown_as_it_comes_and_ends_its_line():
    told = shown(TextDelta(1, 0, "Hello "), TextDelta(1, 6, "you"), TurnCompleted(1, "Hello you", 0, 1, 1))
    assert told == "Hello you\n"


def test_a_call_is_a_card_with_the_first_lines_of_its_result():
    output = "".join(f"line {number}\n" for number in range(MAX_LINES + 2))
    told = shown(ToolCallInfo("c", "bash", {"cmd": "ls -l", "workdir": "a"}), result(stdout=output))
    lines = told.splitlines()
    assert lines[0] == '  > bash cmd="ls -l" workdir=a'
    assert lines[1:-1] == [f"    line {number}" for number in range(MAX_LINES)]
    assert lines[-1] == "    … 2 more lines"


def test_a_call_without_arguments_or_output_is_one_plain_line():
    assert shown(ToolCallInfo("c", "current_time", {}), result()) == "  > current_time\n"


def test_a_failure_tells_the_reason_and_what_was_printed_until_then():
    told = shown(
        ToolCallInfo("c", "bash", {"cmd": "make"}),
        result(
            ok=False, message="it ended with exit code 2", stdout="cc main.c\n", stderr="no such file\n"
        ),
    )
    assert told.splitlines()[1:] == [
        "    failed: it ended with exit code 2",
        "    cc main.c",
        "    no such file",
    ]


def test_a_denial_tells_what_and_what_next():
    denied = ToolDenied("c", "read_file", "chat_safe", "MODE_DENIED", "read_file is not allowed", "Ask.")
    assert shown(denied) == "    denied: read_file is not allowed\n    next: Ask.\n"


def test_the_question_of_a_call_is_not_shown_twice():
    arguments = {"type": "confirmation", "message": "Shall I?"}
    assert shown(ToolCallInfo("c", "ask_user", arguments), AskUser("c", "q_1")) == (
        "  > ask_user confirmation\n"
    )


def test_results_of_calls_side_by_side_say_whose_they_are():
    told = shown(
        ToolCallInfo("a", "read_file", {"path": "a"}),
        ToolCallInfo("b", "read_file", {"path": "b"}),
        result("a", stdout="of a"),
        result("b", stdout="of b"),
    )
    assert told.splitlines()[2:] == [
        "  < read_file path=a",
        "    of a",
        "  < read_file path=b",
        "    of b",
    ]


def test_a_card_and_progress_are_cut_to_one_line():
    told = shown(
        ToolCallInfo("c", "write_file", {"content": "x" * 5000}),
        ToolProgress("c", "one\ntwo " + "y" * 5000),
    )
    first, second = told.splitlines()
    assert len(first) < MAX_CHARS + 20
    assert len(second) < MAX_CHARS + 20
    assert second.startswith("    | one two y")


def test_retries_and_ends_are_told():
    told = shown(
        TextDelta(1, 0, "half"), RetryAnnounced(2.0, "the server is busy"), TaskEnded("failed", "Too long.")
    )
    assert told == "half\n  (the server is busy; retrying in 2 s)\nToo long.\n"


@each_row(
    "event",
    [
        TextDelta(1, 0, "a\x1b]0;gone\x07\x1b[2J\x9b31m\rb\u202e"),
        ToolCallInfo("c", "evil\x1b[2J", {"x\x1b[2J": "\x1b[2J \x07 \r"}),
        ToolCallInfo("c", "evil", "{\x1b[2J"),
        ToolCallInfo("c", "ask_user", {"type": "\x1b[2J"}),
        ToolProgress("c", "\x1b[2J\r"),
        result(stdout="\x1b[2J\r\x07", stderr="\x1b[2J"),
        result(ok=False, message="\x1b[2J"),
        ToolDenied("c", "n", "m", "E", "\x1b[2J\r", "\x1b[2J\x07"),
        RetryAnnounced(1.0, "\x1b[2J"),
        TaskEnded("failed", "\x1b[2J\r"),
        TurnCompleted(1, "\x1b[2J", 1, 1, 1),
    ],
)
@each_row("shows_text", [True, False])
def test_nothing_that_is_shown_can_drive_the_terminal(event, shows_text):
    told = shown(event, shows_text=shows_text)
    assert not set(told) & set("\x1b\x07\x9b\r\u202e")


def test_wide_text_and_the_spaces_of_other_scripts_stay_as_they_are():
    text = "宽　文字 👩\u200d🚀 10\u202f000\xa0€"
    assert shown(TextDelta(1, 0, text)) == text


def test_colours_are_for_a_terminal_that_wants_them(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert standard_writer().colours
    monkeypatch.setenv("NO_COLOR", "1")
    assert not standard_writer().colours
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not standard_writer().colours
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setenv("TERM", "xterm")
    assert not standard_writer().colours
    assert "\x1b[2m  > bash\x1b[0m" in shown(ToolCallInfo("c", "bash", {}), colours=True)


def test_reasoning_is_grey_and_apart_from_its_answer():
    events = (
        ReasoningDelta(1, 0, "Hm,"),
        ReasoningDelta(1, 3, " so\x1b[31m."),
        ReasoningDelta(1, 7, "", 1234),
        TextDelta(1, 0, "Yes."),
        TurnCompleted(1, "Yes.", 0, 1, 1),
    )
    assert shown(*events) == "  (reasoning)\nHm, so\\x1b[31m.\n  (reasoned for 1.2 s)\nYes.\n"
    assert "\x1b[2mHm,\x1b[0m" in shown(*events, colours=True)
    assert shown(*events, shows_text=False) == ""


def test_reasoning_that_broke_off_ends_its_line():
    again = (
        ReasoningDelta(1, 0, "Half"),
        RetryAnnounced(1, "it broke off"),
        ReasoningDelta(1, 0, "All.", 1000),
    )
    assert shown(*again).splitlines() == [
        *("  (reasoning)", "Half", "  (it broke off; retrying in 1 s)"),
        *("  (reasoning)", "All.", "  (reasoned for 1.0 s)"),
    ]


def test_without_running_text_the_answer_is_left_to_whoever_prints_it_at_the_end():
    stream = io.StringIO()
    view = TerminalView(TerminalWriter(stream, colours=False), shows_text=False)
    for event in (
        TextDelta(1, 0, "Let me look."),
        ToolCallInfo("c", "current_time", {}),
        TurnCompleted(1, "Let me look.", 1, 1, 1),
        TextDelta(2, 0, "It is noon."),
        TurnCompleted(2, "It is noon.", 0, 1, 1),
        TaskEnded("done"),
    ):
        view.show(event)
    assert view.told_end
    assert stream.getvalue() == "  > current_time\nLet me look.\n"
    view.begin_task()
    assert not view.told_end
