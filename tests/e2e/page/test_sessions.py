"""Sessions and tasks: what a person does with whole conversations, and with work that goes wrong."""

import json
import re

import pytest
from playwright.sync_api import expect
from websockets.sync.client import connect

from interlock.gateway.auth import REASONS, CredentialKind
from tests.harness.browser import begin, composer, is_done, new_chat, say, session_id, task
from tests.harness.scripted_model import Gate, held, refused, said


def _sidebar(page):
    return page.get_by_role("navigation", name="Main menu")


def _command(page, title, name):
    """From the menu of a session in the side bar."""
    _sidebar(page).get_by_role("button", name=f"Actions for “{title}”").click()
    page.get_by_role("menuitem", name=name, exact=True).click()


def _link(page, title):
    return _sidebar(page).get_by_role("link", name=re.compile(f"^{re.escape(title)}"))


def test_a_first_message_makes_a_session_and_gives_it_its_title(server, page, model):
    is_done(begin(page, model.plays("Count the windmills", said("There are four."))))
    expect(page.get_by_role("heading", level=1, name="Count the windmills")).to_be_visible()
    expect(_link(page, "Count the windmills")).to_have_attribute("aria-current", "page")
    # Before it stands how many sessions wait for an answer.
    expect(page).to_have_title(re.compile(r"^(\(\d+\) )?Count the windmills · Interlock$"))
    expect(page.get_by_title("Model: openai")).to_have_text("double-1")
    stored = server.rows("SELECT title, kind FROM sessions WHERE id = ?", session_id(page))
    assert [title for title, _ in stored] == ["Count the windmills"]
    new_chat(page)
    before = len(server.rows("SELECT id FROM sessions"))
    new_chat(page)
    assert len(server.rows("SELECT id FROM sessions")) == before


def test_rename_in_the_side_bar_and_in_the_head(server, page, model):
    is_done(begin(page, model.plays("Name me", said("Yes."))))
    _command(page, "Name me", "Rename")
    field = page.get_by_role("textbox", name="Rename")
    expect(field).to_be_focused()
    field.fill("A better name")
    field.press("Enter")
    expect(page.get_by_role("heading", level=1, name="A better name")).to_be_visible()
    expect(_link(page, "A better name")).to_be_visible()
    page.get_by_role("main").get_by_role("button", name="Actions for “A better name”").click()
    page.get_by_role("menuitem", name="Rename").click()
    dialog = page.get_by_role("dialog", name="Rename")
    dialog.get_by_role("textbox", name="Title").fill("The best name")
    dialog.get_by_role("button", name="Save").click()
    expect(_link(page, "The best name")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1, name="The best name")).to_be_visible()
    assert server.rows("SELECT title FROM sessions WHERE id = ?", session_id(page)) == [("The best name",)]


