"""Puts a question to a person line by line, and makes their words the answer that it takes."""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from interlock.questions.fields import Field, FieldType
from interlock.questions.widgets import (
    ActionSelection,
    Comment,
    Confirmation,
    Feedback,
    Form,
    PlanReview,
    Selection,
    Widget,
)
from interlock.questions.words import NO, YES, typed

# Gives the line a person typed after a prompt; raises EOFError when there is nobody (any more).
Ask = Callable[[str], str]

_DECISIONS = {"a": "approve", "r": "reject", "v": "revise"}


def ask_person(widget: Widget, ask: Ask) -> Mapping[str, Any]:
    """The answer in the form that the question's desk takes. It is judged there."""
    match widget:
        case Form():
            return {"values": {field.name: _field(field, ask) for field in widget.fields}}
        case Selection():
            return _selection(widget, ask)
        case Confirmation():
            return {"confirmed": _confirmed(widget, ask)}
        case PlanReview():
            return _review(ask)
        case Feedback():
            return _feedback(widget, ask)
        case ActionSelection():
            options = [(action.id, action.label) for action in widget.actions]
            return {"action": _one_of(options, ask), **_comment(ask, Comment.optional)}
        case _:
            assert_never(widget)


def _confirmed(widget: Confirmation, ask: Ask) -> bool:
    """A dangerous yes is written out."""
    prompt = f"[{widget.confirm_label}: {'yes' if widget.dangerous else 'y'}, {widget.deny_label}: n] "
    while True:
        said = ask(prompt).strip().lower()
        if said in NO:
            return False
        if said in YES and (not widget.dangerous or said != "y"):
            return True


def _review(ask: Ask) -> dict[str, Any]:
    while True:
        said = ask("[a approve, r reject, v revise] ").strip().lower()
        decision = _DECISIONS.get(said[:1]) if said else None
        if decision:
            needed = Comment.required if decision == "revise" else Comment.optional
            return {"decision": decision, **_comment(ask, needed)}


def _feedback(widget: Feedback, ask: Ask) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    if widget.rating_max is not None:
        low, high = widget.rating_min or 1, widget.rating_max
        while "rating" not in answer:
            said = ask(f"[{low} to {high}] ").strip()
            if said.isdecimal() and low <= int(said) <= high:
                answer["rating"] = int(said)
    return answer | _comment(ask, widget.comment)


def _comment(ask: Ask, wanted: Comment) -> dict[str, str]:
    if wanted is Comment.none:
        return {}
    prompt = "a comment: " if wanted is Comment.required else "a comment, or nothing: "
    said = ask(prompt).strip()
    while not said and wanted is Comment.required:
        said = ask(prompt).strip()
    return {"comment": said} if said else {}


def _selection(widget: Selection, ask: Ask) -> dict[str, Any]:
    options = [(option.value, option.label) for option in widget.options]
    several = ", several with commas" if widget.multiple else ""
    other = ", or your own words" if widget.allow_other else ""
    while True:
        said = ask(f"[1 to {len(options)}{several}{other}] ").strip()
        words = [word.strip() for word in said.split(",")] if widget.multiple else [said]
        chosen = [_numbered(options, word) for word in words if word]
        if chosen and None not in chosen:
            return {"choices": chosen}
        if widget.allow_other and said:
            return {"choices": [], "other": said}


def _one_of(options: list[tuple[str, str]], ask: Ask) -> str:
    while True:
        if (chosen := _numbered(options, ask(f"[1 to {len(options)}] ").strip())) is not None:
            return chosen


def _numbered(options: list[tuple[str, str]], said: str) -> str | None:
    """By its number, its value or its label."""
    if said.isdecimal() and 1 <= int(said) <= len(options):
        return options[int(said) - 1][0]
    return next((value for value, label in options if said in (value, label)), None)


def _field(field: Field, ask: Ask) -> Any:
    options = [(option.value, option.label) for option in field.options]
    hint = f" ({', '.join(value for value, _ in options)})" if options else ""
    said = ask(f"{field.label}{hint}{'' if field.required else ', or nothing'}: ").strip()
    match field.type:
        case FieldType.select:
            return _numbered(options, said) or said or None
        case FieldType.multi_select:
            words = [word.strip() for word in said.split(",")]
            return [_numbered(options, word) or word for word in words if word] or None
        case kind:
            return typed(kind.value, said)
