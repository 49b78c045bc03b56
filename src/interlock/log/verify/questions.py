"""Compares question rows with the events about questions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.kinds import AskUserAnswered, AskUserAsked, AskUserExpired

ROWS = "SELECT id, document, status, answer FROM questions WHERE session_id = ? ORDER BY asked_seq"
# A backup of an older schema is checked before it is upgraded.
IS_THERE = "SELECT 1 FROM sqlite_schema WHERE name = 'questions'"


@dataclass(slots=True)
class _ExpectedQuestion:
    seq: int
    question: Any
    status: str = "open"
    answer: Any = None


class QuestionVerifier:
    """Collects the questions of one stream from its events."""

    def __init__(self) -> None:
        self._expected: dict[str, _ExpectedQuestion] = {}

    def take(self, seq: int, event: Event) -> None:
        if isinstance(event, AskUserAsked):
            self._expected[event.question_id] = _ExpectedQuestion(seq, event.question)
        elif isinstance(event, AskUserAnswered | AskUserExpired):
            told = self._expected.get(event.question_id)
            if told is not None:
                told.seq = seq
                told.status = "answered" if isinstance(event, AskUserAnswered) else "expired"
                told.answer = event.answer if isinstance(event, AskUserAnswered) else None

    def compare(self, connection: DbConnection, stream: str) -> Iterator[tuple[int, str, str]]:
        """Where rows and events disagree: the event's number, broken or missing, and the detail."""
        if connection.dialect == "sqlite" and not connection.query(IS_THERE):
            return
        rows = {str(row[0]): row[1:] for row in connection.query(ROWS, (stream,))}
        for identity, told in self._expected.items():
            if identity not in rows:
                yield told.seq, "missing", f"the row of question {identity} is missing"
                continue
            document, status, answer = rows[identity]
            if _parsed(document) != told.question:
                yield told.seq, "broken", f"question {identity} was changed"
            elif (status, _parsed(answer)) != (told.status, told.answer):
                yield told.seq, "broken", f"the outcome of question {identity} was changed"
        for identity in rows.keys() - self._expected.keys():
            yield 0, "broken", f"no event describes question {identity}"


def _parsed(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
