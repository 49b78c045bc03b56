"""From a plan to its building: only where a person says so, and seen in the chat as it happens."""

import re

from playwright.sync_api import expect

from tests.harness.browser import begin, chip, is_done, new_chat, say, switch_mode, task
from tests.harness.scripted_model import called, said

MESSAGE = "Build the following approved plan.\n\nWrite {name}."
TITLE = "Review the plan"
START = "Approve and start building"


def _plan(model, name):
    """A plan of one file, and the two tasks that it takes: asking, and building."""
    document = {"type": "plan_review", "message": "Is that right?", "plan": f"Write {name}."}
    written = called(("write_file", {"path": name, "content": "built"}))
    model.plays(MESSAGE.format(name=name), written, said("It is built."))
    return model.plays(f"Plan {name}", called(("ask_user", document)), said("Then I wait."))


def _asked(page, model, name, mode="plan"):
    message = _plan(model, name)
    new_chat(page)
    chip(page, "chat_safe").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name=re.compile(rf"^{mode}\b")).check()
    dialog.get_by_role("button", name=f"Switch to {mode}").click()
    return say(page, message).get_by_role("article", name=TITLE)


FOLLOWED_BY = "(first, second) => (first.compareDocumentPosition(second) & 4) > 0"


def test_a_plan_is_approved_and_built_in_one_go(server, page, model):
    question = _asked(page, model, "one.txt")
    expect(question.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
    question.get_by_role("button", name=START).click()
    building = task(page, "Build the following approved plan")
    is_done(building)
    expect(building.get_by_text("It is built.", exact=True)).to_be_visible()
    expect(chip(page, "coding")).to_be_visible()
    switched = page.get_by_text("You switched the mode from plan to coding.")
    expect(switched).to_have_count(1)
    assert switched.evaluate(FOLLOWED_BY, building.element_handle())
    assert (server.root / "one.txt").read_text() == "built"
    expect(question.get_by_text("Approved", exact=True)).to_be_visible()
    expect(question.get_by_role("button")).to_have_count(0)
    page.reload()
    expect(question.get_by_text("Approved", exact=True)).to_be_visible()
    expect(question.get_by_role("button")).to_have_count(0)
    is_done(building)
    assert switched.evaluate(FOLLOWED_BY, building.element_handle())
    assert [event["who"] for event in server.events("plan.build_started")] != []


def test_a_plan_that_was_approved_can_be_built_later(server, page, model):
    question = _asked(page, model, "two.txt")
    question.get_by_role("button", name="Approve", exact=True).click()
    is_done(task(page, "Plan two.txt"))
    expect(chip(page, "plan")).to_be_visible()
    assert not (server.root / "two.txt").exists()
    page.reload()
    question.get_by_role("button", name="Start building").focus()
    page.keyboard.press("Enter")
    is_done(task(page, "Build the following approved plan"))
    expect(chip(page, "coding")).to_be_visible()
    expect(question.get_by_role("button")).to_have_count(0)
    assert (server.root / "two.txt").read_text() == "built"


def test_a_rejected_plan_is_not_built(page, model):
    question = _asked(page, model, "three.txt")
    question.get_by_role("button", name="Reject").click()
    is_done(task(page, "Plan three.txt"))
    expect(question.get_by_text("Rejected", exact=True)).to_be_visible()
    expect(question.get_by_role("button")).to_have_count(0)
    expect(chip(page, "plan")).to_be_visible()


def test_nothing_is_offered_for_a_plan_of_another_mode(page, model):
    question = _asked(page, model, "four.txt", "chat")
    expect(question.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    expect(question.get_by_role("button", name=START)).to_have_count(0)


def test_nothing_is_offered_where_coding_is_closed(serve, enter, model):
    page = enter(serve("plan", **model.variables))
    begin(page, model.plays("Hello there", said("Hello.")))
    switch_mode(page, "chat_safe", "plan")
    question = say(page, _plan(model, "closed.txt")).get_by_role("article", name=TITLE)
    question.get_by_role("button", name="Approve", exact=True).click()
    is_done(task(page, "Plan closed.txt"))
    expect(question.get_by_text("Approved", exact=True)).to_be_visible()
    expect(question.get_by_role("button")).to_have_count(0)


def test_where_a_plan_leads_is_seen_by_who_approves_it(page, model):
    plan = "As [they say](https://example.org/delete-the-tests)."
    document = {"type": "plan_review", "message": "Is that right?", "plan": plan}
    question = begin(page, model.plays("Plan by a link", called(("ask_user", document)), said("I wait.")))
    link = question.get_by_role("link", name="they say")
    expect(link).to_be_visible()
    after = link.evaluate("element => getComputedStyle(element, '::after').content")
    assert "https://example.org/delete-the-tests" in after
