"""Validates answers. A valid answer is normalised, so that equal answers are equal."""

from collections.abc import Mapping
from typing import Any, assert_never

import orjson

from interlock.questions.fields import FormField, check_choices, check_value
from interlock.questions.object_reader import FieldError, StrictObjectReader, checked_text
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
DECISIONS = ("approve", "reject", "revise")

Answer = dict[str, Any]


def read_answer(widget: Widget, given: Mapping[str, Any]) -> Answer:
    """The answer as it will be stored. Raises `FieldError` with the path of the fault."""
    reader = StrictObjectReader(given)
    answer = _read(widget, reader)
    reader.finish(f"an answer to a {widget.type}")
    size = len(orjson.dumps(answer))
    if size > MAX_ANSWER_BYTES:
        raise FieldError("", f"the whole answer can have at most {MAX_ANSWER_BYTES} bytes, not {size}")
    return answer


def _read(widget: Widget, reader: StrictObjectReader) -> Answer:
    match widget:
        case Form():
            return {"values": _values(widget, StrictObjectReader(reader.get("values"), "values"))}
        case Selection():
            return _selection(widget, reader)
        case Confirmation():
            return {"confirmed": reader.flag("confirmed")}
        case PlanReview():
            decision = reader.word("decision", DECISIONS)
            needed = CommentPolicy.required if decision == "revise" else CommentPolicy.optional
            return {"decision": decision, **_comment(reader, needed)}
        case Feedback():
            return _feedback(widget, reader)
        case ActionsQuestion():
            action = reader.word("action", [action.id for action in widget.actions])
            return {"action": action, **_comment(reader, CommentPolicy.optional)}
        case _:
            assert_never(widget)


def _values(form: Form, reader: StrictObjectReader) -> Answer:
    """A value for every field, null where it was left empty. Only an omitted field gets its default."""
    values = {}
    for field in form.fields:
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        given = reader.get(field.name) if reader.has(field.name) else default
        values[field.name] = _value(field, given, reader.at(field.name))
    reader.finish("the form")
    return values


def _value(field: FormField, given: Any, path: str) -> Any:
    if given in (None, "", []):
        if field.required:
            raise FieldError(path, "is required")
        return None
    return check_value(field, given, path)


def _selection(widget: Selection, reader: StrictObjectReader) -> Answer:
    chosen = check_choices(
        widget.options, reader.get("choices") if reader.has("choices") else [], "choices"
    )
    answer: Answer = {"choices": chosen}
    other = reader.get("other") if widget.allow_other else None
    if other not in (None, ""):
        answer["other"] = checked_text(other, "other", MAX_OTHER)
    count = len(chosen) + ("other" in answer)
    low, high = widget.min_choices, widget.max_choices
    if not low <= count <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise FieldError("choices", f"{wanted} must be chosen, not {count}")
    return answer


def _feedback(widget: Feedback, reader: StrictObjectReader) -> Answer:
    answer: Answer = {}
    if widget.rating_min is not None and widget.rating_max is not None:
        answer["rating"] = reader.integer("rating", widget.rating_min, widget.rating_max)
    return answer | _comment(reader, widget.comment)


def _comment(reader: StrictObjectReader, wanted: CommentPolicy) -> Answer:
    if wanted is CommentPolicy.none:
        return {}
    text = reader.get("comment")
    if text is None or (isinstance(text, str) and not text.strip()):
        if wanted is CommentPolicy.required:
            raise FieldError("comment", "is required: answer in words")
        return {}
    return {"comment": checked_text(text, "comment", MAX_COMMENT)}
