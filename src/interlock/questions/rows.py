"""A question as a row, and every statement about such rows."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import orjson

from interlock.db.driver import DbConnection, Row
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import AskUserAnswered, AskUserAsked, AskUserEvent, AskUserExpired
from interlock.log.projections import ProjectedRow, Projection
from interlock.questions.validation import FieldError
from interlock.questions.widgets import Widget, read_widget


class QuestionStatus(StrEnum):
    open = "open"
    answered = "answered"
    expired = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, in the order of the table's columns. It and its answer are redacted."""

    id: str
    session_id: str
    call_id: str
    intent_id: str
    task: str | None
    tool_name: str
    mode: str
    authority_digest: str
    widget: str
    document: Mapping[str, Any]
    status: QuestionStatus
    answer: Mapping[str, Any] | None = None
    close_reason: str | None = None
    asked_seq: int
    asked_us: int
    closed_us: int | None = None
    closed_by: str | None = None

    def read_widget(self) -> Widget:
        """The question's widget; `FieldError` if the row was changed into something that is no question."""
        if not isinstance(self.document, Mapping):
            raise FieldError("", "the stored question cannot be read")
        return read_widget(self.document)

    @property
    def result_text(self) -> str:
        """The answer for the model: one line of JSON, which the outcome's hash authenticates."""
        return orjson.dumps(self.answer).decode()

    @property
    def waited_ms(self) -> float:
        """How long it was open, by the clocks of the processes that asked and closed it."""
        return max(0.0, ((self.closed_us or self.asked_us) - self.asked_us) / 1000)


_COLUMNS = tuple(field.name for field in fields(Question))
_NAMES = ", ".join(_COLUMNS)

# People do not see the questions of a deleted session. An erased one has no document left.
_IS_SHOWN = """
NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = questions.session_id AND s.deleted_us IS NOT NULL)
"""
READ = f"SELECT {_NAMES} FROM questions WHERE id = ? AND document IS NOT NULL"  # noqa: S608
READ_SHOWN = f"{READ} AND {_IS_SHOWN}"
OPEN_OF_SESSION = f"""
SELECT {_NAMES} FROM questions
WHERE session_id = ? AND status = 'open' AND document IS NOT NULL ORDER BY asked_seq
"""  # noqa: S608
LIST = f"""
SELECT {_NAMES} FROM questions
WHERE document IS NOT NULL AND {_IS_SHOWN} AND (1 = ? OR session_id = ?) AND (1 = ? OR status = 'open')
ORDER BY asked_us DESC, id LIMIT ?
"""  # noqa: S608

OF_TASK = f"""
SELECT {_NAMES} FROM questions
WHERE session_id = ? AND coalesce(task, '') = ? AND document IS NOT NULL ORDER BY asked_seq
"""  # noqa: S608

# By the order of the log: the newest question is the one a person looks at now.
NEWEST_OF_WIDGET = f"""
SELECT {_NAMES} FROM questions
WHERE session_id = ? AND widget = ? AND document IS NOT NULL ORDER BY asked_seq DESC LIMIT 1
"""  # noqa: S608

HAS_ASKED = "SELECT 1 FROM questions WHERE intent_id = ?"
COUNT_OPEN = "SELECT count(*) FROM questions WHERE session_id = ? AND status = 'open'"
WAITING_INTENTS = "SELECT intent_id FROM questions WHERE session_id = ? AND status = 'open'"

# Only an open question can be closed: of two concurrent attempts, one changes a row.
CLOSE = "UPDATE questions SET status = ? WHERE id = ? AND status = 'open'"

HAS_OUTCOME = """
SELECT 1 FROM events WHERE stream = ? AND seq > ? AND parent = ? AND kind IN
    ('tool_call.completed', 'tool_call.failed', 'tool_call.denied', 'tool_call.interrupted')
"""


def question_of(row: Row) -> Question:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["document"] = orjson.loads(values["document"])
    values["answer"] = None if values["answer"] is None else orjson.loads(values["answer"])
    values["status"] = QuestionStatus(values["status"])
    return Question(**values)


def questions_of(connection: DbConnection, session_id: str, task: str | None) -> list[Question]:
    """All questions of a task, oldest first, open or closed."""
    return [question_of(row) for row in connection.query(OF_TASK, (session_id, task or ""))]


def waiting_intents(connection: DbConnection, session_id: str) -> frozenset[str]:
    """The calls of a session that wait for an answer, by the id of their intent."""
    return frozenset(str(row[0]) for row in connection.query(WAITING_INTENTS, (session_id,)))


def _evolve(row: ProjectedRow | None, event: AskUserEvent, header: EventHeader) -> ProjectedRow | None:
    if isinstance(event, AskUserAsked):
        return dict.fromkeys(_COLUMNS) | {
            "id": event.question_id,
            "session_id": header.stream,
            "call_id": event.call_id,
            "intent_id": header.parent,
            "task": header.task,
            "tool_name": event.tool_name,
            "mode": event.mode,
            "authority_digest": event.authority_digest,
            "widget": event.widget,
            "document": _encoded(event.question),
            "status": QuestionStatus.open.value,
            "asked_seq": header.seq,
            "asked_us": header.time_us,
        }
    if row is None:
        return None
    match event:
        case AskUserAnswered(who=who, answer=answer):
            closed = {"status": QuestionStatus.answered.value, "answer": _encoded(answer)}
        case AskUserExpired(who=who, reason=reason):
            closed = {"status": QuestionStatus.expired.value, "close_reason": reason}
        case _:
            return row
    return row | closed | {"closed_us": header.time_us, "closed_by": who}


def _encoded(content: Mapping[str, Any] | None) -> str | None:
    return None if content is None else orjson.dumps(content).decode()


QUESTIONS = Projection(
    table="questions",
    noun="question",
    key=("id",),
    columns=tuple(name for name in _COLUMNS if name != "id"),
    kinds=(AskUserAsked, AskUserAnswered, AskUserExpired),
    rows_of=lambda event, _header: [{"id": event.question_id}],
    evolve=_evolve,
    stream_column="session_id",
    content=dict.fromkeys(("document", "answer", "close_reason")),
)
