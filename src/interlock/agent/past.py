"""What the log knows of work that somebody began before: how far it went, and what became of its calls.

A call that the model asked for and that has no answer in the transcript is either run now, or told as it
went. What may have changed something is never run twice: where its outcome is not known, that is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from interlock.agent.budget import Spent
from interlock.agent.calling import not_run
from interlock.agent.control import Used
from interlock.infra.errors import ErrorCode
from interlock.models.provider import RequestedCall
from interlock.questions.desk import QuestionDesk
from interlock.questions.rows import Question, Status
from interlock.redaction.redactor import MARK
from interlock.store.database import Database
from interlock.tools.base import Effect
from interlock.tools.result import ToolResult

READ_PAST = """
SELECT id, kind, task, parent, payload FROM events
WHERE stream = ? AND payload IS NOT NULL
  AND (kind LIKE 'tool_call.%' OR kind IN ('turn.started', 'turn.completed', 'context.compacted'))
ORDER BY seq
"""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What to do about calls without an answer: run them, tell how they went, or wait on."""

    to_run: tuple[RequestedCall, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.to_run or self.answers or self.waiting)


@dataclass(frozen=True, slots=True)
class Past:
    """Of one session. `used` is the task's own part of it."""

    used: Used
    last_turn: str | None
    compacted_through: int
    _calls: Mapping[str, "_Call"]
    _questions: Mapping[str, Question]

    def settle(self, calls: Sequence[RequestedCall], mode: str) -> Settlement:
        to_run, answers, waiting = [], [], {}
        for call in calls:
            known = self._calls.get(call.call_id)
            question = self._questions.get(call.call_id)
            if question is not None and question.status is Status.open:
                waiting[call.call_id] = question.id
            elif (told := _told(call, known, question, mode)) is not None:
                answers.append((call.call_id, told))
            else:
                to_run.append(call)
        return Settlement(tuple(to_run), tuple(answers), waiting)


@dataclass(slots=True)
class _Call:
    effect: str = ""
    outcome: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


async def read_past(database: Database, questions: QuestionDesk, session_id: str, task: str | None) -> Past:
    rows = await database.read(lambda connection: connection.query(READ_PAST, (session_id,)))
    asked = await questions.list_questions(session_id=session_id, include_closed=True, limit=1000)
    calls: dict[str, _Call] = {}
    turns, tokens, last_turn, through = 0, 0, None, 0
    for event_id, kind, of_task, _parent, payload in rows:
        fields = orjson.loads(payload)
        if kind == "turn.started":
            last_turn = event_id
            turns += of_task == task
        elif kind == "turn.completed":
            if of_task == task:
                tokens += fields["input_tokens"] + fields["output_tokens"]
        elif kind == "context.compacted":
            through = fields["through_seq"]
        else:
            _take_down(calls, kind, fields)
    used = Used(turns=turns, spent=Spent(tokens)) if task is not None else Used()
    return Past(used, last_turn, through, calls, {question.call_id: question for question in asked})


def _take_down(calls: dict[str, _Call], kind: str, fields: Mapping[str, Any]) -> None:
    call = calls.setdefault(fields["call_id"], _Call())
    if kind == "tool_call.started":
        call.effect = fields["effect"]
    else:
        call.outcome, call.fields = kind, fields


def _told(call: RequestedCall, known: _Call | None, question: Question | None, mode: str) -> str | None:
    """What the model is told of it now; None where it is to be run."""
    if known is None or (known.outcome is None and not known.effect):
        return _not_runnable(call, mode)
    if known.outcome in ("tool_call.failed", "tool_call.denied"):
        return _failure(known.fields, is_denial=known.outcome == "tool_call.denied")
    if question is not None and question.status is Status.answered:
        return orjson.dumps(ToolResult(stdout=f"{question.result_text}\n").as_dict()).decode()
    if known.effect == Effect.read:
        return _not_runnable(call, mode)
    if known.outcome == "tool_call.completed":
        kept = ToolResult(stdout="It was done before a restart; what it printed was not kept.\n")
        return orjson.dumps(kept.as_dict()).decode()
    unknown = "whether it took effect is not known, because the process ended meanwhile"
    return not_run(call.name, mode, unknown, ErrorCode.INTERRUPTED)


def _not_runnable(call: RequestedCall, mode: str) -> str | None:
    if MARK in call.arguments:
        return not_run(call.name, mode, "its arguments held a secret, which is not stored")
    return None


def _failure(fields: Mapping[str, Any], *, is_denial: bool) -> str:
    told = {
        "ok": False,
        "error_code": fields["error_code"],
        "tool_name": fields["tool_name"],
        "mode": fields["mode"],
        "message": fields["error"],
        "next_action": fields["next_action"],
    }
    if not is_denial:
        told["error_class"] = fields["error_class"]
    return orjson.dumps(told).decode()
