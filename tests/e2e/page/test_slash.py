"""What begins with a slash is for the page: listed as it is written, carried out, not told to the model."""

import re

from playwright.sync_api import expect

from interlock.sessions.slash_commands import Surface, slash_commands_for
from tests.e2e.page.judges import PHONE, serious, sticks_out
from tests.harness.browser import (
    begin,
    chip,
    composer,
    is_done,
    new_chat,
    say,
    session_id,
    switch_mode,
    task,
    texts,
)
from tests.harness.scripted_model import Gate, called, held, said


def write(page, text):
    """A line, and Enter."""
    composer(page).fill(text)
    composer(page).press("Enter")


def options(page):
    return page.get_by_role("listbox", name="Commands").get_by_role("option")


def test_a_slash_lists_the_commands_and_keys_choose_among_them(page):
    new_chat(page)
    composer(page).press("/")
    expect(options(page)).to_have_count(len(slash_commands_for(Surface.page)))
    expect(options(page).first).to_have_attribute("aria-selected", "true")
    assert serious(page) == []
    composer(page).press("ArrowDown")
    chosen = options(page).nth(1)
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(composer(page)).to_have_attribute("aria-activedescendant", chosen.get_attribute("id"))
    composer(page).press("ArrowUp")
    composer(page).press("ArrowUp")
    expect(options(page).last).to_have_attribute("aria-selected", "true")
    composer(page).press("Escape")
    expect(options(page)).to_have_count(0)
    expect(composer(page)).to_have_value("/")
    composer(page).press_sequentially("mod")
    assert [text.split()[0] for text in texts(options(page))] == ["/mode", "/model"]
    composer(page).press("Tab")
    expect(composer(page)).to_have_value("/mode ")
    expect(options(page)).to_have_text(
        [re.compile(f"/mode {name}") for name in ("chat_safe", "chat", "plan", "coding")]
    )
    composer(page).press_sequentially("pl")
    composer(page).press("Enter")
    dialog = page.get_by_role("dialog", name="Session mode")
    expect(dialog.get_by_role("radio", name=re.compile("^plan"))).to_be_checked()
    page.keyboard.press("Escape")
    expect(composer(page)).to_be_focused()
    expect(composer(page)).to_have_value("")
    # A name that is written whole is meant, also where a longer one begins so.
    write(page, "/mode chat")
    expect(dialog.get_by_role("radio", name=re.compile(r"^chat\b"))).to_be_checked()
    page.keyboard.press("Escape")


def test_the_list_fits_a_phone_and_is_taken_with_a_finger(server, enter):
    page = enter(server, **PHONE)
    composer(page).fill("/")
    expect(options(page).first).to_be_in_viewport()
    assert sticks_out(page) == []
    assert serious(page) == []
    options(page).filter(has_text="/help").tap()
    dialog = page.get_by_role("dialog", name="Available commands")
    expect(dialog.get_by_text("/undo")).to_be_visible()
    assert sticks_out(page) == []
    assert serious(page) == []


def test_what_is_no_command_is_told_and_not_sent(page, model):
    new_chat(page)
    write(page, "/nonsense")
    expect(page.get_by_role("alert")).to_contain_text("Unknown command /nonsense")
    expect(composer(page)).to_have_value("/nonsense")
    write(page, "/undo all of it")
    expect(page.get_by_role("alert")).to_contain_text("/undo takes no arguments")
    assert serious(page) == []
    assert "#/chat/" not in page.url
    # A path is a message, and so is whatever a person insists on.
    is_done(begin(page, model.plays("/etc/hosts is what?", said("A file."))))
    write(page, model.plays("/bin is what?", said("A folder.")))
    page.get_by_role("button", name="Send as message").click()
    is_done(task(page, "/bin is what?"))
    expect(composer(page)).to_have_value("")


def test_in_a_session_that_has_not_begun_every_command_answers(page):
    new_chat(page)
    for name in slash_commands_for(Surface.page):
        write(page, f"/{name}")
        expect(composer(page)).to_have_value("")
        if name in {"help", "mode", "tools"}:
            expect(page.get_by_role("dialog")).to_be_visible()
        expect(page.get_by_role("dialog", name="Something went wrong")).to_have_count(0)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    write(page, "/undo")
    expect(page.get_by_text("No file changes to undo.").first).to_be_visible()
    assert "#/chat/" not in page.url


