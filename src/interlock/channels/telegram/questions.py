"""Questions as buttons and replies: what is shown, and how a press or reply changes the answer.

The progress is a small state, stored after each step: what was chosen and filled in, and which part is
asked now. `QuestionService` validates the answer, as any other.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from interlock.channels.answer_dialogue import field_prompt, parse_field_value
from interlock.channels.telegram.outgoing_content import ButtonRows, MessageButton
from interlock.core.text import escape_control_characters
from interlock.questions.fields import ChoiceOption, FieldType, FormField
from interlock.questions.validation import FieldError
from interlock.questions.widgets import (
    ActionsQuestion,
    ActionStyle,
    CommentPolicy,
    Confirmation,
    Feedback,
    Form,
    PlanReview,
    Selection,
    Widget,
)

AnswerState = dict[str, Any]

MAX_LABEL = 60
RATINGS_IN_ROW = 6
# A reply that means "empty": Telegram sends no empty message.
SKIP_REPLY = "-"
# In a plan, show the address: it is built as written.
_LINK = re.compile(r"\[([^\[\]\n]{1,400})\]\(([^\s()]+)\)")


@dataclass(frozen=True, slots=True)
class CompleteAnswer:
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerInProgress:
    state: AnswerState


@dataclass(frozen=True, slots=True)
class QuestionPrompt:
    """A part of a question, asked in a separate message. `number` distinguishes it from earlier ones."""

    number: int
    text: str
    buttons: ButtonRows = ()


AnswerStep = CompleteAnswer | AnswerInProgress


# -- display -----------------------------------------------------------------------------------------


def question_markdown(widget: Widget) -> str:
    heading = [f"**{widget.title}**"] if widget.title else []
    return "\n".join([*heading, widget.message, *_more(widget)])


def _more(widget: Widget) -> list[str]:
    match widget:
        case Selection():
            lines = _described([(option.label, option.description) for option in widget.options])
            if widget.multiple:
                lines.append(f"(choose {widget.min_choices} to {widget.max_choices}, then Done)")
            if widget.allow_other:
                lines.append("Or reply to this message with your own text.")
            return lines
        case ActionsQuestion():
            return _described([(action.label, action.description) for action in widget.actions])
        case Confirmation():
            return ["⚠ This action is dangerous."] if widget.dangerous else []
        case PlanReview():
            steps = [f"{number}. {step}" for number, step in enumerate(widget.steps, 1)]
            return [
                "",
                _LINK.sub(r"\1 (\2)", widget.plan),
                "",
                *steps,
                "Or reply to this message with the changes you want.",
            ]
        case Form() | Feedback():
            return []
        case _:
            assert_never(widget)


def _described(named: list[tuple[str, str]]) -> list[str]:
    return [f"• {label}: {description}" for label, description in named if description]


def question_buttons(widget: Widget, question_id: str, state: AnswerState) -> ButtonRows:
    if state.get("prompt"):
        # The question continues in a separate message.
        return ()
    match widget:
        case Selection():
            return _selection_buttons(widget, question_id, state)
        case ActionsQuestion():
            labels = [
                f"{'⚠ ' * (action.style is ActionStyle.danger)}{action.label}" for action in widget.actions
            ]
            return tuple(
                (_button(label, question_id, f"o{number}"),) for number, label in enumerate(labels)
            )
        case Confirmation():
            yes = _button(widget.confirm_label, question_id, "y")
            if widget.dangerous and state.get("armed"):
                yes = _button(f"Confirm: {widget.confirm_label}", question_id, "Y")
            return ((yes, _button(widget.deny_label, question_id, "n")),)
        case PlanReview():
            words = {"a": "Approve", "r": "Reject", "v": "Revise"}
            return (tuple(_button(word, question_id, sign) for sign, word in words.items()),)
        case Feedback():
            return _ratings(widget, question_id)
        case Form():
            return ()
        case _:
            assert_never(widget)


def _selection_buttons(widget: Selection, question_id: str, state: AnswerState) -> ButtonRows:
    rows = _options(widget.options, question_id, "o", state.get("chosen", []), several=widget.multiple)
    if widget.multiple:
        rows += ((_button("Done", question_id, "d"),),)
    elif not widget.min_choices:
        rows += ((_button("None of these", question_id, "d"),),)
    return rows


def _options(
    options: tuple[ChoiceOption, ...], question_id: str, sign: str, chosen: list[int], *, several: bool
) -> ButtonRows:
    marks = ["☑ " if number in chosen else "☐ " for number in range(len(options))]
    return tuple(
        (_button(f"{marks[number] if several else ''}{option.label}", question_id, f"{sign}{number}"),)
        for number, option in enumerate(options)
    )


def _ratings(widget: Feedback, question_id: str) -> ButtonRows:
    if widget.rating_max is None:
        return ()
    grades = range(widget.rating_min or 0, widget.rating_max + 1)
    buttons = [_button(str(grade), question_id, f"g{grade}") for grade in grades]
    return tuple(
        tuple(buttons[begin : begin + RATINGS_IN_ROW]) for begin in range(0, len(buttons), RATINGS_IN_ROW)
    )


def _button(label: str, question_id: str, action: str) -> MessageButton:
    line = escape_control_characters(" ".join(label.split())) or "…"
    return MessageButton(
        line if len(line) <= MAX_LABEL else f"{line[: MAX_LABEL - 1]}…", f"{question_id}:{action}"
    )


def current_prompt(widget: Widget, question_id: str, state: AnswerState) -> QuestionPrompt | None:
    """The part that is asked in a separate message now, if any."""
    number = int(state.get("prompt", 0))
    reason = f"{state['reason']}\n" if state.get("reason") else ""
    if isinstance(widget, Form):
        at = int(state.get("at", 0))
        return None if at >= len(widget.fields) else _field_prompt(widget, at, question_id, state, reason)
    if not number and not (isinstance(widget, Feedback) and widget.rating_max is None):
        return None
    if isinstance(widget, PlanReview):
        return QuestionPrompt(number, f"{reason}What should change? Reply to this message.")
    optional = isinstance(widget, Feedback) and widget.comment is CommentPolicy.optional
    nothing = f" ({SKIP_REPLY} for none)" if optional else ""
    return QuestionPrompt(number, f"{reason}Your comment? Reply to this message{nothing}.")


def _field_prompt(form: Form, at: int, question_id: str, state: AnswerState, reason: str) -> QuestionPrompt:
    field = form.fields[at]
    number = int(state.get("prompt", 0))
    head = f"{reason}({at + 1} of {len(form.fields)}) {field_prompt(field).rstrip(': ')}"
    about = f"\n{field.description}" if field.description else ""
    buttons = _field_buttons(field, at, question_id, state)
    if buttons:
        return QuestionPrompt(number, f"{head}{about}", buttons)
    nothing = "" if field.required and field.default is None else f" {SKIP_REPLY} keeps the current value."
    return QuestionPrompt(number, f"{head}{about}\nReply to this message.{nothing}")


def _field_buttons(field: FormField, at: int, question_id: str, state: AnswerState) -> ButtonRows:
    match field.type:
        case FieldType.boolean:
            rows: ButtonRows = (
                (_button("Yes", question_id, f"f{at}.0"), _button("No", question_id, f"f{at}.1")),
            )
        case FieldType.select | FieldType.multi_select:
            several = field.type is FieldType.multi_select
            rows = _options(field.options, question_id, f"f{at}.", state.get("chosen", []), several=several)
            if several:
                rows += ((_button("Done", question_id, f"f{at}.d"),),)
        case _:
            return ()
    if not field.required or field.default is not None:
        rows += ((_button("Skip", question_id, f"f{at}.s"),),)
    return rows


# -- presses and replies -----------------------------------------------------------------------------


def apply_button(widget: Widget, state: AnswerState, action: str) -> AnswerStep | None:
    """Apply a press; None if the button does not belong to the part asked now."""
    if isinstance(widget, Form):
        return _field_pressed(widget, state, action)
    if state.get("prompt"):
        return None
    match widget:
        case Selection():
            return _chosen(widget, state, action)
        case ActionsQuestion():
            number = _number(action, "o", len(widget.actions))
            return None if number is None else CompleteAnswer({"action": widget.actions[number].id})
        case Confirmation():
            return _confirmed(widget, state, action)
        case PlanReview():
            if action == "v":
                return AnswerInProgress({**state, "decision": "revise", "prompt": 1})
            decision = {"a": "approve", "r": "reject"}.get(action)
            return CompleteAnswer({"decision": decision}) if decision else None
        case Feedback():
            return _rated(widget, state, action)
        case _:
            assert_never(widget)


def _confirmed(widget: Confirmation, state: AnswerState, action: str) -> AnswerStep | None:
    if action == "n":
        return CompleteAnswer({"confirmed": False})
    if action == "y" and widget.dangerous:
        return AnswerInProgress({**state, "armed": True})
    is_yes = action == "Y" and state.get("armed") if widget.dangerous else action == "y"
    return CompleteAnswer({"confirmed": True}) if is_yes else None


def _chosen(widget: Selection, state: AnswerState, action: str) -> AnswerStep | None:
    chosen = list(state.get("chosen", []))
    if action == "d" and (widget.multiple or not widget.min_choices):
        return CompleteAnswer({"choices": [widget.options[number].value for number in sorted(chosen)]})
    number = _number(action, "o", len(widget.options))
    if number is None:
        return None
    if not widget.multiple:
        return CompleteAnswer({"choices": [widget.options[number].value]})
    return AnswerInProgress({**state, "chosen": _toggled(chosen, number)})


def _rated(widget: Feedback, state: AnswerState, action: str) -> AnswerStep | None:
    highest = widget.rating_max
    rating = _number(action, "g", 0 if highest is None else highest + 1)
    if rating is None or rating < (widget.rating_min or 0):
        return None
    if widget.comment is CommentPolicy.none:
        return CompleteAnswer({"rating": rating})
    return AnswerInProgress({**state, "rating": rating, "prompt": 1})


def _field_pressed(form: Form, state: AnswerState, action: str) -> AnswerStep | None:
    at = int(state.get("at", 0))
    sign = f"f{at}."
    if at >= len(form.fields) or not action.startswith(sign):
        return None
    field, what = form.fields[at], action.removeprefix(sign)
    chosen = list(state.get("chosen", []))
    if what == "s":
        return _filled(form, state, "")
    if what == "d" and field.type is FieldType.multi_select:
        return _filled(form, state, ",".join(str(number + 1) for number in sorted(chosen)))
    if field.type is FieldType.boolean:
        return _filled(form, state, {"0": "yes", "1": "no"}[what]) if what in {"0", "1"} else None
    number = _number(what, "", len(field.options))
    if number is None:
        return None
    if field.type is FieldType.multi_select:
        return AnswerInProgress({**state, "chosen": _toggled(chosen, number)})
    return _filled(form, state, str(number + 1))


def apply_reply(widget: Widget, state: AnswerState, words: str) -> AnswerStep | None:
    """Apply a reply; None if no text is expected now."""
    said = "" if words.strip() == SKIP_REPLY else words.strip()
    match widget:
        case Form():
            at = int(state.get("at", 0))
            return _filled(widget, state, said) if at < len(widget.fields) else None
        case Selection():
            if not widget.allow_other:
                return None
            chosen = [widget.options[number].value for number in sorted(state.get("chosen", []))]
            return CompleteAnswer({"choices": chosen, "other": words.strip()})
        case PlanReview():
            return CompleteAnswer({"decision": "revise", "comment": words.strip()})
        case Feedback():
            if widget.rating_max is not None and "rating" not in state:
                return None
            rating = {"rating": state["rating"]} if "rating" in state else {}
            return CompleteAnswer(rating | ({"comment": said} if said else {}))
        case Confirmation() | ActionsQuestion():
            return None
        case _:
            assert_never(widget)


def _filled(form: Form, state: AnswerState, said: str) -> AnswerStep:
    """The next field, the same one again with the reason, or the complete answer."""
    at, number = int(state.get("at", 0)), int(state.get("prompt", 0)) + 1
    field = form.fields[at]
    try:
        value = parse_field_value(field, said)
    except FieldError as fault:
        return AnswerInProgress({**state, "prompt": number, "reason": str(fault), "chosen": []})
    values = dict(state.get("values", {}))
    if value is not None:
        values[field.name] = value
    if at + 1 == len(form.fields):
        return CompleteAnswer({"values": values})
    return AnswerInProgress({"at": at + 1, "values": values, "prompt": number})


def needs_new_prompt(widget: Widget, state: AnswerState, *, by_press: bool) -> bool:
    """Whether a rejected answer is asked for again in a separate message. Otherwise the buttons stay."""
    return not isinstance(widget, Selection) and (bool(state.get("prompt")) or not by_press)


def with_rejection(state: AnswerState, reason: str) -> AnswerState:
    """The answer was rejected: ask the last part again, with the reason."""
    return {**state, "reason": reason, "prompt": int(state.get("prompt", 0)) + 1}


def _toggled(chosen: list[int], number: int) -> list[int]:
    return [each for each in chosen if each != number] if number in chosen else [*chosen, number]


def _number(action: str, sign: str, count: int) -> int | None:
    text = action.removeprefix(sign)
    is_one = action.startswith(sign) and text.isascii() and text.isdecimal() and len(text) <= 3
    return int(text) if is_one and int(text) < count else None
