"""Reads the state of a task when it is resumed: messages, usage so far, and the outcome of calls.

A call without a result in the transcript is either run now, or answered with its recorded outcome. A call
that may have changed something never runs twice: if its outcome is unknown, its result says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from interlock.agent.budget import PriceTable
from interlock.agent.context import ModelContext
from interlock.agent.limit_tracker import PastCall, PriorUsage
from interlock.agent.placeholder_results import ENDED_BEFORE, not_run_result, unknown_outcome_result
from interlock.config.modes import ToolMode
from interlock.core.token_usage import NO_USAGE, TokenUsage
from interlock.db.driver import DbConnection, Row
from interlock.log.event import IS_MILESTONE
from interlock.log.kinds import merge_payload
from interlock.log.read import FROM_TASK
from interlock.log.usage import read_task_usage
from interlock.models.provider import FinishReason, ModelReply, RequestedCall
from interlock.questions.rows import Question, QuestionStatus, questions_of
from interlock.redaction.redactor import MARK
from interlock.sessions.models import Message, Role
from interlock.sessions.transcript import (
    has_own_context,
    is_subtask,
    read_messages_through_task,
    read_task_messages,
)
from interlock.tools.tool import REPEATABLE

READ_OWN = """
SELECT id, kind, time_us, facts {of_task}
  AND (kind LIKE 'tool_call.%' OR kind LIKE 'turn.%' OR kind LIKE 'agent.%' OR kind LIKE 'ask_user.%'
       OR kind IN ('task.started', 'control.limit_reached'))
ORDER BY seq
"""
READ_OWN_OF_TASK = READ_OWN.format(of_task=FROM_TASK)
READ_OWN_OF_NONE = READ_OWN.format(of_task="FROM events WHERE stream = ? AND task IS NULL")
# A person creates a session in a mode, switches its mode, or builds a plan. The `+` keeps databases from
# reading the session backwards: the index has the few events of these kinds.
LAST_ENTRY = f"""
SELECT seq, kind, facts FROM events WHERE stream = ? AND {IS_MILESTONE}
    AND kind IN ('session.created', 'session.mode_changed', 'plan.build_started')
ORDER BY +seq DESC LIMIT 1
"""  # noqa: S608 - a constant
# Not tasks that started before and continued later.
TASK_BEGUN_SINCE = f"""
SELECT 1 FROM events a
WHERE a.stream = ? AND a.kind = 'agent.started' AND a.seq > ? AND {IS_MILESTONE} AND (
    a.task IS NULL OR NOT EXISTS (
        SELECT 1 FROM events b
        WHERE b.stream = a.stream AND b.task = a.task AND b.seq < ? AND b.kind = 'agent.started'
            AND {IS_MILESTONE}))
LIMIT 1
"""  # noqa: S608 - a constant
COMPACTIONS = f"""
SELECT kind, facts, content, task FROM events
WHERE stream = ? AND {IS_MILESTONE} AND kind IN ('context.compacted', 'context.compact_requested')
ORDER BY +seq
"""  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class UnansweredCallPlan:
    """What to do with calls without a result: run them, answer them, or keep waiting."""

    to_run: tuple[RequestedCall, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.to_run or self.answers or self.waiting)


@dataclass(slots=True)
class TaskHistory:
    """One task: its turns, time and tokens so far, and its calls by id."""

    turns: int = 0
    seconds: float = 0.0
    # With those of delegated tasks, by model.
    usage: Mapping[str, TokenUsage] = field(default_factory=dict)
    # The tokens of its own turns.
    own_usage: TokenUsage = NO_USAGE
    last_turn: str | None = None
    # How the model's last reply ended.
    finish_reason: FinishReason = FinishReason.stop
    # The agent's name and file hash when the task started.
    agent: tuple[str, str] | None = None
    calls: dict[str, "CallRecord"] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    # The limits whose events are in the log.
    limits_reached: set[str] = field(default_factory=set)

    def used(self, prices: PriceTable, messages: Sequence[Message], names: Mapping[str, str]) -> PriorUsage:
        """How much of its limits the task has used."""
        if not self.turns:
            # Answers of which only a part arrived cost tokens too.
            return PriorUsage(seconds=self.seconds, spent=prices.spent(self.usage))
        return PriorUsage(
            turns=self.turns,
            seconds=self.seconds,
            spent=prices.spent(self.usage),
            calls=past_calls(_since_the_last_request(messages), names),
        )

    def settle(self, calls: Sequence[RequestedCall], mode: str) -> UnansweredCallPlan:
        to_run, answers, waiting = [], [], {}
        for call in calls:
            known = self.calls.get(call.call_id)
            question = self.questions.get(call.call_id)
            has_ended = known is not None and known.has_ended
            if question is not None and question.status is QuestionStatus.open and not has_ended:
                waiting[call.call_id] = question.id
            elif (told := _known_result(call, known, mode)) is not None:
                answers.append((call.call_id, told))
            else:
                to_run.append(call)
        return UnansweredCallPlan(tuple(to_run), tuple(answers), waiting)


@dataclass(slots=True)
class CallRecord:
    effect: str = ""
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class ResumeState:
    """The state of a session when one of its tasks is started or resumed."""

    messages: tuple[Message, ...]
    task_history: TaskHistory
    # The newest written summary and the newest cut: up to which message, and the summary or nothing.
    compactions: tuple[tuple[int, str], ...] = ()
    # A person asked for another since.
    wants_compaction: bool = False
    # The session has more messages than these.
    is_part: bool = False
    # No task has started since a person put the session into coding mode.
    entered_coding: bool = False

    @property
    def answer(self) -> ModelReply | None:
        """The final answer, if an earlier attempt produced it but did not end the task."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role is not Role.assistant or last.tool_calls:
            return None
        return ModelReply(last.content, finish_reason=self.task_history.finish_reason)


