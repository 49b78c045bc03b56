"""What a mode refuses, and how a person opens more: the card, the chip, the dialog, and the way back."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.judges import serious
from tests.harness.browser import (
    HeldRequests,
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

READ = ("read_file", {"path": "notes.txt"})


@pytest.fixture(scope="module")
def closed(serve, model):
    return serve(open_modes="", **model.variables)


def _refusal_is_whole(card):
    expect(card).to_have_accessible_name("denied: read_file")
    expect(card).not_to_contain_text(re.compile("allowed, done|running"))
    facts = dict(zip(texts(card.get_by_role("term")), texts(card.get_by_role("definition")), strict=True))
    assert facts["Denied"] == "read_file"
    assert facts["Mode"] == "chat_safe"
    assert "MODE_DENIED" in facts["Reason"]
    assert "chat_safe" in facts["Reason"]
    assert len(facts["What to do"]) > 20


def test_a_refused_call_turns_its_own_card_and_the_answer_still_comes(server, page, model):
    gate = Gate()
    answer = held("I may not read your notes", gate, ", so tell me what they say.")
    task = begin(page, model.plays("What do my notes say?", called(READ), answer))
    card = task.get_by_role("article")
    _refusal_is_whole(card)
    # The last word waits for what follows it: it might be the beginning of a secret.
    expect(task.get_by_text("I may not read your", exact=True)).to_be_visible()
    card.evaluate("(card) => (window.theCard = card)")
    gate.set()
    whole = "I may not read your notes, so tell me what they say."
    expect(task.get_by_text(whole, exact=True)).to_be_visible()
    is_done(task)
    assert card.evaluate("(card) => card === window.theCard")
    expect(task.get_by_role("article")).to_have_count(1)
    expect(task.get_by_text("1 denied")).to_be_visible()
    before = task.aria_snapshot()
    page.reload()
    _refusal_is_whole(card)
    is_done(task)
    assert task.aria_snapshot() == before
    assert [each["error_code"] for each in server.events("tool_call.denied", session_id(page))] == [
        "MODE_DENIED"
    ]
    assert server.events("tool_call.started", session_id(page)) == []


def test_switching_to_coding_shows_what_changes_and_undo_takes_it_back(server, page, model):
    (server.root / "plan.txt").write_text("old\n")
    wanted = ("write_file", {"path": "plan.txt", "content": "new\n"})
    looked = ("read_file", {"path": "plan.txt"})
    turns = called(looked), called(wanted), said("The plan is new.")
    refused = begin(page, model.plays("Renew the plan", *turns))
    is_done(refused)
    expect(refused.get_by_role("article", name="denied: write_file")).to_be_visible()
    assert (server.root / "plan.txt").read_text() == "old\n"

    refused.get_by_role("button", name="Switch mode…").first.click()
    dialog = page.get_by_role("dialog", name="Session mode")
    expect(dialog.get_by_role("radio", name=re.compile("^chat_safe"))).to_be_checked()
    expect(dialog.get_by_role("button", name="Switch", exact=True)).to_be_disabled()
    dialog.get_by_role("radio", name=re.compile("^coding")).check()
    gained = dialog.get_by_role("heading", name=re.compile(r"Adds \d+ tools")).locator("..")
    for tool in ("read_file", "write_file", "bash"):
        expect(gained.get_by_text(tool, exact=True)).to_be_visible()
    expect(dialog).to_contain_text("the agent can change files and run commands")
    dialog.get_by_role("button", name="Switch to coding").click()
    expect(chip(page, "coding")).to_be_visible()
    expect(page.get_by_text(re.compile("switched the mode from chat_safe to coding"))).to_be_visible()

    done = say(page, model.plays("Now renew it", *turns))
    is_done(done)
    expect(done.get_by_role("article", name="allowed, done: write_file")).to_be_visible()
    assert (server.root / "plan.txt").read_text() == "new\n"
    report = _undo(page, done)
    report.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    # The button that began it is gone; whoever has only a keyboard is somewhere still.
    expect(composer(page)).to_be_focused()
    assert (server.root / "plan.txt").read_text() == "old\n"
    expect(done.get_by_text("undone", exact=True)).to_be_visible()


def _undo(page, done):
    """The report of an undo."""
    done.get_by_role("button", name="Undo file changes").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo file changes").click()
    report = page.get_by_role("dialog").filter(has_text="1 file restored")
    expect(report.get_by_role("listitem")).to_contain_text("plan.txt")
    return report


def test_an_undo_can_be_redone_and_undone_again(server, page, model):
    """With the keyboard alone, from the report and later from the task; after a reload, too."""
    (server.root / "plan.txt").write_text("old\n")
    new_chat(page)
    switch_mode(page, "chat_safe", "coding")
    edits = [
        called(("read_file", {"path": "plan.txt"})),
        called(("edit_file", {"path": "plan.txt", "find": "old", "replace": "newer"})),
        called(("edit_file", {"path": "plan.txt", "find": "newer", "replace": "newest"})),
    ]
    done = say(page, model.plays("Renew the plan twice", *edits, said("Renewed.")))
    is_done(done)
    undo, redo = (done.get_by_role("button", name=name) for name in ("Undo file changes", "Redo"))

    report = _undo(page, done)
    assert (server.root / "plan.txt").read_text() == "old\n"
    report.get_by_role("button", name="Redo").press("Enter")
    report = page.get_by_role("dialog", name="Redo file changes").filter(
        has_text="Changes to 1 file redone"
    )
    expect(report.get_by_role("listitem")).to_contain_text("plan.txt")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert (server.root / "plan.txt").read_text() == "newest\n"
    expect(page.get_by_text("Redid changes to 1 file.")).to_be_visible()
    expect(redo).to_have_count(0)

    _undo(page, done)
    page.keyboard.press("Escape")
    assert (server.root / "plan.txt").read_text() == "old\n"
    page.reload()
    expect(undo).to_have_count(0)
    assert serious(page) == []
    redo.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Changes to 1 file redone")
    page.keyboard.press("Escape")
    assert (server.root / "plan.txt").read_text() == "newest\n"
    expect(undo).to_be_visible()
    expect(redo).to_have_count(0)


def test_what_is_lost_is_shown_before_it_is_lost(server, page, model):
    is_done(begin(page, model.plays("Hello there", said("Good day."))))
    switch_mode(page, "chat_safe", "coding")
    chip(page, "coding").click()
    dialog = page.get_by_role("dialog", name="Session mode")
    dialog.get_by_role("radio", name=re.compile("^plan")).check()
    lost = dialog.get_by_role("heading", name=re.compile(r"Removes \d+ tools?")).locator("..")
    expect(lost.get_by_text("write_file", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(chip(page, "coding")).to_be_visible()
    expect(chip(page, "coding")).to_be_focused()
    stored = server.rows("SELECT mode FROM sessions WHERE id = ?", session_id(page))
    assert stored == [("coding",)]


def test_the_mode_is_the_servers_truth_in_every_window(server, page, enter, model):
    is_done(begin(page, model.plays("Are you there?", said("Yes."))))
    other = enter(server, f"#/chat/{session_id(page)}")
    expect(chip(other, "chat_safe")).to_be_visible()
    switch_mode(page, "chat_safe", "plan")
    expect(chip(other, "plan")).to_be_visible()
    other.reload()
    expect(chip(other, "plan")).to_be_visible()


def test_a_mode_chosen_while_the_session_begins_is_not_lost(server, page, model):
    creating = HeldRequests(page, "session.create")
    message = model.plays("Begin slowly", said("Begun."))
    new_chat(page)
    composer(page).fill(message)
    composer(page).press("Enter")
    chip(page, "chat_safe").click()
    dialog = page.get_by_role("dialog", name="Session mode")
    dialog.get_by_role("radio", name=re.compile("^coding")).check()
    creating.release()
    is_done(task(page, message))
    dialog.get_by_role("button", name="Switch to coding").click()
    expect(chip(page, "coding")).to_be_visible()
    assert server.rows("SELECT mode FROM sessions WHERE id = ?", session_id(page)) == [("coding",)]


def test_without_open_modes_the_chip_explains_and_offers_no_switch(closed, enter, model):
    page = enter(closed)
    refused = begin(page, model.plays("Read my notes", called(READ), said("I may not.")))
    is_done(refused)
    expect(refused.get_by_role("article", name="denied: read_file")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Switch"))).to_have_count(0)
    chip(page, "chat_safe").click()
    dialog = page.get_by_role("dialog", name="Session mode")
    expect(dialog).to_contain_text("The operator has not opened any other mode")
    expect(dialog).to_contain_text("interlock serve --open")
    expect(dialog.get_by_role("radio")).to_have_count(0)
    expect(dialog.get_by_role("button", name=re.compile("Switch"))).to_have_count(0)
    dialog.get_by_role("link", name="View all tools and modes").click()
    expect(page.get_by_role("heading", name="Permissions")).to_be_visible()
    expect(task(page, "Read my notes")).to_have_count(0)
