"""The six types of questions, as frozen values. `read_widget` parses one from JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, ClassVar

import orjson

from interlock.questions.fields import (
    MAX_DESCRIPTION,
    MAX_LABEL,
    ChoiceOption,
    FormField,
    read_field,
    read_name,
    read_options,
)
from interlock.questions.object_reader import FieldError, StrictObjectReader, refuse_duplicates

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Widget:
    """The fields of all widgets: the question itself, and a title for where there is room for one."""

    type: ClassVar[WidgetType]
    message: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(_Widget):
    type = WidgetType.form
    fields: tuple[FormField, ...]
    submit_label: str = "Submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(_Widget):
    """`other` is one more choice, in the person's own words."""

    type = WidgetType.selection
    options: tuple[ChoiceOption, ...]
    multiple: bool = False
    min_choices: int = 1
    max_choices: int = 1
    allow_other: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation(_Widget):
    """`dangerous` asks a front end to make an accidental yes hard."""

    type = WidgetType.confirmation
    confirm_label: str = "Yes"
    deny_label: str = "No"
    dangerous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReview(_Widget):
    type = WidgetType.plan_review
    plan: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(_Widget):
    """A rating between two numbers if `rating_max` is set; otherwise only a comment."""

    type = WidgetType.feedback
    rating_min: int | None = None
    rating_max: int | None = None
    comment: CommentPolicy = CommentPolicy.optional


@dataclass(frozen=True, slots=True, kw_only=True)
class WidgetAction:
    id: str
    label: str
    description: str = ""
    style: ActionStyle = ActionStyle.default


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionsQuestion(_Widget):
    type = WidgetType.action_selection
    actions: tuple[WidgetAction, ...]


Widget = Form | Selection | Confirmation | PlanReview | Feedback | ActionsQuestion


def read_widget(arguments: Mapping[str, Any]) -> Widget:
    """A valid question. Raises `FieldError` with the path of the fault."""
    reader = StrictObjectReader(arguments)
    kind = WidgetType(reader.word("type", list(WidgetType)))
    shared = {
        "message": reader.text("message", MAX_MESSAGE),
        "title": reader.text("title", MAX_TITLE, default=""),
    }
    widget = _READERS[kind](reader, shared)
    reader.finish(f"a question of type {kind}")
    size = len(orjson.dumps(document_of(widget)))
    if size > MAX_DOCUMENT_BYTES:
        raise FieldError("", f"the whole question can have at most {MAX_DOCUMENT_BYTES} bytes, not {size}")
    return widget


def document_of(widget: Widget) -> dict[str, Any]:
    """The question as JSON, without unset fields. `read_widget` parses it to the same widget."""
    return {"type": widget.type.value, **_plain(widget)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: _plain(item) for name, item in named if item is not None and item not in ("", ())}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, StrEnum) else value


# -- one parser per type -----------------------------------------------------------------------------


def _form(reader: StrictObjectReader, shared: dict[str, str]) -> Form:
    found = tuple(read_field(item) for item in reader.objects("fields", 1, MAX_FIELDS))
    refuse_duplicates([field.name for field in found], "fields", "name")
    label = reader.text("submit_label", MAX_LABEL, default="Submit")
    return Form(**shared, fields=found, submit_label=label)


def _selection(reader: StrictObjectReader, shared: dict[str, str]) -> Selection:
    options = read_options(reader)
    multiple = reader.flag("multiple", default=False)
    allow_other = reader.flag("allow_other", default=False)
    most = len(options) + (1 if allow_other else 0)
    if not multiple:
        for key in ("min_choices", "max_choices"):
            if reader.has(key) and reader.get(key) != 1:
                raise FieldError(key, "is valid only for a selection with multiple set to true")
    high = reader.integer("max_choices", 1, most, default=most if multiple else 1)
    low = reader.integer("min_choices", 0, high, default=1)
    return Selection(
        **shared,
        options=options,
        multiple=multiple,
        min_choices=low,
        max_choices=high,
        allow_other=allow_other,
    )


def _confirmation(reader: StrictObjectReader, shared: dict[str, str]) -> Confirmation:
    return Confirmation(
        **shared,
        confirm_label=reader.text("confirm_label", MAX_LABEL, default="Yes"),
        deny_label=reader.text("deny_label", MAX_LABEL, default="No"),
        dangerous=reader.flag("dangerous", default=False),
    )


def _plan_review(reader: StrictObjectReader, shared: dict[str, str]) -> PlanReview:
    plan = reader.text("plan", MAX_PLAN)
    return PlanReview(**shared, plan=plan, steps=reader.texts("steps", MAX_STEPS, MAX_STEP))


def _feedback(reader: StrictObjectReader, shared: dict[str, str]) -> Feedback:
    low: int | None = None
    high: int | None = None
    if reader.has("rating_max"):
        high = reader.integer("rating_max", 1, MAX_RATING)
        low = reader.integer("rating_min", 0, high - 1, default=min(1, high - 1))
    elif reader.has("rating_min"):
        raise FieldError("rating_max", "is missing: a rating needs both ends")
    # Without a rating the comment is all there is: an empty answer would say nothing.
    fallback = CommentPolicy.optional if high is not None else CommentPolicy.required
    comment = CommentPolicy(reader.word("comment", list(CommentPolicy), default=fallback))
    if high is None and comment is not CommentPolicy.required:
        raise FieldError("comment", "must be required if there is no rating")
    return Feedback(**shared, rating_min=low, rating_max=high, comment=comment)


def _action_selection(reader: StrictObjectReader, shared: dict[str, str]) -> ActionsQuestion:
    actions = tuple(_action(item) for item in reader.objects("actions", 1, MAX_ACTIONS))
    refuse_duplicates([action.id for action in actions], "actions", "id")
    return ActionsQuestion(**shared, actions=actions)


def _action(reader: StrictObjectReader) -> WidgetAction:
    identity = read_name(reader, "id")
    action = WidgetAction(
        id=identity,
        label=reader.text("label", MAX_LABEL, default=identity),
        description=reader.text("description", MAX_DESCRIPTION, default=""),
        style=ActionStyle(reader.word("style", list(ActionStyle), default=ActionStyle.default)),
    )
    reader.finish("an action")
    return action


_READERS: dict[WidgetType, Callable[[StrictObjectReader, dict[str, str]], Widget]] = {
    WidgetType.form: _form,
    WidgetType.selection: _selection,
    WidgetType.confirmation: _confirmation,
    WidgetType.plan_review: _plan_review,
    WidgetType.feedback: _feedback,
    WidgetType.action_selection: _action_selection,
}
