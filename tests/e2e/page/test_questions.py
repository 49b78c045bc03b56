"""Each of the six ways to ask: shown, checked, answered, and read-only afterwards, in every window."""

import json
import re

from playwright.sync_api import expect

from tests.harness.browser import begin, composer, go, is_done, new_chat, say, session_id, task
from tests.harness.scripted_model import called, said
from tests.unit.questions.widget_cases import CASES

TITLES = {
    "form": "Release",
    "selection": "Make a selection",
    "confirmation": "Please confirm",
    "plan_review": "Review the plan",
    "feedback": "Your feedback",
    "action_selection": "Choose an action",
}


def _form(question):
    question.get_by_role("button", name="Submit").click()
    version = question.get_by_role("textbox", name=re.compile("^Version"))
    expect(version).to_have_accessible_description("This field is required.")
    expect(version).to_be_focused()
    version.fill("1.2")
    retries = question.get_by_role("spinbutton", name="retries")
    retries.fill("9")
    question.get_by_role("button", name="Submit").click()
    expect(retries).to_have_accessible_description("Must be at most 5.")
    retries.fill("3")
    question.get_by_label("day").fill("2026-12-31")
    question.get_by_role("combobox", name="channel").select_option("beta")
    question.get_by_role("checkbox", name="public").check()
    question.get_by_role("button", name="Submit").click()
    given = {"version": "1.2", "retries": 3, "day": "2026-12-31", "channel": "beta"}
    rest = {"notes": None, "share": 0.5, "public": True, "systems": ["linux"]}
    return {"values": given | rest}, ["1.2", "3", "2026-12-31", "beta", "Yes", "Linux", "not provided"]


def _selection(question):
    question.get_by_role("button", name="Send answer").click()
    expect(question.get_by_role("alert")).to_have_text("Choose 1 to 3.")
    question.get_by_role("checkbox", name="First").check()
    question.get_by_role("checkbox", name="Other").check()
    question.get_by_role("button", name="Send answer").click()
    expect(question.get_by_role("alert")).to_have_text("Enter a value.")
    question.get_by_role("textbox", name="Other").fill("something else")
    question.get_by_role("button", name="Send answer").click()
    return {"choices": ["a"], "other": "something else"}, ["First", "something else"]


def _confirmation(question):
    """A dangerous one needs a tick before it takes a yes."""
    question.get_by_role("button", name="Delete").click()
    expect(question.get_by_role("alert")).to_have_text("Select the checkbox above first.")
    question.get_by_role("checkbox", name="I have read this and want to proceed").check()
    question.get_by_role("button", name="Delete").click()
    return {"confirmed": True}, ["Delete"]


def _plan_review(question):
    expect(question.get_by_role("heading", name="Plan", exact=True)).to_be_visible()
    expect(question.get_by_role("listitem")).to_have_text(["one", "two"])
    question.get_by_role("button", name="Request changes").click()
    comment = question.get_by_role("textbox", name=re.compile("^Comment"))
    expect(comment).to_have_accessible_description("Enter a comment.")
    comment.fill("smaller steps")
    question.get_by_role("button", name="Request changes").click()
    return {"decision": "revise", "comment": "smaller steps"}, ["Changes requested", "smaller steps"]


def _feedback(question):
    question.get_by_role("button", name="Send answer").click()
    expect(question.get_by_role("alert")).to_have_text("Choose a rating.")
    expect(question.get_by_role("group", name="Rating, 1 to 5").get_by_role("radio")).to_have_count(5)
    question.get_by_role("radio", name="4").check(force=True)
    question.get_by_role("textbox", name=re.compile("^Comment")).fill("good")
    question.get_by_role("button", name="Send answer").click()
    return {"rating": 4, "comment": "good"}, ["4 / 5", "good"]


def _action_selection(question):
    question.get_by_role("textbox", name=re.compile("^Comment")).fill("once")
    question.get_by_role("button", name="Try again").click()
    return {"action": "retry", "comment": "once"}, ["Try again", "once"]


ANSWERING = {
    "form": _form,
    "selection": _selection,
    "confirmation": _confirmation,
    "plan_review": _plan_review,
    "feedback": _feedback,
    "action_selection": _action_selection,
}


def _is_read_only(question, words):
    expect(question.get_by_text("answered", exact=True)).to_be_visible()
    expect(question.get_by_text("You answered")).to_be_visible()
    for word in words:
        expect(question.get_by_text(word, exact=True).first).to_be_visible()
    for role in ("button", "textbox", "checkbox", "radio", "combobox", "spinbutton"):
        expect(question.get_by_role(role)).to_have_count(0)