def test_a_second_window_shows_what_changes_in_the_first_and_asks_for_nothing(server, page, enter, model):
    other = enter(server)
    expect(_sidebar(other)).to_be_visible()
    other.evaluate(
        """() => {
          const { send } = WebSocket.prototype;
          document.body.dataset.asked = '';
          WebSocket.prototype.send = function (text) {
            document.body.dataset.asked += ` ${JSON.parse(text).method};`;
            return send.call(this, text);
          };
        }"""
    )
    gate = Gate()
    running = begin(page, model.plays("Seen from afar", [held("On and on. ", gate, "End.")]))
    expect(_link(other, "Seen from afar")).to_contain_text("running")
    gate.set()
    is_done(running)
    expect(_link(other, "Seen from afar")).not_to_contain_text("running")
    _command(page, "Seen from afar", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(_link(other, "Seen from afar")).to_have_count(0)
    assert other.locator("body").get_attribute("data-asked") == ""


def test_search_finds_titles_and_what_was_said(page, model):
    is_done(begin(page, model.plays("About harbours", said("The lighthouse keeper is called Odilon."))))
    is_done(begin(page, model.plays("About mountains", said("The hut is closed in winter."))))
    box = page.get_by_role("searchbox", name="Search sessions")
    box.fill("Odilon")
    expect(_link(page, "About harbours")).to_contain_text("Odilon")
    expect(_link(page, "About mountains")).to_have_count(0)
    box.fill("mountains")
    expect(_link(page, "About mountains").first).to_be_visible()
    box.fill("harbours")
    # By its title and by what was said: still one session.
    expect(_link(page, "About harbours")).to_have_count(1)
    box.fill("zyzzyva")
    expect(page.get_by_text("No titles or messages match “zyzzyva”.")).to_be_visible()
    box.press("Escape")
    expect(_link(page, "About harbours")).to_be_visible()
    _link(page, "About harbours").click()
    is_done(task(page, "The lighthouse keeper is called Odilon."))


def test_what_single_commands_made_is_folded_away_from_the_chats(server, page, model):
    is_done(begin(page, model.plays("A real chat", said("Yes."))))
    server.interlock("tool", "call", "current_time")
    toggle = _sidebar(page).get_by_role("button", name=re.compile("^Command line"))
    page.reload()
    expect(_link(page, "A real chat")).to_be_visible()
    expect(_link(page, "tool call current_time")).to_have_count(0)
    toggle.click()
    expect(toggle).to_have_attribute("aria-expanded", "true")
    _link(page, "tool call current_time").click()
    expect(page.get_by_role("heading", level=1, name="tool call current_time")).to_be_visible()


def test_archive_and_bring_back(server, page, model):
    is_done(begin(page, model.plays("Put me away", said("Good night."))))
    _command(page, "Put me away", "Archive")
    expect(_link(page, "Put me away")).to_have_count(0)
    assert server.rows("SELECT archived_us FROM sessions WHERE id = ?", session_id(page)) != [(None,)]
    toggle = page.get_by_role("button", name=re.compile(r"Archived \(\d+\)"))
    toggle.click()
    expect(_link(page, "Put me away")).to_be_visible()
    _command(page, "Put me away", "Unarchive")
    expect(toggle).to_have_count(0)
    expect(_link(page, "Put me away")).to_be_visible()


def test_delete_asks_first_and_erases(server, page, enter, model):
    is_done(begin(page, model.plays("Forget the word heliotrope", said("It is forgotten."))))
    gone = session_id(page)
    other = enter(server, f"#/chat/{gone}")
    is_done(task(other, "heliotrope"))
    _command(page, "Forget the word heliotrope", "Delete")
    dialog = page.get_by_role("dialog", name="Delete “Forget the word heliotrope”?")
    expect(dialog).to_contain_text("The log keeps all messages and actions.")
    dialog.get_by_role("button", name="Cancel").click()
    assert server.rows("SELECT deleted_us FROM sessions WHERE id = ?", gone) == [(None,)]
    _command(page, "Forget the word heliotrope", "Delete")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(_link(page, "Forget the word heliotrope")).to_have_count(0)
    expect(page.get_by_role("heading", name="New chat")).to_be_visible()
    expect(other.get_by_role("heading", name="Session not found")).to_be_visible()
    assert server.rows("SELECT count(*) FROM event_texts WHERE stream = ?", gone) == [(2,)]
    (deleted,) = server.events("session.deleted", gone)
    assert list(deleted) == ["who"]


def test_export_gives_the_session_as_json_lines(page, model):
    is_done(begin(page, model.plays("Take this along", said("With pleasure, says the answer."))))
    with page.expect_download() as downloading:
        _command(page, "Take this along", "Export")
    file = downloading.value
    assert re.fullmatch(r"[\w.-]+\.jsonl", file.suggested_filename)
    lines = [json.loads(line) for line in file.path().read_text().splitlines()]
    assert "With pleasure, says the answer." in json.dumps(lines)


# -- tasks -------------------------------------------------------------------------------------------


def test_the_page_shows_that_a_revoked_token_had_started_it(server, page, model):
    is_done(begin(page, model.plays("Hold a place", said("Held."))))
    gate = Gate()
    message = model.plays("Work for a script", [held("On and on and on. ", gate, "End.")])
    token = server.interlock("token", "add", "ci").strip()
    params = {"session_id": session_id(page), "content": message}
    request = {"type": "request", "id": "1", "method": "chat.send", "params": params}
    headers = {"Authorization": f"Bearer {token}"}
    with connect(f"{server.origin.replace('http', 'ws', 1)}/ws", additional_headers=headers) as socket:
        socket.send(json.dumps(request))
        running = task(page, message)
        expect(running.get_by_text("On and on")).to_be_visible()
        server.interlock("token", "revoke", "ci")
    expect(running).to_contain_text(f"Cancelled by you: {REASONS[CredentialKind.token]}")


def test_stop_cancels_what_runs(server, page, model):
    gate = Gate()
    message = model.plays(
        "Never end", [held("This goes on and on and on. ", gate, "End."), said("Now it ends.")]
    )
    running = begin(page, message)
    expect(running.get_by_text("This goes on and on")).to_be_visible()
    expect(_link(page, "Never end")).to_contain_text("running")
    page.get_by_role("button", name="Stop").click()
    expect(running.get_by_text("Cancelled by you")).to_be_visible()
    expect(composer(page)).to_be_focused()
    expect(_link(page, "Never end")).not_to_contain_text("running")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert server.rows("SELECT status FROM tasks WHERE session_id = ?", session_id(page)) == [
        ("cancelled",)
    ]
    gate.set()
    running.get_by_role("button", name="Try again").click()
    is_done(task(page, "Now it ends."))


def test_a_failed_task_says_why_and_can_be_tried_again(page, model):
    answers = [refused(400, "the model is on holiday"), said("Back from holiday.")]
    failing = begin(page, model.plays("Are you at work?", answers))
    expect(failing.get_by_text("Failed.")).to_be_visible()
    expect(failing).to_contain_text("the model is on holiday")
    expect(failing).to_contain_text("Try again, or run interlock doctor")
    page.reload()
    expect(failing).to_contain_text("the model is on holiday")
    failing.get_by_role("button", name="Try again").click()
    is_done(task(page, "Back from holiday."))


@pytest.fixture(scope="module")
def choosing(serve, model):
    return serve(**model.variables, MODELS="openai:double-2,demo")


def test_a_model_can_be_chosen_where_there_are_several(choosing, enter, model):
    page = enter(choosing)
    choice = page.get_by_role("combobox", name="Model")
    expect(choice.get_by_role("option")).to_have_text(
        ["Default (openai)", "openai", "openai:double-2", "demo"]
    )
    choice.select_option("openai:double-2")
    is_done(say(page, model.plays("Who are you?", said("The second."))))
    assert model.server.asked[-1].document["model"] == "double-2"
    choice.select_option("demo")
    expect(page.get_by_text(re.compile("switched the model to demo"))).to_be_visible()
    is_done(say(page, "What time is it?"))
    choice.select_option("Default (openai)")
    expect(page.get_by_text(re.compile("switched the model to the default"))).to_be_visible()
    is_done(say(page, model.plays("And who are you now?", said("The first."))))
    assert model.server.asked[-1].document["model"] == "double-1"
    expect(composer(page)).to_be_editable()


def test_a_chat_shows_no_agent_and_the_session_of_one_shows_its_name(server, page, model):
    """S4-UX9."""
    folder = server.home / "workspace" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reviewer.md").write_text("---\ndescription: Looks twice.\n---\nYou look twice.\n")
    page.reload()
    is_done(begin(page, model.plays("Talk with nobody in particular", said("Gladly."))))
    head = page.locator(".chat-title")
    expect(head).to_contain_text("Talk with nobody in particular")
    expect(head.get_by_text("reviewer")).to_have_count(0)
    new_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("reviewer")
    is_done(say(page, model.plays("Talk with the reviewer", said("Looked."))))
    expect(head.get_by_text("reviewer", exact=True)).to_be_visible()
    stored = server.rows("SELECT title, kind, agent FROM sessions WHERE title LIKE 'Talk with%' ORDER BY 1")
    assert [row[1:] for row in stored] == [("chat", None), ("agent", "reviewer")]
