"""Asks and closes questions: the row, its event and the call's outcome change in one transaction.

A call asks once. Several calls of a session may have a question open at the same time, because a model may
make several calls in one turn; each is answered separately.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from interlock.core.errors import (
    ErrorCode,
    InvalidAnswer,
    QuestionAlreadyClosed,
    QuestionNotFound,
    ToolError,
)
from interlock.core.text import sanitize_text, to_json_value
from interlock.db.database import Database
from interlock.db.driver import DbConnection
from interlock.log.kinds import (
    AskUserAnswered,
    AskUserAsked,
    AskUserExpired,
    ToolCallCompleted,
    ToolCallFailed,
)
from interlock.log.stream_appender import EventScope
from interlock.log.writer import EventLog, Transaction
from interlock.questions.answers import read_answer
from interlock.questions.rows import (
    CLOSE,
    COUNT_OPEN,
    HAS_ASKED,
    HAS_OUTCOME,
    LIST,
    NEWEST_OF_WIDGET,
    OPEN_OF_SESSION,
    READ,
    READ_SHOWN,
    Question,
    QuestionStatus,
    question_of,
)
from interlock.questions.validation import FieldError
from interlock.questions.widgets import Widget, document_of, read_widget
from interlock.redaction.redactor import Redacted, Redactor
from interlock.tools.result import ToolFailure, ToolResult

MAX_OPEN = 20
MAX_WHO = 200
MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class AskingCall:
    """The tool call that asks, and the authority that judged it. `scope.parent` is its recorded intent."""

    session_id: str
    call_id: str
    tool_name: str
    mode: str
    authority_digest: str
    scope: EventScope
    lease_token: int | None = None


class QuestionService:
    """`ring` is called with the session in which a closed question may have requeued a parked task."""

    def __init__(
        self,
        database: Database,
        log: EventLog,
        redactor: Redactor,
        ring: Callable[[str], None] = lambda _session_id: None,
    ) -> None:
        self._database = database
        self._events = log
        self._redactor = redactor
        self._ring = ring

    # -- asking --

    def without_secrets(self, widget: Widget) -> tuple[Widget, bool]:
        """The question as it would be stored and shown, and whether it was changed.

        Masking a secret can leave an invalid question, such as two equal options; then it raises a
        `FieldError`.
        """
        safe = self._redactor.checked(to_json_value(document_of(widget)))
        return (read_widget(safe.value), True) if safe.changed else (widget, False)

    async def ask(self, widget: Widget, call: AskingCall) -> Question:
        """Ask a question. It is durable when this returns; the call then waits without an outcome."""
        shown, redacted = self.without_secrets(widget)
        intent_id = call.scope.parent
        if intent_id is None:
            raise ValueError("a question needs a call whose start was recorded")
        identity = f"q_{secrets.token_hex(8)}"
        event = AskUserAsked(
            question_id=identity,
            call_id=self._redactor.text(call.call_id),
            redacted=redacted,
            tool_name=call.tool_name,
            mode=call.mode,
            authority_digest=call.authority_digest,
            widget=shown.type.value,
            question=to_json_value(document_of(shown)),
        )

        def work(transaction: Transaction) -> Question:
            transaction.next_seq()
            _refuse_another(transaction.connection, call.session_id, intent_id)
            transaction.record(event, call.scope)
            return _read(transaction.connection, identity)

        return await self._events.transact(call.session_id, work, token=call.lease_token)

    # -- closing --

    async def answer(self, question_id: str, answer: Mapping[str, Any], *, who: str) -> Question:
        """Store the answer, once: of two concurrent answers one is accepted and the other is refused."""
        question = await self.get(question_id)
        answered = await self._events.transact(
            question.session_id, self.answering(question, answer, who=who)
        )
        self._ring(question.session_id)
        return answered

    def answering(
        self, question: Question, answer: Mapping[str, Any], *, who: str
    ) -> Callable[[Transaction], Question]:
        """The same as a part of the caller's transaction; an invalid answer is refused at once.

        Notify the session's workers afterwards.
        """
        _must_be_open(question)
        given, (author, _) = self._checked(question, answer), self._line(who, MAX_WHO)

        def work(transaction: Transaction) -> Question:
            present = _locked(transaction, question.id)
            _must_wait_still(transaction.connection, present)
            _close(transaction, present, QuestionStatus.answered)
            scope = EventScope(present.task, present.intent_id)
            transaction.record(
                AskUserAnswered(
                    question_id=present.id,
                    call_id=present.call_id,
                    redacted=given.changed,
                    who=author,
                    answer=given.value,
                ),
                scope,
            )
            answered = _read(transaction.connection, present.id)
            transaction.record(_completed(answered, redacted=given.changed), scope)
            return answered

        return work

    async def expire(self, question_id: str, *, reason: str, who: str) -> Question:
        """Close it unanswered: its call ends as cancelled."""
        question = await self.get(question_id)
        closing = self._closing(reason, who)

        def work(transaction: Transaction) -> Question:
            return _expire(transaction, _locked(transaction, question_id), closing)

        expired = await self._events.transact(question.session_id, work)
        self._ring(question.session_id)
        return expired

    def close_open(
        self, transaction: Transaction, session_id: str, *, reason: str, who: str, task: str | None = None
    ) -> None:
        """Close the open questions of a session, or of one task, unanswered; part of a transaction."""
        closing = self._closing(reason, who)
        transaction.next_seq()
        for row in transaction.connection.query(OPEN_OF_SESSION, (session_id,)):
            question = question_of(row)
            if task is None or question.task == task:
                _expire(transaction, question, closing)

    # -- reading --

    async def get(self, question_id: str) -> Question:
        return await self._database.read(lambda db: _read(db, sanitize_text(question_id), READ_SHOWN))

    async def open_questions(self, session_id: str) -> list[Question]:
        """The open questions of a session, oldest first."""
        rows = await self._database.read(lambda db: db.query(OPEN_OF_SESSION, (sanitize_text(session_id),)))
        return [question_of(row) for row in rows]

    async def list_questions(
        self, *, session_id: str | None = None, include_closed: bool = False, limit: int = 100
    ) -> list[Question]:
        """The questions of all sessions or of one, newest first."""
        everywhere, session = (1, "") if session_id is None else (0, sanitize_text(session_id))
        parameters = (everywhere, session, 1 if include_closed else 0, limit)
        rows = await self._database.read(lambda db: db.query(LIST, parameters))
        return [question_of(row) for row in rows]

    async def newest(self, session_id: str, widget: str) -> Question | None:
        """The newest question of that kind in a session."""
        return await self._database.read(
            lambda db: read_newest_question(db, sanitize_text(session_id), widget)
        )

    def _checked(self, question: Question, answer: Mapping[str, Any]) -> Redacted:
        try:
            fitting = to_json_value(read_answer(question.read_widget(), answer))
        except FieldError as fault:
            raise InvalidAnswer(str(fault)) from None
        return self._redactor.checked(fitting)

    def _closing(self, reason: str, who: str) -> "_Closing":
        because, redacted = self._line(reason, MAX_REASON)
        return _Closing(because, self._line(who, MAX_WHO)[0], redacted)

    def _line(self, text: str, max_chars: int) -> tuple[str, bool]:
        """The text on one line, and whether a secret was masked in it."""
        given = sanitize_text(" ".join(text.split()))
        safe = self._redactor.text(given)
        return safe[:max_chars], safe != given


@dataclass(frozen=True, slots=True)
class _Closing:
    """Why a question is closed unanswered, and by which actor. `redacted`: the reason has masks."""

    reason: str
    who: str
    redacted: bool


def read_newest_question(connection: DbConnection, session_id: str, widget: str) -> Question | None:
    rows = connection.query(NEWEST_OF_WIDGET, (session_id, widget))
    return question_of(rows[0]) if rows else None


def _expire(transaction: Transaction, question: Question, closing: _Closing) -> Question:
    _close(transaction, question, QuestionStatus.expired)
    scope = EventScope(question.task, question.intent_id)
    transaction.record(
        AskUserExpired(
            question_id=question.id,
            call_id=question.call_id,
            redacted=closing.redacted,
            who=closing.who,
            reason=closing.reason,
        ),
        scope,
    )
    expired = _read(transaction.connection, question.id)
    if not _has_ended(transaction.connection, question):
        transaction.record(_cancelled(expired, redacted=closing.redacted), scope)
    return expired


def _refuse_another(connection: DbConnection, session_id: str, intent_id: str) -> None:
    if connection.query(HAS_ASKED, (intent_id,)):
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            "this call has already asked a question",
            "Make another call.",
            is_an_answer=True,
        )
    if connection.query(COUNT_OPEN, (session_id,))[0][0] >= MAX_OPEN:
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"this session already has {MAX_OPEN} open questions",
            "Wait for answers, or combine several questions in one form.",
            is_an_answer=True,
        )


def _locked(transaction: Transaction, question_id: str) -> Question:
    """Read the question and lock it: other attempts to close it wait until this transaction has ended."""
    transaction.next_seq()
    question = _read(transaction.connection, question_id)
    _must_be_open(question)
    return question


def _read(connection: DbConnection, question_id: str, statement: str = READ) -> Question:
    rows = connection.query(statement, (question_id,))
    if not rows:
        raise QuestionNotFound(f"there is no question {question_id[:64]}")
    return question_of(rows[0])


def _must_be_open(question: Question) -> None:
    if question.status is not QuestionStatus.open:
        what = (
            "was answered" if question.status is QuestionStatus.answered else "was closed without an answer"
        )
        raise QuestionAlreadyClosed(
            f"question {question.id} {what} by {question.closed_by}; nothing was changed"
        )


def _must_wait_still(connection: DbConnection, question: Question) -> None:
    if _has_ended(connection, question):
        raise QuestionAlreadyClosed(
            f"the call that asked question {question.id} has ended; close the question with: "
            f"interlock questions close {question.id}"
        )


def _has_ended(connection: DbConnection, question: Question) -> bool:
    parameters = (question.session_id, question.asked_seq, question.intent_id)
    return bool(connection.query(HAS_OUTCOME, parameters))


def _close(transaction: Transaction, question: Question, status: QuestionStatus) -> None:
    """Decide that it is closed; its event says the rest."""
    if transaction.connection.change(CLOSE, (status.value, question.id)) != 1:
        raise QuestionAlreadyClosed(f"question {question.id} has been closed already; nothing was changed")


def _completed(question: Question, *, redacted: bool) -> ToolCallCompleted:
    result = ToolResult(stdout=f"{question.result_text}\n")
    return ToolCallCompleted(
        result=result.as_dict(),
        call_id=question.call_id,
        tool_name=question.tool_name,
        mode=question.mode,
        authority_digest=question.authority_digest,
        redacted=redacted,
        latency_ms=question.waited_ms,
        exit_code=0,
        truncated_lines=False,
        truncated_bytes=False,
        output_hash=sha256(question.result_text.encode() + b"\0").hexdigest(),
    )


def _cancelled(question: Question, *, redacted: bool) -> ToolCallFailed:
    code = ErrorCode.CANCELLED
    failure = ToolFailure(
        error_code=code,
        error_class=code.error_class,
        tool_name=question.tool_name,
        mode=question.mode,
        message=f"{question.tool_name}: the question was closed without an answer: {question.close_reason}",
        next_action="Continue without the answer, or ask again if you still need it.",
    )
    return ToolCallFailed(
        result=ToolResult.failed(failure).as_dict(),
        call_id=question.call_id,
        tool_name=question.tool_name,
        mode=question.mode,
        authority_digest=question.authority_digest,
        redacted=redacted,
        requested_name=question.tool_name,
        error=failure.message,
        error_code=code.value,
        error_class=code.error_class.value,
        latency_ms=question.waited_ms,
        next_action=failure.next_action,
    )