def read_resume_state(
    connection: DbConnection, session_id: str, task: str | None, attempt: int
) -> ResumeState:
    """Read the state. A first attempt has no history: the log is not read for it."""
    messages = read_messages_through_task(connection, session_id, task)
    is_part = task is not None and has_own_context(connection, session_id, task)
    compactions, is_wanted = _last_compactions(connection, session_id, task if is_part else None)
    task_history = read_task_history(connection, session_id, task) if attempt > 1 else TaskHistory()
    entered = attempt == 1 and _has_entered_coding(connection, session_id)
    return ResumeState(tuple(messages), task_history, compactions, is_wanted, is_part, entered)


def _last_compactions(
    connection: DbConnection, session_id: str, delegated: str | None
) -> tuple[tuple[tuple[int, str], ...], bool]:
    """A cut adds to the summary before it; an erased summary counts as a cut.

    Those of the session's own conversation, or of one delegated task with a context of its own.
    """
    last: tuple[tuple[int, str], ...] = ()
    is_wanted = False
    for kind, facts, content, task in connection.query(COMPACTIONS, (session_id,)):
        if is_subtask(task) if delegated is None else task != delegated:
            continue
        is_wanted = kind != "context.compacted"
        if is_wanted:
            continue
        fields = merge_payload(facts, content)
        through, summary = int(fields["through_seq"]), str(fields.get("summary") or "")
        written = [each for each in last if each[1]]
        last = ((through, summary),) if summary else (*written, (through, ""))
    return last, is_wanted


def _has_entered_coding(connection: DbConnection, session_id: str) -> bool:
    """Whether the next task is the first since a person put the session into coding mode."""
    rows = connection.query(LAST_ENTRY, (session_id,))
    if not rows:
        return False
    seq, kind, fields = rows[0][0], rows[0][1], orjson.loads(rows[0][2])
    mode = fields.get("to_mode") or fields.get("mode")
    if kind != "plan.build_started" and mode != ToolMode.coding:
        return False
    return not connection.query(TASK_BEGUN_SINCE, (session_id, seq, seq))


def read_task_history(connection: DbConnection, session_id: str, task: str | None) -> TaskHistory:
    rows = (
        connection.query(READ_OWN_OF_TASK, (session_id, task))
        if task
        else connection.query(READ_OWN_OF_NONE, (session_id,))
    )
    asked = questions_of(connection, session_id, task)
    own = read_task_usage(connection, session_id, task or "", delegated=False)
    task_history = TaskHistory(
        turns=_begun_turns(rows) if task else 0,
        seconds=_worked_seconds(rows),
        usage=read_task_usage(connection, session_id, task or ""),
        own_usage=sum(own.values(), NO_USAGE),
        questions={each.call_id: each for each in asked},
    )
    for event_id, kind, _time_us, facts in rows:
        fields = merge_payload(facts, None)
        if kind == "turn.completed":
            task_history.last_turn = event_id
            task_history.finish_reason = FinishReason(fields["finish_reason"])
        elif kind == "agent.started" and task_history.agent is None:
            task_history.agent = (fields["agent"], fields["agent_hash"])
        elif kind == "control.limit_reached":
            task_history.limits_reached.add(fields["limit"])
        elif kind.startswith("tool_call."):
            _take_down(task_history.calls, kind, fields)
    return task_history


