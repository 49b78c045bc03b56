"""A person's lines become the answer that the question takes; what does not fit is asked again."""

import pytest

from interlock.channels.answer_dialogue import prompt_for_answer
from interlock.questions.answers import read_answer
from interlock.questions.widgets import WidgetType, read_widget

OPTIONS = [{"value": "tea", "label": "Tea"}, {"value": "coffee", "label": "Strong coffee"}]
ASKED = {
    "form": {"fields": [{"name": "n", "label": "Name", "required": True}]},
    "selection": {"options": OPTIONS},
    "confirmation": {},
    "plan_review": {"plan": "1. do it"},
    "feedback": {"rating_max": 5, "comment": "required"},
    "action_selection": {"actions": [{"id": "retry", "label": "Retry"}, {"id": "stop"}]},
}


def widget(kind: str, **fields: object):
    return read_widget({"type": kind, "message": "Well?", **ASKED[kind], **fields})


class Person:
    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self._lines:
            raise EOFError
        return self._lines.pop(0)


def answered(asked, *lines: str):
    """All lines are used, and the desk takes what comes of them."""
    person = Person(*lines)
    given = prompt_for_answer(asked, person)
    assert len(person.prompts) == len(lines)
    assert read_answer(asked, given)
    return given


@pytest.mark.parametrize(
    ("lines", "confirmed"),
    [(["y"], True), (["什么", "", "是"], True), (["NO"], False), (["so", "n"], False)],
)
def test_a_confirmation_is_a_yes_or_a_no(lines, confirmed):
    assert answered(widget("confirmation"), *lines) == {"confirmed": confirmed}


@pytest.mark.parametrize(("lines", "confirmed"), [(["y", "yes"], True), (["Y", "y", "n"], False)])
def test_a_dangerous_yes_is_written_out(lines, confirmed):
    assert answered(widget("confirmation", dangerous=True), *lines) == {"confirmed": confirmed}


@pytest.mark.parametrize(
    ("kind", "lines", "told"),
    [
        ("selection", ["3", "1"], "3 is not one of the options"),
        ("confirmation", ["perhaps", "y"], "perhaps is not one of the options"),
        ("plan_review", ["later", "a", ""], "later is not one of the options"),
        ("feedback", ["9", "3", "good"], "9 is not one of the options"),
        ("action_selection", ["third", "1", ""], "third is not one of the options"),
    ],
)
def test_what_does_not_fit_is_told_before_it_is_asked_again(kind, lines, told):
    person = Person(*lines)
    assert prompt_for_answer(widget(kind), person)
    first, again, *_ = person.prompts
    assert again == f"{told}\n{first}"
    # Whoever only pressed Enter knows that.
    person = Person("", *lines[1:])
    assert prompt_for_answer(widget(kind), person)
    assert person.prompts[0] == person.prompts[1]


def test_that_a_dangerous_yes_is_written_out_is_told():
    person = Person("y", "yes")
    assert prompt_for_answer(widget("confirmation", dangerous=True), person) == {"confirmed": True}
    assert person.prompts[1].startswith("type the full word: yes\n")


@pytest.mark.parametrize("said", ["2", "coffee", "Strong coffee"])
def test_a_selection_goes_by_number_value_or_label(said):
    assert answered(widget("selection"), "0", "3", "milk", "1, 2", said) == {"choices": ["coffee"]}


def test_several_can_be_chosen_and_one_be_in_own_words():
    asked = widget("selection", multiple=True, allow_other=True)
    assert answered(asked, "2, 1") == {"choices": ["coffee", "tea"]}
    assert answered(asked, "Tea, 1, 1") == {"choices": ["tea"]}
    assert answered(asked, "1, hot milk") == {"choices": ["tea"], "other": "hot milk"}
    assert answered(widget("selection", allow_other=True), "milk, hot") == {
        "choices": [],
        "other": "milk, hot",
    }


def test_nothing_is_a_choice_only_where_that_is_allowed():
    assert answered(widget("selection", multiple=True, min_choices=0), "") == {"choices": []}
    assert answered(widget("selection", multiple=True), "", "1") == {"choices": ["tea"]}


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["a", ""], {"decision": "approve"}),
        (["reject", "too much"], {"decision": "reject", "comment": "too much"}),
        (["x", "", "v", "", "shorter"], {"decision": "revise", "comment": "shorter"}),
    ],
)
def test_a_plan_to_be_revised_needs_words(lines, answer):
    assert answered(widget("plan_review"), *lines) == answer


