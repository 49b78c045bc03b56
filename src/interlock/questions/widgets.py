"""The six types of questions. `read_widget` parses one from JSON; `question_schema` is what models see."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

import orjson
from pydantic import Field, TypeAdapter, model_validator

from interlock.questions.fields import (
    LABEL,
    MAY_BE_EMPTY,
    NOT_BLANK,
    NOT_NULL,
    Description,
    FormField,
    Name,
    Options,
)
from interlock.questions.validation import (
    FieldError,
    StrictModel,
    check_between,
    unique,
    validate,
)

MAX_DOCUMENT_BYTES = 32_768
MAX_MESSAGE = 4000
MAX_TITLE = 200
MAX_PLAN = 20_000
MAX_STEP = 500
MAX_FIELDS = 30
MAX_STEPS = 50
MAX_ACTIONS = 10
MAX_RATING = 10


class WidgetType(StrEnum):
    form = "form"
    selection = "selection"
    confirmation = "confirmation"
    plan_review = "plan_review"
    feedback = "feedback"
    action_selection = "action_selection"


class ActionStyle(StrEnum):
    default = "default"
    primary = "primary"
    danger = "danger"


class CommentPolicy(StrEnum):
    """Whether a person may, or must, write a comment."""

    none = "none"
    optional = "optional"
    required = "required"


class _Widget(StrictModel):
    """The fields of all widgets: the question itself, and a title for where there is room for one."""

    type: WidgetType
    message: Annotated[str, Field(max_length=MAX_MESSAGE, description="The question itself."), NOT_BLANK]
    title: Annotated[str, Field(max_length=MAX_TITLE, description="A short heading."), MAY_BE_EMPTY] = ""

    @classmethod
    def keys(cls, given: Mapping[str, Any]) -> tuple[str, Collection[str]]:  # noqa: ARG003
        return f"a question of type {cls.model_fields['type'].default}", cls.model_fields


class Form(_Widget):
    type: Literal[WidgetType.form] = WidgetType.form
    fields: Annotated[
        tuple[FormField, ...],
        Field(strict=False, min_length=1, max_length=MAX_FIELDS),
        unique("name"),
    ] = Field(description="form: the fields to fill in.")
    submit_label: Annotated[str, LABEL, NOT_BLANK] = Field(
        "Submit", description="form: the label of the button. Default: Submit."
    )


class Selection(_Widget):
    """`other` is one more choice, in the person's own words."""

    type: Literal[WidgetType.selection] = WidgetType.selection
    options: Options = Field(description="selection: the options.")
    multiple: bool = Field(default=False, description="selection: allow more than one choice.")
    allow_other: bool = Field(default=False, description="selection: also allow a free-text answer.")
    max_choices: int = Field(
        default_factory=lambda given: (
            len(given["options"]) + given["allow_other"] if given["multiple"] else 1
        ),
        description="selection with multiple. Default: all.",
    )
    min_choices: int = Field(default=1, description="selection with multiple. Default: 1.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for key, count in (("min_choices", self.min_choices), ("max_choices", self.max_choices)):
            if not self.multiple and count != 1:
                raise FieldError(key, "is valid only for a selection with multiple set to true")
        check_between("max_choices", self.max_choices, 1, len(self.options) + self.allow_other)
        check_between("min_choices", self.min_choices, 0, self.max_choices)
        return self


class Confirmation(_Widget):
    """`dangerous` asks a front end to make an accidental yes hard."""

    type: Literal[WidgetType.confirmation] = WidgetType.confirmation
    confirm_label: Annotated[str, LABEL, NOT_BLANK] = Field(
        "Yes", description="confirmation: the label of yes. Default: Yes."
    )
    deny_label: Annotated[str, LABEL, NOT_BLANK] = Field(
        "No", description="confirmation: the label of no. Default: No."
    )
    dangerous: bool = Field(default=False, description="confirmation: yes cannot be undone.")


class PlanReview(_Widget):
    type: Literal[WidgetType.plan_review] = WidgetType.plan_review
    plan: Annotated[str, Field(max_length=MAX_PLAN), NOT_BLANK] = Field(
        description="plan_review: the plan, in Markdown."
    )
    steps: Annotated[
        tuple[Annotated[str, Field(max_length=MAX_STEP), NOT_BLANK], ...],
        Field(strict=False, max_length=MAX_STEPS),
    ] = Field((), description="plan_review: the steps, if a list is clearer.")


class Feedback(_Widget):
    """A rating between two numbers if `rating_max` is set; otherwise only a comment."""

    type: Literal[WidgetType.feedback] = WidgetType.feedback
    rating_max: Annotated[int | None, NOT_NULL] = Field(
        None, description="feedback: the highest rating; without it, there is no rating."
    )
    rating_min: Annotated[int | None, NOT_NULL] = Field(
        default_factory=lambda given: given["rating_max"] and min(1, given["rating_max"] - 1),
        description="feedback: the lowest rating. Default: 1.",
    )
    # Without a rating the comment is all there is: an empty answer would say nothing.
    comment: CommentPolicy = Field(
        strict=False,
        default_factory=lambda given: (
            CommentPolicy.required if given["rating_max"] is None else CommentPolicy.optional
        ),
        description="feedback: whether to ask for a comment. Default: optional beside a rating.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.rating_max is not None:
            check_between("rating_max", self.rating_max, 1, MAX_RATING)
            check_between("rating_min", self.rating_min or 0, 0, self.rating_max - 1)
        elif self.rating_min is not None:
            raise FieldError("rating_max", "is missing: a rating needs both ends")
        elif self.comment is not CommentPolicy.required:
            raise FieldError("comment", "must be required if there is no rating")
        return self


class WidgetAction(StrictModel):
    noun: ClassVar[str] = "an action"

    id: Name = Field(description="Letters, digits, _ and -. The answer contains this id.")
    label: Annotated[str, LABEL, NOT_BLANK] = Field(
        default_factory=lambda given: given["id"],
        description="The label the user sees. Default: the id.",
    )
    description: Description = ""
    style: ActionStyle = Field(ActionStyle.default, strict=False, description="Default: default.")


class ActionsQuestion(_Widget):
    type: Literal[WidgetType.action_selection] = WidgetType.action_selection
    actions: Annotated[
        tuple[WidgetAction, ...],
        Field(strict=False, min_length=1, max_length=MAX_ACTIONS),
        unique("id"),
    ] = Field(description="action_selection: the possible actions.")


Widget = Form | Selection | Confirmation | PlanReview | Feedback | ActionsQuestion
_WIDGET: TypeAdapter[Widget] = TypeAdapter(Annotated[Widget, Field(discriminator="type")])


def read_widget(arguments: Mapping[str, Any]) -> Widget:
    """A valid question. Raises `FieldError` with the path of the fault."""
    widget = validate(_WIDGET, arguments, is_tagged=True)
    size = len(orjson.dumps(document_of(widget)))
    if size > MAX_DOCUMENT_BYTES:
        raise FieldError("", f"the whole question can have at most {MAX_DOCUMENT_BYTES} bytes, not {size}")
    return widget


def document_of(widget: Widget) -> dict[str, Any]:
    """The question as JSON, without unset fields. `read_widget` parses it to the same widget."""
    return widget.document()


# -- the schema for models ---------------------------------------------------------------------------

_TYPE = {
    "type": "string",
    "enum": [kind.value for kind in WidgetType],
    "description": (
        "The type of question. Give only the keys of that type. confirmation: yes or no. "
        "selection: choose among options. form: fill in fields. plan_review: approve, reject "
        "or revise a plan. feedback: a rating, a comment, or both. action_selection: choose "
        "what to do next."
    ),
}
_SHOWN = ("type", "enum", "items", "properties", "required", "additionalProperties", "description")


def question_schema() -> dict[str, Any]:
    """One flat object with the keys of all types: many models take no choice of objects at the top."""
    whole = _WIDGET.json_schema()
    definitions = whole["$defs"]
    properties: dict[str, Any] = {"type": _TYPE}
    for kind in WidgetType:
        reference = whole["discriminator"]["mapping"][kind.value]
        found = _shown(definitions[reference.rpartition("/")[2]], definitions)["properties"]
        properties = properties | found | {"type": _TYPE}
    return {"type": "object", "properties": properties, "required": ["type", "message"]}


def _shown(node: Any, definitions: Mapping[str, Any]) -> Any:
    """A part of the schema without references, bounds and titles: faults are described by `read_widget`."""
    if reference := node.get("$ref"):
        node = definitions[reference.rpartition("/")[2]] | node
    if choice := node.get("anyOf"):
        # A value or null: the key may be missing.
        node = choice[0] | node
    shown = {key: node[key] for key in _SHOWN if key in node}
    if "items" in shown:
        shown["items"] = _shown(shown["items"], definitions)
    if "properties" in shown:
        shown["properties"] = {key: _shown(each, definitions) for key, each in shown["properties"].items()}
        shown.pop("description", None)
    return shown
