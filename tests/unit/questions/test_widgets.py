"""What can be asked and what answers it: strict, bounded, and every fault named by its path."""

import orjson
import pytest

from interlock.questions.answers import read_answer
from interlock.questions.rendering import answer_text, question_text
from interlock.questions.validation import FieldError
from interlock.questions.widgets import WidgetType, document_of, read_widget
from tests.harness.case_tables import each_row
from tests.unit.questions.widget_cases import CASES


def question(kind: str, **changes):
    document = {**CASES[kind][0], **changes}
    return {key: value for key, value in document.items() if value is not ...}


def test_there_is_a_case_for_each_of_the_six():
    """S4-UX10"""
    assert set(CASES) == {kind.value for kind in WidgetType}
    assert len(CASES) == 6


@pytest.mark.parametrize("kind", CASES)
def test_a_question_is_read_stored_and_read_again_as_the_same(kind):
    widget = read_widget(CASES[kind][0])
    assert widget.type == kind
    assert read_widget(orjson.loads(orjson.dumps(document_of(widget)))) == widget


@pytest.mark.parametrize("kind", CASES)
def test_a_question_and_its_answer_can_be_read_by_people(kind):
    asked, answered = CASES[kind]
    widget = read_widget(asked)
    assert asked["message"] in question_text(widget)
    assert answer_text(widget, read_answer(widget, answered)).strip()


@each_row("kind", CASES)
@each_row(
    ("change", "path"),
    [
        ({"message": ...}, "message"),
        ({"message": ""}, "message"),
        ({"message": "  \n"}, "message"),
        ({"message": 5}, "message"),
        ({"message": "x" * 4001}, "message"),
        ({"title": None}, "title"),
        ({"type": "poll"}, "type"),
        ({"type": None}, "type"),
        ({"pattern": ".*"}, "pattern"),
        ({"mesage": "x"}, "mesage"),
    ],
)
def test_what_all_questions_share_is_judged_alike(kind, change, path):
    with pytest.raises(FieldError, match=rf"^{path}: "):
        read_widget(question(kind, **change))


