"""Asks the person a question. The call stays open until the question is answered or closed."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from interlock.config.modes import ALL_MODES
from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import replace_hidden_characters
from interlock.questions.rows import Question
from interlock.questions.service import AskingCall, QuestionService
from interlock.questions.validation import FieldError
from interlock.questions.widgets import Widget, question_schema, read_widget
from interlock.redaction.redactor import MARK
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, Effect, ToolContext, ToolGroup


class AskUserTool(BaseTool):
    """Without a `QuestionService` it can be listed, as `interlock doctor` does, but not called."""

    name = "ask_user"
    aliases = ("ui.ask_user",)
    description = (
        "Ask the user: a form, a selection, a confirmation, a plan review, feedback, or a "
        "choice of actions. The answer is the result of this call."
    )
    group = ToolGroup.ui
    allowed_modes = ALL_MODES
    effect = Effect.ask
    needs = frozenset({"person"})

    def __init__(self, questions: QuestionService | None) -> None:
        self._questions = questions

    @property
    def parameters(self) -> Mapping[str, Any]:
        return question_schema()

    async def prepare(self, arguments: Mapping[str, Any], context: ToolContext) -> Widget:  # noqa: ARG002
        try:
            widget = read_widget(arguments)
            _refuse_hidden(arguments)
        except FieldError as fault:
            raise ToolError(
                ErrorCode.INVALID_ARGS, str(fault), "Correct the question and ask it again."
            ) from None
        try:
            self._place().without_secrets(widget)
        except FieldError as fault:
            raise ToolError(
                ErrorCode.REDACTED_CONTENT,
                f"the question contains a secret and cannot be asked without it ({fault})",
                "Ask without the secret.",
                redacted=MARK in str(fault),
            ) from None
        return widget

    async def execute(self, prepared: Widget, context: ToolContext) -> ToolResult:
        call = AskingCall(
            session_id=context.session_id,
            call_id=context.call_id,
            tool_name=self.name,
            mode=context.mode.value,
            authority_digest=context.authority_digest,
            scope=context.scope,
            lease_token=context.lease_token,
        )
        context.cancel.begin_effect()
        question = await _put(self._place(), prepared, call)
        return ToolResult(
            question_id=question.id,
            stdout=f"The question was sent to the user as {question.id}; the answer is still open.",
            meta={"question_id": question.id, "type": question.widget},
        )

    def _place(self) -> QuestionService:
        if self._questions is None:
            raise RuntimeError("there is no question service here")
        return self._questions


def _refuse_hidden(value: object, path: str = "") -> None:
    """Refuse invisible characters: the person answers what they see, and a plan is built as written."""
    if isinstance(value, str) and replace_hidden_characters(value) != value:
        raise FieldError(path, "contains invisible characters; remove them")
    members: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        members = ((f".{key}" if path else key, item) for key, item in value.items())
    elif isinstance(value, list):
        members = ((f"[{place}]", item) for place, item in enumerate(value))
    for step, item in members:
        _refuse_hidden(item, f"{path}{step}")


async def _put(questions: QuestionService, widget: Widget, call: AskingCall) -> Question:
    """Store the question to the end, even if cancelled: its state must not be unknown."""
    putting = asyncio.ensure_future(questions.ask(widget, call))
    try:
        return await asyncio.shield(putting)
    except asyncio.CancelledError:
        await asyncio.wait({putting})
        if putting.exception() is None:
            return putting.result()
        raise
