"""Validates answers. A valid answer is normalised, so that equal answers are equal."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, assert_never

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, create_model

from interlock.questions.fields import NOT_BLANK, check_value, choice_of, choices_of
from interlock.questions.validation import (
    FieldError,
    StrictModel,
    check_between,
    refuse_unknown_keys,
    validate,
)
from interlock.questions.widgets import (
    ActionsQuestion,
    CommentPolicy,
    Confirmation,
    Feedback,
    Form,
    PlanReview,
    Selection,
    Widget,
)

MAX_ANSWER_BYTES = 16_384
MAX_COMMENT = 4000
MAX_OTHER = 500

Answer = dict[str, Any]

# A blank one counts as none.
_COMMENT = Annotated[
    Annotated[str, Field(max_length=MAX_COMMENT)] | None,
    BeforeValidator(lambda given: None if isinstance(given, str) and not given.strip() else given),
]
_OTHER = Annotated[
    Annotated[str, Field(max_length=MAX_OTHER), NOT_BLANK] | None,
    BeforeValidator(lambda given: None if given == "" else given),
]


def read_answer(widget: Widget, given: Mapping[str, Any]) -> Answer:
    """The answer as it will be stored. Raises `FieldError` with the path of the fault."""
    model = create_model("Answer", __base__=StrictModel, **_keys(widget))
    model.noun = f"an answer to a {widget.type}"
    answer = {name: value for name, value in validate(TypeAdapter(model), given) if value is not None}
    _must_suffice(widget, answer)
    size = len(orjson.dumps(answer))
    if size > MAX_ANSWER_BYTES:
        raise FieldError("", f"the whole answer can have at most {MAX_ANSWER_BYTES} bytes, not {size}")
    return answer


def _keys(widget: Widget) -> dict[str, Any]:
    """The keys of an answer: the type of each and its default, `...` if there must be one."""
    match widget:
        case Form():
            return {"values": (Annotated[Answer, AfterValidator(partial(_values, widget))], ...)}
        case Selection():
            choices = choices_of(tuple(option.value for option in widget.options))
            return {"choices": (choices, []), **({"other": (_OTHER, None)} if widget.allow_other else {})}
        case Confirmation():
            return {"confirmed": (bool, ...)}
        case PlanReview():
            return {"decision": (Literal["approve", "reject", "revise"], ...), "comment": (_COMMENT, None)}
        case Feedback():
            rating = {} if widget.rating_max is None else {"rating": (int, ...)}
            has_comment = widget.comment is not CommentPolicy.none
            return rating | ({"comment": (_COMMENT, None)} if has_comment else {})
        case ActionsQuestion():
            actions = tuple(action.id for action in widget.actions)
            return {"action": (choice_of(actions), ...), "comment": (_COMMENT, None)}
        case _:
            assert_never(widget)


def _values(form: Form, given: Answer) -> Answer:
    """A value for every field, null where it was left empty. Only an omitted field gets its default."""
    refuse_unknown_keys("the form", given, [field.name for field in form.fields])
    values: Answer = {}
    for field in form.fields:
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        value = given.get(field.name, default)
        is_empty = value in (None, "", [])
        if is_empty and field.required:
            raise FieldError(field.name, "is required")
        values[field.name] = None if is_empty else check_value(field, value, field.name)
    return values


def _must_suffice(widget: Widget, answer: Answer) -> None:
    """What follows from more than one key."""
    needs_comment = answer.get("decision") == "revise"
    if isinstance(widget, Feedback):
        needs_comment = widget.comment is CommentPolicy.required
        if widget.rating_max is not None:
            check_between("rating", answer["rating"], widget.rating_min or 0, widget.rating_max)
    if isinstance(widget, Selection):
        count, low, high = (
            len(answer["choices"]) + ("other" in answer),
            widget.min_choices,
            widget.max_choices,
        )
        if not low <= count <= high:
            wanted = f"{low}" if low == high else f"{low} to {high}"
            raise FieldError("choices", f"{wanted} must be chosen, not {count}")
    if needs_comment and "comment" not in answer:
        raise FieldError("comment", "is required: answer in words")