def test_feedback_is_a_rating_within_its_ends_and_words_where_they_are_wanted():
    assert answered(widget("feedback"), "0", "6", "five", "4", "", "fine") == {
        "rating": 4,
        "comment": "fine",
    }
    assert answered(widget("feedback", rating_min=0, comment="none"), "0") == {"rating": 0}
    words = read_widget({"type": "feedback", "message": "Well?"})
    assert answered(words, "", "good") == {"comment": "good"}


def test_an_action_has_room_for_a_comment():
    assert answered(widget("action_selection"), "3", "Retry", "") == {"action": "retry"}
    assert answered(widget("action_selection"), "2", "enough") == {"action": "stop", "comment": "enough"}


FORM = [
    {"name": "name", "label": "Name", "required": True},
    {"name": "age", "label": "Age", "type": "integer", "min": 1},
    {"name": "ok", "label": "OK", "type": "boolean"},
    {"name": "day", "label": "Day", "type": "date"},
    {"name": "size", "label": "Size", "type": "select", "options": OPTIONS},
    {"name": "tags", "label": "Tags", "type": "multi_select", "options": OPTIONS},
    {"name": "share", "label": "Share", "type": "number"},
    {"name": "where", "label": "Where", "default": "Zurich"},
]


def test_every_field_of_a_form_is_asked_for_until_it_fits():
    asked = widget("form", fields=FORM)
    person = Person(
        *("", "Ada"),
        *("-3", "old", "36"),
        *("perhaps", "是"),
        *("tomorrow", "2026-02-30", "2026-11-15"),
        *("Huge", "Strong coffee"),
        *("1, huge", "1，coffee"),
        "0.5",
        "",
    )
    given = prompt_for_answer(asked, person)
    assert given == {
        "values": {
            "name": "Ada",
            "age": 36,
            "ok": True,
            "day": "2026-11-15",
            "size": "coffee",
            "tags": ["tea", "coffee"],
            "share": 0.5,
        }
    }
    assert read_answer(asked, given)["values"]["where"] == "Zurich"
    again = [prompt for prompt in person.prompts if "\n" in prompt]
    assert [prompt.partition(":")[0] for prompt in again] == [
        *("Name", "Age", "Age", "OK", "Day", "Day", "Size", "Tags[1]")
    ]


def test_a_field_that_may_be_left_empty_is():
    asked = widget("form", fields=FORM[1:3])
    assert answered(asked, "", "") == {"values": {}}


@pytest.mark.parametrize("kind", list(WidgetType))
def test_whoever_leaves_gives_no_answer(kind):
    with pytest.raises(EOFError):
        prompt_for_answer(widget(kind), Person())


@pytest.mark.parametrize(
    "said", ["abort", "actually no", "all wrong", "revised?", "rather not", "very good"]
)
def test_a_plan_is_decided_only_by_the_words_for_it(said):
    """'abort' approved the plan, because it begins with an a."""
    person = Person(said)
    with pytest.raises(EOFError):
        prompt_for_answer(widget("plan_review"), person)
    assert person.prompts[1].startswith(f"{said} is not one of the options\n")


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ("Approve", "approve"),
        ("reject", "reject"),
        ("revise", "revise"),
        ("批准", "approve"),
        ("修改", "revise"),
    ],
)
def test_a_decision_about_a_plan_can_be_written_out(said, decision):
    assert answered(widget("plan_review"), said, "why") == {"decision": decision, "comment": "why"}


@pytest.mark.parametrize("kind", ["selection", "feedback", "action_selection"])
def test_a_number_of_thousands_of_digits_is_no_option(kind):
    person = Person("9" * 5000)
    with pytest.raises(EOFError):
        prompt_for_answer(widget(kind), person)


def test_an_option_with_a_comma_can_be_chosen_by_its_name():
    options = [{"value": "x", "label": "red, green"}, {"value": "y"}]
    asked = widget("selection", options=options, multiple=True)
    assert answered(asked, "red, green") == {"choices": ["x"]}
    assert answered(asked, "x, y") == {"choices": ["x", "y"]}
