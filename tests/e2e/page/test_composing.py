"""What is typed goes where it is meant to: a mode to its dialog, a message behind the one before it."""

import re

from playwright.sync_api import expect

from tests.harness.browser import (
    HeldRequests,
    begin,
    chip,
    composer,
    is_done,
    new_chat,
    say,
    session_id,
    task,
)
from tests.harness.scripted_model import Gate, held, said


def test_a_search_opens_the_session_at_the_message(server, page, model):
    is_done(begin(page, model.plays("Where is the zebra hidden?", said("It is in the barn.\n\n" * 30))))
    for number in range(3):
        is_done(say(page, model.plays(f"Next one {number} please", said("word \n\n" * 40))))
    found = session_id(page)
    new_chat(page)
    page.get_by_role("searchbox").fill("zebra")
    page.locator(f'a[href^="#/chat/{found}/"]').first.click()
    expect(page.get_by_text("Where is the zebra hidden?").last).to_be_in_viewport()


def test_a_mode_that_is_typed_opens_its_dialog_and_a_running_task_keeps_its_own(server, page, model):
    gate = Gate()
    running = begin(page, model.plays("Talk slowly to me", held("I am talking now", gate, " and done.")))
    expect(running.get_by_text("in chat_safe mode")).to_be_visible()
    composer(page).fill("/mode plan")
    composer(page).press("Enter")
    dialog = page.get_by_role("dialog", name="Session mode")
    expect(dialog.get_by_role("radio", name=re.compile("^plan"))).to_be_checked()
    expect(dialog).to_contain_text("A task is running in chat_safe mode")
    dialog.get_by_role("button", name="Switch to plan").click()
    expect(page.get_by_text("Running task: chat_safe")).to_be_visible()
    gate.set()
    is_done(running)
    expect(page.get_by_text("Running task: chat_safe")).to_have_count(0)
    composer(page).fill("/mode nonsense")
    composer(page).press("Enter")
    expect(dialog).to_contain_text("nonsense mode is not open")


def test_a_second_message_waits_for_the_session_that_the_first_one_makes(server, page, model):
    creating = HeldRequests(page, "session.create")
    one, two = model.plays("First words here", said("One.")), model.plays("Second words here", said("Two."))
    new_chat(page)
    for text in (one, two):
        composer(page).fill(text)
        composer(page).press("Enter")
    assert creating.release() == 1, "one session is made, however much is written meanwhile"
    is_done(task(page, one))
    is_done(task(page, two))
    expect(task(page, one)).to_contain_text("One.")
    expect(task(page, two)).to_contain_text("Two.")
    assert composer(page).input_value() == ""


def test_a_window_without_a_draft_leaves_that_of_another_alone(server, page, model):
    is_done(begin(page, model.plays("Two windows here", said("Yes."))))
    other = page.context.new_page()
    other.goto(page.url)
    composer(other).fill("Half a sentence")
    other.reload()
    expect(composer(other)).to_have_value("Half a sentence")
    page.reload()
    expect(composer(page)).to_have_value("Half a sentence")
    composer(page).fill("")
    page.reload()
    expect(composer(page)).to_have_value("")


def test_the_arrow_keys_bring_back_what_was_said(page, model):
    is_done(begin(page, model.plays("The first one", said("One."))))
    is_done(say(page, model.plays("The second one\nin two lines", said("Two."))))
    composer(page).press("ArrowUp")
    expect(composer(page)).to_have_value("The second one\nin two lines")
    # Within a text the key goes to the line above, and only from there to what was said before.
    composer(page).press("ArrowUp")
    expect(composer(page)).to_have_value("The second one\nin two lines")
    composer(page).press("ArrowUp")
    expect(composer(page)).to_have_value("The first one")
    composer(page).press("ArrowUp")
    expect(composer(page)).to_have_value("The first one")
    composer(page).press("ArrowDown")
    composer(page).press("ArrowDown")
    expect(composer(page)).to_have_value("")
    # What is being written is not thrown away.
    composer(page).fill("Half a")
    composer(page).press("ArrowUp")
    expect(composer(page)).to_have_value("Half a")


def test_enter_on_a_mode_switches_to_it(page):
    new_chat(page)
    composer(page).fill("/mode plan")
    composer(page).press("Enter")
    dialog = page.get_by_role("dialog", name="Session mode")
    expect(dialog.get_by_role("radio", name=re.compile("^plan"))).to_be_focused()
    expect(dialog.get_by_role("button", name="Switch to plan")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(chip(page, "plan")).to_be_visible()
    expect(dialog).to_have_count(0)
    expect(composer(page)).to_be_focused()