@each_row(
    ("change", "told"),
    [
        ({"fields": ...}, "fields: is missing"),
        ({"fields": []}, "fields: must have at least 1"),
        ({"fields": "name"}, "fields: must be a list, not the text 'name'"),
        ({"fields": ["name"]}, "fields[0]: must be an object"),
        ({"fields": [{"name": f"f{n}"} for n in range(31)]}, "fields: must have at most 30"),
        ({"fields": [{"name": "a"}, {"name": "a"}]}, "fields[1].name: 'a' occurs twice"),
        ({"fields": [{"name": "1st"}]}, "fields[0].name: must start with a letter"),
        ({"fields": [{"name": "a", "type": "password"}]}, "fields[0].type: must be one of text"),
        ({"fields": [{"name": "a", "pattern": "(a+)+"}]}, "fields[0].pattern: a field of type text has no"),
        ({"fields": [{"name": "a", "required": "false"}]}, "fields[0].required: must be true or false"),
        ({"fields": [{"name": "a", "required": 1}]}, "fields[0].required: must be true or false"),
        ({"fields": [{"name": "a", "max_length": None}]}, "fields[0].max_length: must not be null"),
        ({"fields": [{"name": "a", "type": "number", "min": None}]}, "fields[0].min: must not be null"),
        ({"fields": [{"name": "a", "type": "x" * 999, "b": 1}]}, "fields[0].b: a field has no such key"),
        ({"fields": [{"name": "a", "min": 1}]}, "fields[0].min: a field of type text has no such key"),
        ({"fields": [{"name": "a", "max_length": 0}]}, "fields[0].max_length: must be at least 1"),
        ({"fields": [{"name": "a", "max_length": True}]}, "fields[0].max_length: must be a whole number"),
        (
            {"fields": [{"name": "a", "max_length": 2, "default": "abc"}]},
            "fields[0].default: can have at most 2",
        ),
        ({"fields": [{"name": "a", "default": "one\ntwo"}]}, "fields[0].default: must be one line"),
        (
            {"fields": [{"name": "a", "type": "number", "min": 2, "max": 1}]},
            "fields[0].max: must not be less",
        ),
        ({"fields": [{"name": "a", "type": "number", "min": "1"}]}, "fields[0].min: must be a number"),
        ({"fields": [{"name": "a", "type": "number", "min": True}]}, "fields[0].min: must be a number"),
        (
            {"fields": [{"name": "a", "type": "integer", "max": 1.5}]},
            "fields[0].max: must be a whole number",
        ),
        (
            {"fields": [{"name": "a", "type": "integer", "default": True}]},
            "fields[0].default: must be a whole",
        ),
        (
            {"fields": [{"name": "a", "type": "integer", "max": 3, "default": 4}]},
            "fields[0].default: must be at",
        ),
        (
            {"fields": [{"name": "a", "type": "boolean", "default": "no"}]},
            "fields[0].default: must be true",
        ),
        (
            {"fields": [{"name": "a", "type": "date", "default": "31.12.2026"}]},
            "fields[0].default: must be a date",
        ),
        (
            {"fields": [{"name": "a", "type": "date", "default": "2026-02-30"}]},
            "fields[0].default: there is no",
        ),
        ({"fields": [{"name": "a", "type": "select"}]}, "fields[0].options: is missing"),
        (
            {"fields": [{"name": "a", "type": "select", "options": []}]},
            "fields[0].options: must have at least",
        ),
        (
            {"fields": [{"name": "a", "type": "select", "options": [{"value": "x"}], "default": "y"}]},
            "fields[0].default: must be one of x",
        ),
        (
            {
                "fields": [
                    {"name": "a", "type": "multi_select", "options": [{"value": "x"}], "default": "x"}
                ]
            },
            "fields[0].default: must be a list",
        ),
        (
            {"fields": [{"name": "a", "type": "select", "options": [{"value": "x"}, {"value": "x"}]}]},
            "fields[0].options[1].value: 'x' occurs twice",
        ),
        ({"options": [{"value": "a"}]}, "options: a question of type form has no such key"),
    ],
)
def test_a_form_that_cannot_be_filled_in_is_refused(change, told):
    with pytest.raises(FieldError) as refused:
        read_widget(question("form", **change))
    assert str(refused.value).startswith(told)


