"""Building plans: a person approves a plan made in `plan` mode, and has it built.

The session then switches to `coding`, and the plan is the first message of a task there.

Only people can do this. A model can ask, but an approval alone changes no mode without the person's request
to build.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from interlock.config.modes import ToolMode
from interlock.core.errors import UserError
from interlock.log.run_events import PlanBuildStarted
from interlock.log.writer import EventLog, Transaction
from interlock.questions.rows import Question, QuestionStatus
from interlock.questions.service import QuestionService, read_newest_question
from interlock.questions.widgets import PlanReview, WidgetType
from interlock.runtime.bus import Bus, WorkAvailable
from interlock.runtime.task_rows import Task, find_task
from interlock.runtime.tasks import TaskService
from interlock.sessions.manager import SessionManager
from interlock.sessions.mode_switch import ModeSwitch
from interlock.sessions.models import Role, SessionKind


class NoPlan(UserError):
    """There is no plan to build: the question is not a plan, or not of `plan` mode, or not approved."""

    code = "NO_PLAN"


@dataclass(frozen=True, slots=True)
class ApprovedPlanTask:
    question: Question
    task: Task


class PlanService:
    def __init__(
        self,
        questions: QuestionService,
        switch: ModeSwitch,
        tasks: TaskService,
        sessions: SessionManager,
        log: EventLog,
        bus: Bus,
    ) -> None:
        self._questions = questions
        self._switch = switch
        self._tasks = tasks
        self._sessions = sessions
        self._events = log
        self._bus = bus

    def can_build(self, question: Question) -> bool:
        """Whether a person could build it here, now or once it is approved."""
        is_approved = question.answer is None or question.answer.get("decision") == "approve"
        is_plan = question.widget == WidgetType.plan_review and question.mode == ToolMode.plan
        return is_plan and is_approved and self._switch.is_open(ToolMode.coding)

    async def approved(self, session_id: str) -> Question | None:
        """The newest plan of a session, if approved: older ones are superseded."""
        newest = await self._questions.newest(session_id, WidgetType.plan_review)
        return newest if newest is not None and _is_approved(newest) else None

    async def approve(
        self,
        question_id: str,
        answer: Mapping[str, Any],
        *,
        who: str,
        credential_id: str | None = None,
    ) -> ApprovedPlanTask:
        """Answer the question and build the plan, in one transaction."""
        question = await self._questions.get(question_id)
        if answer.get("decision") != "approve":
            raise NoPlan("only an approved plan can be built: answer with decision approve")
        answering = self._questions.answering(question, answer, who=who)
        return await self._build(question, answering, who, credential_id)

    async def build(
        self, question_id: str, *, who: str, credential_id: str | None = None
    ) -> ApprovedPlanTask:
        """Build a plan that was approved before. Repeating it is harmless: it is built once."""
        question = await self._questions.get(question_id)
        if not _is_approved(question):
            raise NoPlan(f"the plan of question {question_id} was not approved")
        return await self._build(question, lambda _transaction: question, who, credential_id)

    async def _build(
        self,
        question: Question,
        answering: Callable[[Transaction], Question],
        who: str,
        credential_id: str | None,
    ) -> ApprovedPlanTask:
        session = await self._sessions.get(question.session_id)
        if question.mode != ToolMode.plan or question.widget != WidgetType.plan_review:
            raise NoPlan(f"question {question.id} is not a plan that was made in plan mode")
        if session.kind == SessionKind.run:
            raise NoPlan(
                "in a workflow run, the workflow decides what follows a plan: answer without building"
            )
        switching = self._switch.switching(session.id, ToolMode.coding, who=who)
        task_id = plan_task_id(question.id)

        def work(transaction: Transaction) -> ApprovedPlanTask:
            transaction.next_seq()
            answered = answering(transaction)
            known = find_task(transaction.connection, task_id, session.id)
            if known is not None:
                return ApprovedPlanTask(answered, known)
            _refuse_older(transaction, answered)
            # Before the message, so that readers of the log see the mode of its task first.
            switching(transaction)
            draft = self._sessions.draft(Role.user, plan_message(answered))
            put = self._tasks.putting(session.id, draft, who, credential_id=credential_id, task_id=task_id)
            task = put(transaction)
            transaction.record(
                PlanBuildStarted(question_id=question.id, task_id=task_id, who=task.who), task.scope
            )
            return ApprovedPlanTask(answered, task)

        built = await self._events.transact(session.id, work)
        self._bus.publish(WorkAvailable(session.id))
        return built


def _refuse_older(transaction: Transaction, question: Question) -> None:
    newest = read_newest_question(transaction.connection, question.session_id, WidgetType.plan_review)
    if newest is not None and newest.id != question.id:
        raise NoPlan(
            f"a newer plan exists (question {newest.id}); only the newest plan of a session can be built"
        )


def plan_task_id(question_id: str) -> str:
    """The task id of a plan: it is built as one task, however often it is requested."""
    return f"t_{sha256(f'build:{question_id}'.encode()).hexdigest()[:16]}"


def _is_approved(question: Question) -> bool:
    is_answered = question.widget == WidgetType.plan_review and question.status is QuestionStatus.answered
    return is_answered and (question.answer or {}).get("decision") == "approve"


def plan_message(question: Question) -> str:
    """The plan as the person approved it, with their comment."""
    widget = question.read_widget()
    if not isinstance(widget, PlanReview):
        raise NoPlan(f"question {question.id} is not a plan")
    parts = ["Build the following approved plan.", widget.plan]
    if widget.steps:
        parts.append("\n".join(f"{number}. {step}" for number, step in enumerate(widget.steps, 1)))
    if comment := (question.answer or {}).get("comment"):
        parts.append(f"Comment by the user: {comment}")
    return "\n\n".join(part for part in parts if part.strip())
