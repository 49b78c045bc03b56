"""Refused calls: the first says why, the second names another way, and after the third in a row the model
has one turn without tools to answer (S0-4.2.4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.denial_policy import DenialPolicy, suggest_alternative
from interlock.agent.limit_tracker import PastCall, PriorUsage, arguments_fingerprint
from interlock.agent.limits import LimitStop, ModelHint
from interlock.config.limits import TaskLimitSettings
from interlock.core.errors import ErrorCode
from interlock.log.task_events import ControlLimitReached
from interlock.tools.result import ToolResult
from tests.harness.case_tables import each_row
from tests.harness.task_limits import task_limits
from tests.unit.agent.controlled import DENIED, control, ended, failed

CHAT = frozenset({"current_time", "read_file", "list_files", "search_files", "bash_readonly", "ask_user"})
FINE = ToolResult(stdout="fine")


class Calls:
    """A task whose calls all differ, so that only refusals matter."""

    def __init__(self, limits: TaskLimitSettings | None = None) -> None:
        self.task = control(limits or task_limits(max_turns=10_000))
        self.made = 0

    def turn(self, *results: ToolResult):
        self.task.before_turn()
        return [self.call(result) for result in results]

    def call(self, result: ToolResult):
        self.made += 1
        arguments = arguments_fingerprint({"n": self.made})
        return ended(self.task, "write_file", arguments, result, exposed=CHAT)


def test_the_three_steps():
    calls = Calls()
    assert calls.turn(DENIED) == [None]
    (second,) = calls.turn(DENIED)
    assert second == ModelHint(
        "write_file was denied again. You cannot change this. Put what you would write or run "
        "into your answer instead. After one more denied call you can only answer, without tools."
    )
    (third,) = calls.turn(DENIED)
    assert third == ModelHint(
        "Too many calls were denied, so no further call runs in this task. Answer now, without "
        "tools: tell the user what was denied, why, and what they can do."
    )
    assert calls.task.refusal_limit.event == ControlLimitReached(
        limit="max_denials",
        allowed=3.0,
        reached=3.0,
        sentence=(
            "Calls were denied in 3 turns in a row (the last one: write_file is not allowed in "
            "chat mode), so the model must answer without tools. Allow what it needs (interlock "
            "policy explain TOOL names the rule), ask for something else, or raise "
            "CONTROL_MAX_DENIALS."
        ),
    )
    assert calls.task.before_turn() is None


def test_the_last_turn_needs_room_in_every_other_limit():
    calls = Calls(task_limits(max_turns=3))
    for _ in range(3):
        calls.turn(DENIED)
    assert calls.task.refusal_limit is not None
    assert calls.task.before_turn().limit == "max_turns"


@pytest.mark.parametrize("between", [FINE, failed(ErrorCode.INVALID_ARGS), failed(ErrorCode.TIMEOUT)])
def test_any_other_call_between_begins_the_row_anew(between):
    calls = Calls()
    for _ in range(4):
        assert calls.turn(DENIED) == [None]
        assert isinstance(calls.turn(DENIED)[0], ModelHint)
        assert calls.turn(between) == [None]


def test_refusals_of_one_turn_are_one_step():
    """The model had not read the first when it asked for the others."""
    calls = Calls()
    assert calls.turn(*[DENIED] * 4) == [None] * 4
    second = calls.turn(DENIED, DENIED)
    assert isinstance(second[0], ModelHint)
    assert second[1] is None
    calls.turn(DENIED)
    assert calls.task.refusal_limit is not None


def test_ten_of_the_last_fifty_end_it_also_without_a_row():
    calls = Calls()
    for _ in range(8):
        assert calls.turn(DENIED) == [None]
        assert calls.turn(*[FINE] * 4) == [None] * 4
    (ninth,) = calls.turn(DENIED)
    assert "After one more denied call you can only answer" in ninth.text
    calls.turn(FINE)
    calls.turn(DENIED)
    tenth = calls.task.refusal_limit
    assert (tenth.limit, tenth.allowed, tenth.reached) == ("max_recent_denials", 10, 10)
    assert "10 of the last 50 calls were denied" in tenth.sentence
    assert "CONTROL_MAX_RECENT_DENIALS" in tenth.sentence


def test_the_fifty_first_call_forgets_the_first():
    calls = Calls()
    for _ in range(100):
        (answer,) = calls.turn(DENIED)
        assert not isinstance(answer, LimitStop)
        calls.turn(*[FINE] * 5)


def test_one_turn_of_ten_refusals_is_too_many():
    calls = Calls()
    *before, last = calls.turn(*[DENIED] * 10)
    assert before == [None] * 9
    assert isinstance(last, ModelHint)
    assert calls.task.refusal_limit.limit == "max_recent_denials"


def test_with_one_step_the_first_refusal_is_the_last():
    calls = Calls(task_limits(max_denials=1))
    calls.turn(DENIED)
    assert calls.task.refusal_limit.reached == 1


def test_a_longer_ladder_warns_on_each_step_and_is_exact_on_the_last():
    calls = Calls(task_limits(max_denials=4))
    answers = [calls.turn(DENIED)[0] for _ in range(4)]
    assert answers[0] is None
    assert "After further denied calls you can only answer" in answers[1].text
    assert "After one more denied call you can only answer" in answers[2].text
    assert "Answer now" in answers[3].text


def test_a_restart_does_not_lower_the_ladder():
    past = [PastCall(turn, "write_file", str(turn), "no") for turn in (1, 2)]
    task = control(used=PriorUsage(turns=2, calls=tuple(past)))
    assert task.before_turn() is None
    ended(task, "bash", "x", DENIED)
    assert task.refusal_limit is not None


def test_a_task_that_may_only_answer_may_only_answer_after_a_restart():
    past = [PastCall(turn, "write_file", str(turn), f"no {turn}") for turn in (1, 2, 3)]
    stop = control(used=PriorUsage(turns=3, calls=tuple(past))).refusal_limit
    assert stop.limit == "max_denials"
    assert "no 3" in stop.sentence


def test_what_a_denial_says_cannot_forge_lines_nor_fill_pages():
    calls = Calls(task_limits(max_denials=1))
    calls.turn(failed(ErrorCode.PATH_DENIED, message="\x1b[31m{setting}\n" + "x" * 9000))
    stop = calls.task.refusal_limit
    assert "\\x1b[31m{setting}\\x0a" in stop.sentence
    assert len(stop.sentence) < 700


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=120),
    st.integers(1, 5),
    st.integers(1, 8),
    st.integers(8, 20),
)
def test_any_sequence_of_calls_is_judged_as_the_rule_says(steps, in_row, recent, window):
    ladder = DenialPolicy(task_limits(max_denials=in_row, max_recent_denials=recent, recent_calls=window))
    turn, made = 0, []
    for next_turn, denied in steps:
        turn += next_turn
        made.append((turn, denied))
        answer = ladder.step(turn, "no" if denied else None)
        too_long = denied and len(row_of(made)) >= in_row
        too_many = denied and sum(was for _, was in made[-window:]) >= recent
        assert isinstance(answer, LimitStop) == (too_long or too_many)


def row_of(made) -> set[int]:
    """The turns of the refused calls at the end, without any other call between them."""
    turns = set()
    for turn, denied in reversed(made):
        if not denied:
            break
        turns.add(turn)
    return turns


@each_row(
    ("code", "tool", "exposed", "way"),
    [
        (
            ErrorCode.MODE_DENIED,
            "bash",
            CHAT,
            "Similar tools that are allowed here: bash_readonly, read_file",
        ),
        (ErrorCode.TOOL_NOT_AVAILABLE, "bash_readonly", CHAT, "allowed here: read_file, search_files"),
        (ErrorCode.MODE_DENIED, "write_file", CHAT, "Put what you would write or run into your answer"),
        (ErrorCode.MODE_DENIED, "bash", {"current_time"}, "into your answer"),
        (ErrorCode.MODE_DENIED, "read_file", {"current_time", "ask_user"}, "here: ask_user, current_time."),
        (
            ErrorCode.MODE_DENIED,
            "server__tool",
            set("abcdefgh"),
            "Allowed here: a, b, c, d, e, f, and more.",
        ),
        (ErrorCode.MODE_DENIED, "server__tool", set("abcdef"), "Allowed here: a, b, c, d, e, f. Or"),
        (ErrorCode.MODE_DENIED, "read_file", (), "No tool is allowed here"),
        (ErrorCode.PATH_DENIED, "read_file", CHAT, "inside the open folders (list_files"),
        (ErrorCode.PATH_DENIED, "read_file", (), "inside the open folders;"),
        (ErrorCode.COMMAND_DENIED, "bash", CHAT, "or one of these tools: read_file, search_files"),
        (ErrorCode.COMMAND_DENIED, "bash", (), "Use a command that is not denied"),
        (ErrorCode.LIMIT_EXCEEDED, "read_file", CHAT, "Request less in one call"),
    ],
)
def test_the_nearest_way_is_one_that_is_open(code, tool, exposed, way):
    text = suggest_alternative(failed(code, tool).failure, exposed)
    assert way in text
    assert f" {tool}," not in text
