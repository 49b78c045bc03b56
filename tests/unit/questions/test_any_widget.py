"""For any question that is accepted: it renders, it survives storing, and so does every answer to it."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from interlock.questions.answers import MAX_ANSWER_BYTES, read_answer
from interlock.questions.rendering import answer_text, question_text
from interlock.questions.validation import FieldError
from interlock.questions.widgets import MAX_DOCUMENT_BYTES, document_of, read_widget
from tests.unit.questions.widget_cases import CASES

words = st.text(min_size=1, max_size=30).filter(str.strip)
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def some(required: dict, optional: dict):
    return st.fixed_dictionaries(required, optional=optional)


options = st.lists(some({"value": words}, {"label": words, "description": words}), min_size=1, max_size=4)
fields = st.lists(
    st.one_of(
        some(
            {"name": names, "type": st.sampled_from(["text", "multiline"])},
            {
                "default": st.text(max_size=5),
                "required": st.booleans(),
                "max_length": st.integers(1, 50),
            },
        ),
        some(
            {"name": names, "type": st.sampled_from(["number", "integer"])},
            {"min": st.integers(-9, 9), "max": st.integers(-9, 9), "default": st.integers(-9, 9)},
        ),
        some({"name": names, "type": st.sampled_from(["boolean", "date"])}, {"required": st.booleans()}),
        some(
            {"name": names, "type": st.sampled_from(["select", "multi_select"]), "options": options},
            {"required": st.booleans()},
        ),
    ),
    min_size=1,
    max_size=4,
)
actions = st.lists(
    some({"id": names}, {"label": words, "style": st.sampled_from(["primary", "danger"])}),
    min_size=1,
    max_size=4,
)
questions = st.one_of(
    some({"type": st.just("form"), "message": words, "fields": fields}, {"title": words}),
    some(
        {"type": st.just("selection"), "message": words, "options": options},
        {"multiple": st.booleans(), "allow_other": st.booleans(), "min_choices": st.integers(0, 3)},
    ),
    some({"type": st.just("confirmation"), "message": words}, {"dangerous": st.booleans()}),
    some(
        {"type": st.just("plan_review"), "message": words, "plan": words},
        {"steps": st.lists(words, max_size=3)},
    ),
    some(
        {"type": st.just("feedback"), "message": words},
        {
            "rating_min": st.integers(-1, 5),
            "rating_max": st.integers(0, 11),
            "comment": st.sampled_from(["none", "optional", "required"]),
        },
    ),
    some({"type": st.just("action_selection"), "message": words, "actions": actions}, {}),
)


def accepted(read, *arguments):
    try:
        return read(*arguments)
    except FieldError:
        return None


def likely_answer(draw, document: dict) -> dict:
    """An answer that has a chance: right keys, and values that often fit."""

    def value(field: dict):
        chosen = [option["value"] for option in field.get("options", ())]
        fitting = {
            "boolean": st.booleans(),
            "date": st.dates().map(str),
            "select": st.sampled_from(chosen) if chosen else st.none(),
            "multi_select": st.lists(st.sampled_from(chosen), unique=True) if chosen else st.none(),
        }
        return draw(st.none() | fitting.get(field["type"], st.text(max_size=6) | st.integers(-9, 9)))

    match document["type"]:
        case "form":
            return {"values": {field["name"]: value(field) for field in document["fields"]}}
        case "selection":
            values = [option["value"] for option in document["options"]]
            other = {"other": draw(words)} if document.get("allow_other") and draw(st.booleans()) else {}
            return {"choices": draw(st.lists(st.sampled_from(values), max_size=4)), **other}
        case "confirmation":
            return {"confirmed": draw(st.booleans())}
        case "plan_review":
            decision = draw(st.sampled_from(["approve", "reject", "revise"]))
            return {"decision": decision, "comment": draw(st.none() | words)}
        case "feedback":
            return {"rating": draw(st.integers(0, 10)), "comment": draw(st.none() | words)}
        case _:
            return {"action": draw(st.sampled_from([action["id"] for action in document["actions"]]))}


@given(questions)
def test_an_accepted_question_renders_and_is_read_again_as_the_same(arguments):
    widget = accepted(read_widget, arguments)
    if widget is not None:
        stored = orjson.dumps(document_of(widget))
        assert len(stored) <= MAX_DOCUMENT_BYTES
        assert read_widget(orjson.loads(stored)) == widget
        assert arguments["message"] in question_text(widget)


@given(st.data(), questions)
def test_an_accepted_answer_renders_and_is_accepted_again_as_the_same(data, arguments):
    widget = accepted(read_widget, arguments)
    if widget is None:
        return
    answer = accepted(read_answer, widget, likely_answer(data.draw, arguments))
    if answer is not None:
        stored = orjson.dumps(answer)
        assert len(stored) <= MAX_ANSWER_BYTES
        assert read_answer(widget, orjson.loads(stored)) == answer
        assert isinstance(answer_text(widget, answer), str)


@given(
    st.sampled_from(sorted(CASES)), st.dictionaries(st.text(max_size=12), anything, max_size=4), anything
)
def test_whatever_is_given_is_accepted_or_refused_with_a_fault(kind, given_answer, odd):
    asked, answered = CASES[kind]
    widget = read_widget(asked)
    for key in answered:
        accepted(read_answer, widget, {**answered, key: odd})
    accepted(read_answer, widget, given_answer)
    for key in asked:
        accepted(read_widget, {**asked, key: odd})
