"""Asks the person a question. The call stays open until the question is answered or closed."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from interlock.config.modes import ALL_MODES
from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import replace_hidden_characters
from interlock.questions.fields import FieldType
from interlock.questions.object_reader import FieldError
from interlock.questions.rows import Question
from interlock.questions.service import AskingCall, QuestionService
from interlock.questions.widgets import ActionStyle, CommentPolicy, Widget, WidgetType, read_widget
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
        return _SCHEMA

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


# -- the schema for the model ------------------------------------------------------------------------


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _words(
    words: type[WidgetType | FieldType | ActionStyle | CommentPolicy], description: str
) -> dict[str, Any]:
    return {"type": "string", "enum": [word.value for word in words], "description": description}


def _objects(description: str, required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    item = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"type": "array", "items": item, "description": description}


_OPTION = {
    "value": _text("The value in the answer."),
    "label": _text("The label the user sees. Default: the value."),
    "description": _text("One more sentence."),
}

_FIELD = {
    "name": _text("Letters, digits, _ and -. The key of the value in the answer."),
    "label": _text("The label the user sees. Default: the name."),
    "type": _words(FieldType, "Default: text."),
    "description": _text("One more sentence."),
    "required": {"type": "boolean", "description": "Default: false."},
    "default": {
        "type": ["string", "number", "boolean", "array"],
        "items": {"type": "string"},
        "description": "The initial value, of the field's own type. A date is YYYY-MM-DD.",
    },
    "options": _objects("For select and multi_select.", ["value"], _OPTION),
    "min": {"type": "number", "description": "For number and integer."},
    "max": {"type": "number", "description": "For number and integer."},
    "max_length": {"type": "integer", "description": ("For text and multiline: the number of characters.")},
}

_ACTION = {
    "id": _text("Letters, digits, _ and -. The answer contains this id."),
    "label": _text("The label the user sees. Default: the id."),
    "description": _text("One more sentence."),
    "style": _words(ActionStyle, "Default: default."),
}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": _words(
            WidgetType,
            "The type of question. Give only the keys of that type. confirmation: yes or no. "
            "selection: choose among options. form: fill in fields. plan_review: approve, reject "
            "or revise a plan. feedback: a rating, a comment, or both. action_selection: choose "
            "what to do next.",
        ),
        "message": _text("The question itself."),
        "title": _text("A short heading."),
        "fields": _objects("form: the fields to fill in.", ["name"], _FIELD),
        "submit_label": _text("form: the label of the button. Default: Submit."),
        "options": _objects("selection: the options.", ["value"], _OPTION),
        "multiple": {"type": "boolean", "description": "selection: allow more than one choice."},
        "min_choices": {"type": "integer", "description": "selection with multiple. Default: 1."},
        "max_choices": {"type": "integer", "description": "selection with multiple. Default: all."},
        "allow_other": {"type": "boolean", "description": ("selection: also allow a free-text answer.")},
        "confirm_label": _text("confirmation: the label of yes. Default: Yes."),
        "deny_label": _text("confirmation: the label of no. Default: No."),
        "dangerous": {"type": "boolean", "description": "confirmation: yes cannot be undone."},
        "plan": _text("plan_review: the plan, in Markdown."),
        "steps": {
            "type": "array",
            "items": {"type": "string"},
            "description": "plan_review: the steps, if a list is clearer.",
        },
        "rating_min": {"type": "integer", "description": "feedback: the lowest rating. Default: 1."},
        "rating_max": {
            "type": "integer",
            "description": "feedback: the highest rating; without it, there is no rating.",
        },
        "comment": _words(
            CommentPolicy, "feedback: whether to ask for a comment. Default: optional beside a rating."
        ),
        "actions": _objects("action_selection: the possible actions.", ["id"], _ACTION),
    },
    "required": ["type", "message"],
}
