"""Questions and answers in plain text, for a terminal or a log."""

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from interlock.questions.fields import FieldType, FormField
from interlock.questions.widgets import (
    ActionsQuestion,
    ActionStyle,
    Confirmation,
    Feedback,
    Form,
    PlanReview,
    Selection,
    Widget,
    WidgetAction,
)

_DECISIONS = {"approve": "Approved", "reject": "Rejected", "revise": "Revision requested"}


def question_text(widget: Widget) -> str:
    """The question and its possible answers, in a few lines."""
    heading = [widget.title] if widget.title else []
    return "\n".join([*heading, widget.message, *_offered(widget)])


def answer_text(widget: Widget, answer: Mapping[str, Any]) -> str:
    """The answer, in the question's own words."""
    return "\n".join(_answered(widget, answer))


def _offered(widget: Widget) -> Iterator[str]:
    match widget:
        case Form():
            yield from (_field_line(field) for field in widget.fields)
        case Selection():
            yield from _option_lines(widget)
        case Confirmation():
            yield f"  {widget.confirm_label} / {widget.deny_label}"
            if widget.dangerous:
                yield "  (dangerous)"
        case PlanReview():
            yield from ("", widget.plan, "")
            yield from (f"  {number}. {step}" for number, step in enumerate(widget.steps, 1))
            yield "  approve / reject / revise"
        case Feedback():
            if widget.rating_max is not None:
                yield f"  a rating from {widget.rating_min} to {widget.rating_max}"
            yield f"  comment: {widget.comment}"
        case ActionsQuestion():
            for number, action in enumerate(widget.actions, 1):
                yield _action_line(number, action)
        case _:
            assert_never(widget)


def _field_line(field: FormField) -> str:
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("at least", field.min), ("at most", field.max))
        if bound is not None
    ]
    details = [field.type.value, *(["required"] if field.required else []), *bounds]
    if field.options:
        details.append("one of " + ", ".join(option.value for option in field.options))
    if field.default is not None:
        details.append(f"default {shown(field.default)}")
    return f"  - {_named(field.name, field.label)}: {'; '.join(details)}{_after(field.description)}"


def _option_lines(widget: Selection) -> Iterator[str]:
    for number, option in enumerate(widget.options, 1):
        yield f"  {number}. {_named(option.value, option.label)}{_after(option.description)}"
    if widget.allow_other:
        yield "  - or another answer in your own words"
    if widget.multiple:
        yield f"  (choose {widget.min_choices} to {widget.max_choices})"


def _action_line(number: int, action: WidgetAction) -> str:
    mark = " (dangerous)" if action.style is ActionStyle.danger else ""
    return f"  {number}. {_named(action.id, action.label)}{mark}{_after(action.description)}"


def _answered(widget: Widget, answer: Mapping[str, Any]) -> Iterator[str]:
    match widget:
        case Form():
            values = answer.get("values", {})
            yield from (f"{field.label}: {_field_value(field, values)}" for field in widget.fields)
        case Selection():
            labels = {option.value: option.label for option in widget.options}
            chosen = [labels.get(value, value) for value in answer.get("choices", ())]
            other = [answer["other"]] if answer.get("other") else []
            yield ", ".join([*chosen, *other]) or "(nothing chosen)"
        case Confirmation():
            yield widget.confirm_label if answer.get("confirmed") else widget.deny_label
        case PlanReview():
            yield _DECISIONS.get(str(answer.get("decision")), "")
        case Feedback():
            if widget.rating_max is not None:
                yield f"{answer.get('rating')} of {widget.rating_max}"
        case ActionsQuestion():
            labels = {action.id: action.label for action in widget.actions}
            yield labels.get(str(answer.get("action")), "")
        case _:
            assert_never(widget)
    if answer.get("comment"):
        yield str(answer["comment"])


def _field_value(field: FormField, values: Mapping[str, Any]) -> str:
    value = values.get(field.name)
    if value is None:
        return "(empty)"
    labels = {option.value: option.label for option in field.options}
    if field.type is FieldType.multi_select:
        return ", ".join(labels.get(item, item) for item in value)
    return labels.get(value, value) if field.type is FieldType.select else shown(value)


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(str(item) for item in value)
    return str(value)


def _named(value: str, label: str) -> str:
    return value if value == label else f"{value}: {label}"


def _after(description: str) -> str:
    return f" ({description})" if description else ""
