"""ask_user in a chat: buttons and replies, each for the question it was made for."""

import json

import pytest

from tests.harness.telegram import ADA, BOB, script


def asking(**question):
    return script({"tool_calls": [{"name": "ask_user", "arguments": question}]}, "msg:Thank you.")


OPTIONS = [{"value": "r", "label": "Red"}, {"value": "g", "label": "Green", "description": "like grass"}]


async def answer(harness):
    rows = await harness.query("SELECT answer, closed_by FROM questions")
    assert rows[0][1] == f"telegram:{ADA}"
    return json.loads(rows[0][0])


async def test_a_confirmation_is_two_buttons_that_go_away(open_harness, telegram):
    harness = await open_harness(MODEL=asking(type="confirmation", message="Delete it?"))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Delete it?")
    assert shown.labels == ["Yes", "No"]
    await telegram.press(ADA, shown.message_id, "No")
    await telegram.until_shown(ADA, "Thank you.")
    await harness.delivered()
    assert await answer(harness) == {"confirmed": False}
    assert shown.text == "Delete it?\n\n✓ No"
    assert shown.buttons == []


async def test_a_dangerous_yes_is_pressed_twice(open_harness, telegram):
    harness = await open_harness(MODEL=asking(type="confirmation", message="Delete all?", dangerous=True))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Delete all?")
    assert "⚠ This action is dangerous." in shown.text
    await telegram.press_data(ADA, shown.message_id, shown.buttons[0]["callback_data"][:-1] + "Y")
    await telegram.press(ADA, shown.message_id, "Yes")
    await telegram.until(lambda: shown.labels == ["Confirm: Yes", "No"])
    await telegram.press(ADA, shown.message_id, "Confirm: Yes")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"confirmed": True}


async def test_one_of_several_or_ones_own_words(open_harness, telegram):
    harness = await open_harness(
        MODEL=asking(type="selection", message="Which?", options=OPTIONS, allow_other=True)
    )
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Which?")
    assert shown.labels == ["Red", "Green"]
    assert "• Green: like grass" in shown.text
    await telegram.reply(ADA, shown.message_id, "Blue, please")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"choices": [], "other": "Blue, please"}


async def test_own_words_that_do_not_fit_leave_the_buttons_where_they_are(open_harness, telegram):
    several = {"multiple": True, "min_choices": 2, "allow_other": True}
    harness = await open_harness(
        MODEL=asking(type="selection", message="Which?", options=OPTIONS, **several)
    )
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Which?")
    await telegram.reply(ADA, shown.message_id, "Blue, please")
    await telegram.until_shown(ADA, "must be chosen, not 1")
    await telegram.press(ADA, shown.message_id, "☐ Red")
    await telegram.until(lambda: "☑ Red" in shown.labels)
    await telegram.reply(ADA, shown.message_id, "Blue, please")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"choices": ["r"], "other": "Blue, please"}


async def test_several_are_switched_and_then_done(open_harness, telegram):
    harness = await open_harness(
        MODEL=asking(type="selection", message="Which?", options=OPTIONS, multiple=True, min_choices=1)
    )
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Which?")
    await telegram.press(ADA, shown.message_id, "Done")
    await telegram.until_shown(ADA, "must be chosen, not 0")
    await telegram.press(ADA, shown.message_id, "☐ Red")
    await telegram.until(lambda: "☑ Red" in shown.labels)
    await telegram.press(ADA, shown.message_id, "☐ Green")
    await telegram.until(lambda: "☑ Green" in shown.labels)
    await telegram.press(ADA, shown.message_id, "☑ Red")
    await telegram.until(lambda: "☐ Red" in shown.labels)
    await telegram.press(ADA, shown.message_id, "Done")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"choices": ["g"]}


async def test_an_action_and_its_description(open_harness, telegram):
    actions = [{"id": "keep", "label": "Keep"}, {"id": "drop", "label": "Drop", "style": "danger"}]
    harness = await open_harness(MODEL=asking(type="action_selection", message="And now?", actions=actions))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "And now?")
    assert shown.labels == ["Keep", "⚠ Drop"]
    await telegram.press(ADA, shown.message_id, "⚠ Drop")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"action": "drop"}


async def test_a_long_plan_has_its_buttons_below_and_is_revised_in_words(open_harness, telegram):
    plan = "\n\n".join(f"Step {number}: " + "do this and that " * 10 for number in range(40))
    harness = await open_harness(MODEL=asking(type="plan_review", message="My plan", plan=plan))
    await telegram.say(ADA, "go")
    await telegram.until(lambda: telegram.shown(ADA) and telegram.shown(ADA)[-1].buttons)
    shown = telegram.shown(ADA)
    assert len(shown) > 1
    assert [len(each.buttons) for each in shown[:-1]] == [0] * (len(shown) - 1)
    await telegram.press(ADA, shown[-1].message_id, "Revise")
    prompt = await telegram.until_shown(ADA, "What should change?")
    assert prompt.wants_reply
    await telegram.reply(ADA, prompt.message_id, "Begin with step 2")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"decision": "revise", "comment": "Begin with step 2"}


async def test_feedback_is_a_rating_and_then_words(open_harness, telegram):
    harness = await open_harness(MODEL=asking(type="feedback", message="How was it?", rating_max=5))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "How was it?")
    assert shown.labels == ["1", "2", "3", "4", "5"]
    await telegram.press(ADA, shown.message_id, "4")
    prompt = await telegram.until_shown(ADA, "Your comment?")
    await telegram.until(lambda: not shown.buttons)
    await telegram.reply(ADA, prompt.message_id, "-")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"rating": 4}