@each_row(
    ("kind", "change", "told"),
    [
        ("selection", {"options": []}, "options: must have at least 1"),
        ("selection", {"options": [{"value": str(n)} for n in range(51)]}, "options: must have at most 50"),
        (
            "selection",
            {"options": [{"value": "a"}, {"value": "a"}]},
            "options[1].value: 'a' occurs twice",
        ),
        ("selection", {"options": [{"label": "A"}]}, "options[0].value: is missing"),
        ("selection", {"options": [{"value": 1}]}, "options[0].value: must be a text, not the number 1"),
        ("selection", {"options": [{"value": "a", "id": 1}]}, "options[0].id: an option has no such key"),
        ("selection", {"multiple": "true"}, "multiple: must be true or false"),
        ("selection", {"multiple": False}, "max_choices: is valid only for a selection with multiple"),
        ("selection", {"max_choices": 4}, "max_choices: must be between 1 and 3"),
        ("selection", {"min_choices": 3, "max_choices": 2}, "min_choices: must be between 0 and 2"),
        ("selection", {"min_choices": -1}, "min_choices: must be between 0"),
        ("confirmation", {"dangerous": "no"}, "dangerous: must be true or false, not the text 'no'"),
        ("confirmation", {"confirm_label": ""}, "confirm_label: must not be empty"),
        ("confirmation", {"deny_label": "x" * 201}, "deny_label: can have at most 200"),
        ("plan_review", {"plan": ...}, "plan: is missing"),
        ("plan_review", {"plan": " "}, "plan: must not be empty"),
        ("plan_review", {"steps": "one"}, "steps: must be a list"),
        ("plan_review", {"steps": ["one", 2]}, "steps[1]: must be a text, not the number 2"),
        ("plan_review", {"steps": ["s"] * 51}, "steps: must have at most 50"),
        ("feedback", {"rating_max": 11}, "rating_max: must be between 1 and 10"),
        ("feedback", {"rating_max": True}, "rating_max: must be a whole number, not true"),
        ("feedback", {"rating_max": None}, "rating_max: must not be null"),
        ("feedback", {"rating_min": 5}, "rating_min: must be between 0 and 4"),
        ("feedback", {"rating_max": ..., "rating_min": 1}, "rating_max: is missing"),
        (
            "feedback",
            {"rating_max": ..., "comment": "none"},
            "comment: must be required if there is no rating",
        ),
        ("feedback", {"comment": "perhaps"}, "comment: must be one of none"),
        ("action_selection", {"actions": []}, "actions: must have at least 1"),
        ("action_selection", {"actions": [{"id": "a"}, {"id": "a"}]}, "actions[1].id: 'a' occurs twice"),
        ("action_selection", {"actions": [{"id": "a b"}]}, "actions[0].id: must start with a letter"),
        (
            "action_selection",
            {"actions": [{"id": "a", "style": "red"}]},
            "actions[0].style: must be one of",
        ),
        (
            "action_selection",
            {"actions": [{"id": f"a{n}"} for n in range(11)]},
            "actions: must have at most 10",
        ),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_path(kind, change, told):
    with pytest.raises(FieldError) as refused:
        read_widget(question(kind, **change))
    assert str(refused.value).startswith(told)


def test_a_question_is_bounded_as_a_whole():
    options = [{"value": f"{n}", "description": "x" * 900} for n in range(50)]
    with pytest.raises(FieldError, match="at most 32768 bytes"):
        read_widget(question("selection", options=options, max_choices=...))


def test_a_misspelt_key_is_told_with_the_near_one():
    with pytest.raises(FieldError, match="did you mean dangerous"):
        read_widget(question("confirmation", dangerous=..., dangerus=True))


# -- answers -----------------------------------------------------------------------------------------


@each_row(
    ("kind", "answer", "told"),
    [
        ("form", {}, "values: is missing"),
        ("form", {"values": []}, "values: must be an object, not a list"),
        ("form", {"values": {}}, "values.version: is required"),
        ("form", {"values": {"version": None}}, "values.version: is required"),
        ("form", {"values": {"version": "  "}}, "values.version: must not be empty"),
        ("form", {"values": {"version": 1.2}}, "values.version: must be a text, not the number 1.2"),
        ("form", {"values": {"version": "1\n2"}}, "values.version: must be one line"),
        ("form", {"values": {"version": "x" * 21}}, "values.version: can have at most 20"),
        ("form", {"values": {"version": "1", "other": 1}}, "values.other: the form has no such key"),
        ("form", {"values": {"version": "1", "share": "0.5"}}, "values.share: must be a number"),
        ("form", {"values": {"version": "1", "share": 1.01}}, "values.share: must be at most 1"),
        ("form", {"values": {"version": "1", "share": float("nan")}}, "values.share: is too large"),
        ("form", {"values": {"version": "1", "share": 10**400}}, "values.share: is too large"),
        ("form", {"values": {"version": "1", "retries": True}}, "values.retries: must be a whole number"),
        ("form", {"values": {"version": "1", "retries": 2.0}}, "values.retries: must be a whole number"),
        ("form", {"values": {"version": "1", "retries": -1}}, "values.retries: must be at least 0"),
        ("form", {"values": {"version": "1", "public": "false"}}, "values.public: must be true or false"),
        ("form", {"values": {"version": "1", "public": 0}}, "values.public: must be true or false"),
        ("form", {"values": {"version": "1", "day": "2026-13-01"}}, "values.day: there is no such date"),
        ("form", {"values": {"version": "1", "day": 20261231}}, "values.day: must be a date"),
        ("form", {"values": {"version": "1", "channel": "alpha"}}, "values.channel: must be one of beta"),
        ("form", {"values": {"version": "1", "systems": "linux"}}, "values.systems: must be a list"),
        ("form", {"values": {"version": "1", "systems": ["bsd"]}}, "values.systems[0]: must be one of"),
        (
            "form",
            {"values": {"version": "1", "systems": ["mac", "mac"]}},
            "values.systems[1]: 'mac' occurs",
        ),
        ("selection", {}, "choices: 1 to 3 must be chosen, not 0"),
        ("selection", {"choices": "a"}, "choices: must be a list"),
        ("selection", {"choices": ["c"]}, "choices[0]: must be one of a, b, not the text 'c'"),
        ("selection", {"choices": ["a", "a"]}, "choices[1]: 'a' occurs twice"),
        ("selection", {"choices": ["a"], "other": 5}, "other: must be a text"),
        ("selection", {"choices": ["a"], "other": "x" * 501}, "other: can have at most 500"),
        ("confirmation", {}, "confirmed: is missing"),
        ("confirmation", {"confirmed": "yes"}, "confirmed: must be true or false, not the text 'yes'"),
        ("confirmation", {"confirmed": 1}, "confirmed: must be true or false, not the number 1"),
        ("confirmation", {"confirmed": None}, "confirmed: must be true or false, not null"),
        ("confirmation", {"confirmed": True, "sure": True}, "sure: an answer to a confirmation has no"),
        ("plan_review", {"decision": "maybe"}, "decision: must be one of approve, reject, revise"),
        ("plan_review", {"decision": "revise"}, "comment: is required"),
        ("plan_review", {"decision": "revise", "comment": " "}, "comment: is required"),
        ("plan_review", {"decision": "reject", "comment": 7}, "comment: must be a text"),
        ("feedback", {}, "rating: is missing"),
        ("feedback", {"rating": 6}, "rating: must be between 1 and 5, not 6"),
        ("feedback", {"rating": "5"}, "rating: must be a whole number"),
        ("feedback", {"rating": True}, "rating: must be a whole number, not true"),
        ("feedback", {"rating": 5, "comment": "x" * 4001}, "comment: can have at most 4000"),
        ("action_selection", {"action": "stop"}, "action: must be one of retry, drop"),
        ("action_selection", {"action": ["retry"]}, "action: must be one of retry, drop, not a list"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_its_path(kind, answer, told):
    widget = read_widget(CASES[kind][0])
    with pytest.raises(FieldError) as refused:
        read_answer(widget, answer)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("kind", CASES)
def test_an_answer_is_an_object(kind):
    for wrong in ([], "yes", None, 5):
        with pytest.raises(FieldError, match="must be an object"):
            read_answer(read_widget(CASES[kind][0]), wrong)


def test_a_field_that_was_not_named_gets_its_default_and_an_emptied_one_does_not():
    form = read_widget(CASES["form"][0])
    named = read_answer(form, {"values": {"version": "1"}})["values"]
    assert (named["share"], named["public"], named["systems"]) == (0.5, False, ["linux"])
    assert (named["notes"], named["day"]) == (None, None)
    emptied = read_answer(form, {"values": {"version": "1", "share": None, "systems": []}})["values"]
    assert (emptied["share"], emptied["systems"]) == (None, None)


def test_a_single_selection_takes_exactly_one_thing():
    one = read_widget(question("selection", multiple=..., min_choices=..., max_choices=...))
    assert read_answer(one, {"choices": ["b"]}) == {"choices": ["b"]}
    assert read_answer(one, {"other": "neither"}) == {"choices": [], "other": "neither"}
    with pytest.raises(FieldError, match="1 must be chosen, not 2"):
        read_answer(one, {"choices": ["b"], "other": "and this"})
    closed = read_widget(question("selection", allow_other=..., max_choices=2))
    with pytest.raises(FieldError, match=r"^other: "):
        read_answer(closed, {"choices": ["a"], "other": "mine"})


def test_feedback_in_words_alone_needs_the_words():
    words = read_widget({"type": "feedback", "message": "Well?"})
    assert read_answer(words, {"comment": "fine"}) == {"comment": "fine"}
    for empty in ({}, {"comment": ""}, {"comment": None}):
        with pytest.raises(FieldError, match=r"^comment: is required"):
            read_answer(words, empty)
    with pytest.raises(FieldError, match=r"^rating: "):
        read_answer(words, {"comment": "fine", "rating": 3})


def test_an_answer_is_bounded_as_a_whole():
    fields = [{"name": f"f{n}", "type": "multiline", "max_length": 10_000} for n in range(3)]
    form = read_widget({"type": "form", "message": "Much", "fields": fields})
    with pytest.raises(FieldError, match="at most 16384 bytes"):
        read_answer(form, {"values": {f"f{n}": "x" * 9000 for n in range(3)}})
