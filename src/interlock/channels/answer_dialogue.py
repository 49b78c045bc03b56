"""Prompts for the answer to a question line by line, and parses the replies."""

import re
from collections.abc import Callable, Mapping
from typing import Any, assert_never

from interlock.questions.fields import NO, YES, FieldType, FormField, check_value, parse_typed
from interlock.questions.rendering import shown
from interlock.questions.validation import FieldError
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

# Returns the line a person typed after a prompt; raises EOFError at the end of the input.
AskLine = Callable[[str], str]

# Only these words: "abort" must not approve, and "revise" not reject.
_DECISIONS = {
    **dict.fromkeys(("a", "approve", "批准", "同意"), "approve"),
    **dict.fromkeys(("r", "reject", "拒绝"), "reject"),
    **dict.fromkeys(("v", "revise", "修改"), "revise"),
}
_MAX_DIGITS = 9
_COMMA = re.compile("[,\uff0c\u3001]")


def prompt_for_answer(widget: Widget, ask: AskLine) -> Mapping[str, Any]:
    """The answer in the form that `QuestionService` takes, which validates it."""
    match widget:
        case Form():
            return {"values": _values(widget, ask)}
        case Selection():
            return _selection(widget, ask)
        case Confirmation():
            return {"confirmed": _confirmed(widget, ask)}
        case PlanReview():
            return _review(ask)
        case Feedback():
            return _feedback(widget, ask)
        case ActionsQuestion():
            options = [(action.id, action.label) for action in widget.actions]
            return {"action": _one_of(options, ask), **_comment(ask, CommentPolicy.optional)}
        case _:
            assert_never(widget)


def _confirmed(widget: Confirmation, ask: AskLine) -> bool:
    """A dangerous confirmation must be typed in full."""
    yes = "type yes" if widget.dangerous else "y"
    prompt, reason = f"[{widget.confirm_label}: {yes}, {widget.deny_label}: n] ", ""
    while True:
        said = ask(f"{reason}{prompt}").strip().lower()
        if said in NO:
            return False
        if said in YES and (not widget.dangerous or said != "y"):
            return True
        reason = "type the full word: yes\n" if said in YES else _none_of_them(said)


def _review(ask: AskLine) -> dict[str, Any]:
    reason = ""
    while True:
        said = ask(f"{reason}[a approve, r reject, v revise] ").strip().lower()
        if decision := _DECISIONS.get(said):
            needed = CommentPolicy.required if decision == "revise" else CommentPolicy.optional
            return {"decision": decision, **_comment(ask, needed)}
        reason = _none_of_them(said)


def _feedback(widget: Feedback, ask: AskLine) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    if widget.rating_max is not None:
        low, high, reason = widget.rating_min or 0, widget.rating_max, ""
        while "rating" not in answer:
            said = ask(f"{reason}[{low} to {high}] ").strip()
            if (rating := _whole_number(said)) is not None and low <= rating <= high:
                answer["rating"] = rating
            reason = _none_of_them(said)
    return answer | _comment(ask, widget.comment)


def _comment(ask: AskLine, wanted: CommentPolicy) -> dict[str, str]:
    if wanted is CommentPolicy.none:
        return {}
    prompt = "Comment: " if wanted is CommentPolicy.required else "Comment (optional): "
    said = ask(prompt).strip()
    while not said and wanted is CommentPolicy.required:
        said = ask(prompt).strip()
    return {"comment": said} if said else {}


def _selection(widget: Selection, ask: AskLine) -> dict[str, Any]:
    options = [(option.value, option.label) for option in widget.options]
    several = ", separate several with commas" if widget.multiple else ""
    other = ", or your own text" if widget.allow_other else ""
    nothing = "" if widget.min_choices else ", or Enter to skip"
    reason = ""
    while True:
        said = ask(f"{reason}[1 to {len(options)}{several}{other}{nothing}] ").strip()
        words = _split_choices(options, said) if widget.multiple else [said]
        found = {word: _numbered(options, word) for word in words if word}
        chosen = list(dict.fromkeys(value for value in found.values() if value is not None))
        own = ", ".join(word for word, value in found.items() if value is None)
        if own and widget.allow_other:
            return {"choices": chosen, "other": own}
        if (chosen and not own) or (not said and not widget.min_choices):
            return {"choices": chosen}
        reason = _none_of_them(own)


def _one_of(options: list[tuple[str, str]], ask: AskLine) -> str:
    reason = ""
    while True:
        said = ask(f"{reason}[1 to {len(options)}] ").strip()
        if (chosen := _numbered(options, said)) is not None:
            return chosen
        reason = _none_of_them(said)


def _none_of_them(said: str) -> str:
    """Why the prompt is repeated; empty if the person only pressed Enter."""
    return f"{said} is not one of the options\n" if said else ""


def _numbered(options: list[tuple[str, str]], said: str) -> str | None:
    """The option by its number, value or label."""
    if (number := _whole_number(said)) is not None and 1 <= number <= len(options):
        return options[number - 1][0]
    return next((value for value, label in options if said in (value, label)), None)


def _split_choices(options: list[tuple[str, str]], said: str) -> list[str]:
    """Choices separated by commas; an option may itself contain one."""
    is_one = _numbered(options, said) is not None
    return [said] if is_one else [word.strip() for word in _COMMA.split(said)]


def _whole_number(said: str) -> int | None:
    """Python refuses to read a number of thousands of digits."""
    return int(said) if said.isdecimal() and len(said) <= _MAX_DIGITS else None


def _values(form: Form, ask: AskLine) -> dict[str, Any]:
    """Empty fields are omitted: they get their default, if any."""
    said = {field.name: _field(field, ask) for field in form.fields}
    return {name: value for name, value in said.items() if value is not None}


def _field(field: FormField, ask: AskLine) -> Any:
    """Prompt for a field again, with the reason, until it is valid: a form is filled in once."""
    prompt = field_prompt(field)
    reason = ""
    while True:
        try:
            return parse_field_value(field, ask(f"{reason}{prompt}"))
        except FieldError as fault:
            reason = f"{fault}\n"


def parse_field_value(field: FormField, said: str) -> Any:
    """Parse a reply: None if empty; raises `FieldError` if it is not valid."""
    value = _field_value(field, said.strip())
    if value is None:
        if field.required and field.default is None:
            raise FieldError(field.label, "is required")
        return None
    check_value(field, value, field.label)
    return value


def field_prompt(field: FormField) -> str:
    hint = f" ({', '.join(option.value for option in field.options)})" if field.options else ""
    if field.default is not None:
        return f"{field.label}{hint} [{shown(field.default)}]: "
    return f"{field.label}{hint}{'' if field.required else ' (optional)'}: "


def _field_value(field: FormField, said: str) -> Any:
    options = [(option.value, option.label) for option in field.options]
    match field.type:
        case FieldType.select:
            return _numbered(options, said) or said or None
        case FieldType.multi_select:
            words = _split_choices(options, said)
            return [_numbered(options, word) or word for word in words if word] or None
        case kind:
            return parse_typed(kind, said)