async def test_a_rating_that_was_not_offered_is_none(open_harness, telegram):
    """Else the question would ask for a comment, and never be answered."""
    harness = await open_harness(MODEL=asking(type="feedback", message="How was it?", rating_max=5))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "How was it?")
    for grade in ("0", "6", "99", "9" * 40, "٣"):
        await telegram.press_data(
            ADA, shown.message_id, shown.buttons[0]["callback_data"].replace("g1", f"g{grade}")
        )
    await telegram.press(ADA, shown.message_id, "5")
    prompt = await telegram.until_shown(ADA, "Your comment?")
    await telegram.reply(ADA, prompt.message_id, "fine")
    await telegram.until_shown(ADA, "Thank you.")
    assert await answer(harness) == {"rating": 5, "comment": "fine"}


async def test_a_form_is_filled_in_field_by_field(open_harness, telegram):
    fields = [
        {"name": "name", "label": "Name", "required": True},
        {"name": "age", "label": "Age", "type": "integer", "min": 0, "required": True},
        {"name": "news", "label": "News", "type": "boolean"},
        {"name": "colours", "label": "Colours", "type": "multi_select", "options": OPTIONS},
        {"name": "note", "label": "Note"},
    ]
    harness = await open_harness(MODEL=asking(type="form", message="Who are you?", fields=fields))
    await telegram.say(ADA, "go")
    prompt = await telegram.until_shown(ADA, "(1 of 5) Name")
    await telegram.reply(ADA, prompt.message_id, "Ada")
    prompt = await telegram.until_shown(ADA, "(2 of 5) Age")
    await telegram.reply(ADA, prompt.message_id, "old")
    again = await telegram.until_shown(ADA, "Age: ")
    await telegram.reply(ADA, again.message_id, "36")
    prompt = await telegram.until_shown(ADA, "(3 of 5) News")
    await telegram.press(ADA, prompt.message_id, "Yes")
    prompt = await telegram.until_shown(ADA, "(4 of 5) Colours")
    await telegram.press(ADA, prompt.message_id, "☐ Green")
    await telegram.until(lambda prompt=prompt: "☑ Green" in prompt.labels)
    await telegram.press(ADA, prompt.message_id, "Done")
    last = await telegram.until_shown(ADA, "(5 of 5) Note")
    await telegram.until(lambda prompt=prompt: not prompt.buttons)
    await telegram.reply(ADA, last.message_id, "-")
    await telegram.until_shown(ADA, "Thank you.")
    values = {"name": "Ada", "age": 36, "news": True, "colours": ["g"], "note": None}
    assert await answer(harness) == {"values": values}
    await harness.delivered()
    assert await harness.query("SELECT * FROM telegram_questions") == []


@pytest.mark.parametrize("free_text", [True, False])
async def test_a_message_instead_of_an_answer_closes_the_question(open_harness, telegram, free_text):
    question = {"type": "selection", "message": "Which?", "options": OPTIONS, "allow_other": free_text}
    items = ({"tool_calls": [{"name": "ask_user", "arguments": question}]}, "msg:Never mind.", "msg:Sure.")
    harness = await open_harness(MODEL=script(*items))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Which?")
    await telegram.say(ADA, "something else")
    await telegram.until_shown(ADA, "(closed: a message was sent instead of an answer)")
    await telegram.until_shown(ADA, "Sure.")
    press = await telegram.press_data(ADA, shown.message_id, f"{await question_id(harness)}:o0")
    await telegram.until(lambda: telegram.presses[press] is not None)
    assert telegram.presses[press] == "That question is closed."
    assert (await harness.query("SELECT status FROM questions"))[0][0] == "expired"


async def question_id(harness):
    return (await harness.query("SELECT id FROM questions"))[0][0]


async def test_a_button_answers_only_its_question_in_its_chat(open_harness, telegram):
    harness = await open_harness(MODEL=asking(type="confirmation", message="Delete it?"))
    await telegram.say(ADA, "go")
    await telegram.say(BOB, "go")
    of_ada = await telegram.until_shown(ADA, "Delete it?")
    of_bob = await telegram.until_shown(BOB, "Delete it?")
    data = of_ada.buttons[0]["callback_data"]
    by_bob = await telegram.press_data(BOB, of_bob.message_id, data)
    forged = await telegram.press_data(ADA, of_ada.message_id, "q_0123456789abcdef:y")
    odd = await telegram.press_data(ADA, of_ada.message_id, "nonsense")
    await telegram.until(lambda: all(telegram.presses[each] is not None for each in (by_bob, forged, odd)))
    assert {telegram.presses[each] for each in (by_bob, forged, odd)} == {"That question is closed."}
    assert await harness.query("SELECT count(*) FROM questions WHERE status = 'open'") == [(2,)]


async def test_a_question_answered_elsewhere_loses_its_buttons(open_harness, telegram):
    harness = await open_harness(MODEL=asking(type="confirmation", message="Delete it?"))
    await telegram.say(ADA, "go")
    shown = await telegram.until_shown(ADA, "Delete it?")
    await harness.runtime.questions.answer(await question_id(harness), {"confirmed": True}, who="local:eve")
    await telegram.until_shown(ADA, "Thank you.")
    await telegram.until(lambda: not shown.buttons)
    assert "✓ Yes" in shown.text