def _since_the_last_request(messages: Sequence[Message]) -> Sequence[Message]:
    """The task's own messages: each task begins with one message of a person; others steer it."""
    requests = [
        index
        for index, message in enumerate(messages)
        if message.role is Role.user and not message.is_steering
    ]
    return messages[requests[-1] :] if requests else messages


def past_calls(messages: Iterable[Message], names: Mapping[str, str]) -> tuple[PastCall, ...]:
    """The answered calls, in order, as the control policy counts them. `names` are aliases."""
    turn, asked, calls = 0, {}, []
    for message in messages:
        if message.role is Role.assistant:
            turn += 1
            asked = {str(call["id"]): call for call in message.tool_calls or ()}
        elif message.role is Role.tool and (call := asked.get(message.tool_call_id or "")):
            name = names.get(str(call["name"]), str(call["name"]))
            calls.append(PastCall.from_transcript(turn, name, str(call["arguments"]), message.content))
    return tuple(calls)


def describe_unanswered_calls(
    connection: DbConnection, session_id: str, message_seq: int, task: str, mode: str
) -> list[tuple[str, str]]:
    """For a task that is ending: every call without a result, and its placeholder."""
    unanswered = ModelContext(read_task_messages(connection, session_id, message_seq, task)).unanswered
    if not unanswered:
        return []
    settlement = read_task_history(connection, session_id, task).settle(unanswered, mode)
    told = dict(settlement.answers)
    return [
        (call.call_id, told.get(call.call_id) or not_run_result(call.name, mode, ENDED_BEFORE))
        for call in unanswered
    ]


def _worked_seconds(rows: Sequence[Row]) -> float:
    """The total time of its attempts, without the pauses between them or waits for a person."""
    total, is_parked = 0, False
    began = last = next((row[2] for row in rows), 0)
    for _id, kind, time_us, *_ in rows:
        if kind == "agent.started":
            total += last - began
            began, is_parked = time_us, False
        if not is_parked:
            last = time_us
        is_parked = is_parked or kind == "ask_user.asked"
    # The clock may have been set back.
    return max(0, total + last - began) / 1e6


def _begun_turns(rows: Sequence[Row]) -> int:
    """The completed turns, and those in which an earlier attempt ended while the model was asked.

    It is asked when an attempt starts and whenever all calls of a turn have an outcome, unless one of them
    asked a person: then the attempt ends. An attempt that ended just before it was asked counts the same:
    a resumed task never has more room than before.
    """
    turns, unanswered, is_asked, is_parked = 0, 0, False, False
    for _id, kind, _time_us, facts in rows:
        if kind == "task.started":
            turns, is_asked = turns + is_asked, False
        elif kind == "agent.started":
            is_asked, is_parked = True, False
        elif kind == "ask_user.asked":
            is_parked = True
        elif kind == "turn.completed":
            turns, unanswered, is_asked = turns + 1, orjson.loads(facts)["tool_calls"], False
        elif kind in ("tool_call.completed", "tool_call.failed", "tool_call.denied"):
            unanswered -= 1
            is_asked = is_asked or (unanswered == 0 and not is_parked)
    return turns


def _take_down(calls: dict[str, CallRecord], kind: str, fields: Mapping[str, Any]) -> None:
    call = calls.setdefault(fields["call_id"], CallRecord())
    if kind == "tool_call.started":
        call.effect = fields["effect"]
    else:
        call.has_ended = True


def _known_result(call: RequestedCall, known: CallRecord | None, mode: str) -> str | None:
    """The result of a call without a message; None if it is to be run."""
    if known is not None and known.effect and known.effect not in REPEATABLE:
        return unknown_outcome_result(call.name, mode)
    if MARK in call.arguments:
        return not_run_result(call.name, mode, "its arguments contained a secret, which is not stored")
    return None
