"""Without a mouse: everything can be reached, is seen to be reached, and gives the focus back."""

import re

from playwright.sync_api import expect

from tests.harness.browser import chip, composer, in_browser, is_done, task
from tests.harness.scripted_model import called, said
from tests.unit.questions.widget_cases import CASES

MOST_STEPS = 60


def _tab_to(page, target, key="Tab"):
    """Step by step, as a person would; each stop on the way must be visible."""
    for _ in range(MOST_STEPS):
        page.keyboard.press(key)
        stop = page.evaluate(in_browser("focus"))
        assert stop["seen"], f"nobody sees that the focus is on {stop['name']!r}"
        if target.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError(f"{MOST_STEPS} times {key}, and still not there")


def test_from_the_start_to_an_answered_confirmation(page, model):
    question = {"type": "confirmation", "message": "Shall I?", "confirm_label": "Do it"}
    hello = model.plays("Hello by keyboard", said("Hello, typist."))
    asks = model.plays("Ask me by keyboard", called(("ask_user", question)), said("Done by keyboard."))

    skip = page.get_by_role("link", name="Skip to content")
    _tab_to(page, skip)
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    _tab_to(page, composer(page))
    page.keyboard.type(hello)
    page.keyboard.press("Enter")
    is_done(task(page, hello))
    expect(composer(page)).to_be_focused()
    expect(page.get_by_role("status").filter(has_text="Hello, typist.")).to_be_attached()

    _switch(page)
    _tab_to(page, composer(page))
    page.keyboard.type(asks)
    page.keyboard.press("Enter")
    yes = task(page, asks).get_by_role("button", name="Do it")
    expect(yes).to_be_visible()
    _tab_to(page, yes, "Shift+Tab")
    page.keyboard.press("Enter")
    is_done(task(page, asks))


def _switch(page):
    _tab_to(page, chip(page, "chat_safe"), "Shift+Tab")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Session mode")
    expect(dialog.get_by_role("radio", name=re.compile("^chat_safe"))).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(chip(page, "chat_safe")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("radio", name=re.compile("^chat_safe"))).to_be_focused()
    for _ in range(MOST_STEPS):
        page.keyboard.press("ArrowDown")
        if dialog.get_by_role("radio", name=re.compile("^coding")).is_checked():
            break
    expect(dialog.get_by_role("radio", name=re.compile("^coding"))).to_be_checked()
    _tab_to(page, dialog.get_by_role("button", name="Switch to coding"))
    page.keyboard.press("Enter")
    expect(chip(page, "coding")).to_be_focused()


def test_a_dialog_keeps_the_focus_inside(page, model):
    composer(page).fill(model.plays("Keep it inside", said("Inside.")))
    composer(page).press("Enter")
    is_done(task(page, "Keep it inside"))
    chip(page, "chat_safe").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    outside = (
        """() => !document.activeElement.closest('dialog') && document.activeElement !== document.body"""
    )
    for _ in range(12):
        page.keyboard.press("Tab")
        assert not page.evaluate(outside)


def test_a_menu_by_keyboard(page, model):
    composer(page).fill(model.plays("Menu by keyboard", said("Yes.")))
    composer(page).press("Enter")
    is_done(task(page, "Menu by keyboard"))
    opener = page.get_by_role("main").get_by_role("button", name="Actions for “Menu by keyboard”")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Export")).to_be_focused()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Rename")
    expect(dialog.get_by_role("textbox", name="Title")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("Renamed by keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Renamed by keyboard")).to_be_visible()


def test_a_form_by_keyboard(page, model):
    document, _ = CASES["selection"]
    asked = model.plays("Choose by keyboard", called(("ask_user", document)), said("Chosen."))
    composer(page).fill(asked)
    composer(page).press("Enter")
    first = task(page, asked).get_by_role("checkbox", name="First")
    expect(first).to_be_visible()
    _tab_to(page, first, "Shift+Tab")
    page.keyboard.press("Space")
    expect(first).to_be_checked()
    page.keyboard.press("Enter")
    is_done(task(page, asked))