def test_why_and_tools_tell_what_was_refused_and_what_can_be_used(page, model):
    refused = called(("read_file", {"path": "x"}))
    is_done(begin(page, model.plays("Read x for me", refused, said("I may not."))))
    write(page, "/why")
    dialog = page.get_by_role("dialog", name="Last denied call")
    expect(dialog).to_contain_text("read_file is not allowed in chat_safe mode")
    expect(dialog).to_contain_text("the tool's own declaration")
    assert serious(page) == []
    dialog.get_by_role("button", name="Switch mode").click()
    expect(page.get_by_role("dialog", name="Session mode")).to_be_visible()
    page.keyboard.press("Escape")
    write(page, "/tools")
    dialog = page.get_by_role("dialog", name="Tools in chat_safe mode")
    expect(dialog.get_by_role("listitem").filter(has_text="current_time")).to_be_visible()
    refused = dialog.get_by_role("listitem").filter(has_text="read_file")
    expect(refused).to_have_text("read_file is not allowed in chat_safe mode")
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(composer(page)).to_be_focused()


def test_undo_takes_back_the_newest_changes_and_then_those_before(server, page, model):
    new_chat(page)
    switch_mode(page, "chat_safe", "coding")
    for name in ("first.txt", "second.txt"):
        writes = called(("write_file", {"path": name, "content": "new\n"}))
        is_done(say(page, model.plays(f"Write {name}", writes, said("Written."))))
    for name in ("second.txt", "first.txt"):
        assert (server.root / name).exists()
        write(page, "/undo")
        page.get_by_role("dialog").get_by_role("button", name="Undo file changes").click()
        expect(page.get_by_role("dialog")).to_contain_text("1 file restored")
        page.keyboard.press("Escape")
        assert not (server.root / name).exists()
    write(page, "/undo")
    expect(page.get_by_text("No file changes to undo.").first).to_be_visible()


def test_history_goes_to_the_beginning_and_new_begins_again(page, model):
    is_done(begin(page, model.plays("The very first words", said("word\n\n" * 60))))
    expect(page.get_by_text("The very first words").last).not_to_be_in_viewport()
    write(page, "/history")
    expect(page.locator(".said-text", has_text="The very first words")).to_be_in_viewport()
    write(page, "/new")
    expect(page.get_by_role("heading", name="New chat")).to_be_visible()
    expect(composer(page)).to_be_focused()


def test_cancel_ends_what_runs_and_what_waits_behind_it(page, model):
    gate = Gate()
    running = begin(page, model.plays("Talk for ever", held("I am talking", gate, ".")))
    expect(running.get_by_text("in chat_safe mode")).to_be_visible()
    write(page, "Never begun")
    expect(task(page, "Never begun").get_by_text("Queued")).to_be_visible()
    write(page, "/cancel")
    expect(page.get_by_text("Cancelled by you")).to_have_count(2)
    gate.set()
    write(page, "/cancel")
    expect(page.get_by_text("No tasks are running or waiting.").first).to_be_visible()


def test_an_approved_plan_is_built(server, page, model):
    new_chat(page)
    switch_mode(page, "chat_safe", "plan")
    document = {"type": "plan_review", "message": "Is that right?", "plan": "Write slash.txt."}
    asking = say(page, model.plays("Plan slash.txt", called(("ask_user", document)), said("Planned.")))
    write_it = called(("write_file", {"path": "slash.txt", "content": "built\n"}))
    model.plays("Build the following approved plan.", write_it, said("It is built."))
    asking.get_by_role("button", name="Approve", exact=True).click()
    is_done(asking)
    write(page, "/build")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Write slash.txt.")
    dialog.get_by_role("button", name="Start building").click()
    is_done(task(page, "Build the following approved plan"))
    expect(chip(page, "coding")).to_be_visible()
    assert (server.root / "slash.txt").read_text() == "built\n"
    assert session_id(page)