def test_a_question_of_each_kind(server, page, enter, model):
    other = enter(server)
    wrong, sessions = {}, {}
    for kind in CASES:
        try:
            sessions[kind] = _asked_and_answered(server, page, other, model, kind)
        except AssertionError as error:
            wrong[kind] = str(error)
    page.reload()
    for kind, (session, words) in sessions.items():
        try:
            page.evaluate(f"() => (location.hash = '#/chat/{session}')")
            _is_read_only(_question(page, kind), words)
        except AssertionError as error:
            wrong[f"{kind}, after a reload"] = str(error)
    assert wrong == {}


def _question(page, kind):
    return task(page, f"Ask me: {kind}").get_by_role("article", name=TITLES[kind])


def _asked_and_answered(server, page, other, model, kind):
    """Its session, and the words of its answer."""
    document = CASES[kind][0]
    message = model.plays(f"Ask me: {kind}", called(("ask_user", document)), said("Thank you."))
    asking = begin(page, message)
    question, same = _question(page, kind), _question(other, kind)
    expect(question).to_contain_text(document["message"])
    expect(asking.get_by_text("Waiting for your answer")).to_be_visible()
    session = session_id(page)
    other.evaluate(f"() => (location.hash = '#/chat/{session}')")
    expect(same.get_by_role("button").first).to_be_enabled()

    answer, words = ANSWERING[kind](question)
    is_done(asking)
    expect(asking.get_by_text("Thank you.", exact=True)).to_be_visible()
    _is_read_only(question, words)
    _is_read_only(same, words)
    stored = server.rows("SELECT status, answer FROM questions WHERE session_id = ?", session)
    assert [(status, json.loads(given)) for status, given in stored] == [("answered", answer)]
    return session, words


def test_a_new_message_closes_a_question_unanswered(page, model):
    question, _ = CASES["confirmation"]
    first = model.plays("Ask and wait", called(("ask_user", question)), said("Then not."))
    second = model.plays("Never mind", said("All right."))
    asking = begin(page, first)
    expect(asking.get_by_text("Waiting for your answer")).to_be_visible()
    expect(page.get_by_text("Sending a message closes it without an answer.")).to_be_visible()
    is_done(say(page, second))
    closed = task(page, first).get_by_role("article", name=TITLES["confirmation"])
    expect(closed.get_by_text("closed", exact=True)).to_be_visible()
    expect(closed.get_by_role("button")).to_have_count(0)


def test_a_question_that_is_open_is_still_there_after_a_restart(server, page, model):
    question, _ = CASES["action_selection"]
    message = model.plays("Ask before the night", called(("ask_user", question)), said("Good morning."))
    asking = begin(page, message)
    expect(asking.get_by_role("button", name="Try again")).to_be_enabled()
    page.goto("about:blank")
    server.restart()
    page.go_back()
    asking.get_by_role("button", name="Try again").click()
    is_done(asking)
    expect(asking.get_by_text("Good morning.", exact=True)).to_be_visible()


def test_what_was_filled_in_is_there_after_a_look_elsewhere(page, model):
    question, _ = CASES["form"]
    asking = begin(page, model.plays("Ask for much", called(("ask_user", question)), said("Thank you.")))
    version = asking.get_by_role("textbox", name=re.compile("^Version"))
    version.fill("1.2")
    asking.get_by_role("checkbox", name="mac").check()
    go(page, "Activity")
    page.go_back()
    expect(version).to_have_value("1.2")
    page.reload()
    expect(version).to_have_value("1.2")
    expect(asking.get_by_role("checkbox", name="mac")).to_be_checked()
    asking.get_by_role("button", name="Submit").click()
    is_done(asking)
    expect(composer(page)).to_be_focused()
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.includes('answer.'))") == []


def test_that_something_dangerous_is_meant_is_said_anew(page, model):
    question, _ = CASES["confirmation"]
    asking = begin(page, model.plays("Ask for trouble", called(("ask_user", question)), said("Thank you.")))
    tick = asking.get_by_role("checkbox", name="I have read this and want to proceed")
    tick.check()
    page.reload()
    expect(tick).not_to_be_checked()
    asking.get_by_role("button", name="Cancel").click()
    expect(asking.get_by_text("Cancelled by you")).to_be_visible()


def test_a_session_that_waits_is_seen_from_every_other(page, model):
    question, _ = CASES["feedback"]
    message = model.plays("Ask from afar", called(("ask_user", question)), said("Thank you."))
    asking = begin(page, message)
    expect(asking.get_by_text("Waiting for your answer")).to_be_visible()
    new_chat(page)
    listed = page.get_by_role("link", name=re.compile("^Ask from afar"))
    expect(listed).to_contain_text("waiting for you")
    # What is cut off where there is no room comes last.
    expect(listed.locator(".session-about")).to_have_text(re.compile(r"^\s*waiting for you · "))
    expect(page).to_have_title(re.compile(r"^\(\d+\) "))
    listed.click()
    asking.get_by_role("button", name="Cancel").click()
    expect(listed).not_to_contain_text("waiting for you")
