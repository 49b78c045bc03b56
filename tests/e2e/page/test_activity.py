"""What may be done, what was done, and the proof of it."""

import json
import re
import sqlite3

import pytest
from playwright.sync_api import expect

from tests.harness.browser import begin, go, is_done, say, session_id, switch_mode, task
from tests.harness.scripted_model import called, said

WHOLE = "Look around and tell me"


@pytest.fixture(scope="module")
def server(serve, model):
    """With a mode that is not open."""
    started = serve(open_modes="chat,coding", **model.variables)
    (started.root / "a.txt").write_text("something to read\n")
    return started


@pytest.fixture(scope="module")
def looked(server, model, harness):
    """A session with a task that had one call that worked, one refused, and two more turns."""
    calls = called(("list_files", {}), ("write_file", {"path": "b.txt", "content": "x"}))
    message = model.plays(WHOLE, calls, called(("read_file", {"path": "a.txt"})), said("I saw a.txt."))
    with harness.windows() as windows:
        page = windows.enter(server)
        is_done(begin(page, model.plays("First say hello", said("Hello."))))
        switch_mode(page, "chat_safe", "chat")
        say(page, message)
        is_done(task(page, "I saw a.txt."))
        return session_id(page)


def test_the_matrix_says_who_decided(page):
    go(page, "Permissions")
    grid = page.get_by_role("grid")
    modes = [re.compile(f"^{mode}") for mode in ("chat_safe", "chat", "plan", "coding")]
    for mode, state in zip(modes, ("open", "open", "closed", "open"), strict=True):
        expect(grid.get_by_role("columnheader", name=mode).filter(has_text=state).first).to_be_visible()
    expect(grid.get_by_role("button", name=re.compile("^read_file is allowed in coding"))).to_be_visible()
    refused = grid.get_by_role("button", name=re.compile("^write_file is denied in chat(,|$)"))
    refused.focus()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("write_file is denied in chat")
    expect(tip).to_contain_text("the tool's own declaration")
    expect(tip).to_contain_text("MODE_DENIED")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("plan is closed. Only the operator can open modes")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("write_file is allowed in coding")
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)


def test_one_call_is_explained_layer_by_layer(server, page):
    go(page, "Permissions")
    page.get_by_role("combobox", name="Tool").fill("read_file")
    page.get_by_role("combobox", name="Mode").select_option("coding")
    arguments = page.get_by_role("textbox", name="Arguments (JSON)")
    before = server.events("tool_call.started")
    answer = page.get_by_role("status").filter(has_text="Checks, in order")
    arguments.fill('{"path": "a.txt"}')
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(answer).to_contain_text("Allowed: this call of read_file in coding mode.")
    arguments.fill('{"path": "/etc/passwd"}')
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(answer).to_contain_text("the rules for this call's arguments")
    expect(
        answer.get_by_role("listitem").filter(has_text="the rules for this call's arguments")
    ).to_contain_text("denied")
    arguments.fill("[1]")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Not a JSON object.")
    expect(arguments).to_be_focused()
    assert server.events("tool_call.started") == before


def test_the_timeline_of_a_task(page, looked):
    page.evaluate(f"() => (location.hash = '#/chat/{looked}')")
    is_done(task(page, "I saw a.txt."))
    page.get_by_role("link", name="Timeline").last.click()
    grid = page.get_by_role("treegrid", name="Event timeline")
    for row in (r"Turn 1\b", r"Turn 2\b", r"Turn 3\b", r"list_files", r"read_file"):
        expect(grid.get_by_role("row", name=re.compile(row)).first).to_be_visible()
    refused = grid.get_by_role("row", name=re.compile("write_file"))
    expect(refused).to_contain_text("denied")
    turn = grid.get_by_role("row", name=re.compile("Turn 1"))
    expect(turn.get_by_role("gridcell").nth(2)).to_have_text(re.compile(r"^(<1|[\d.]+) (ms|s)$"))
    expect(turn.get_by_role("gridcell").nth(3)).to_have_text(re.compile(r"\d+\s*\+\s*\d+"))
    summary = page.get_by_label("Summary")
    for name, value in (("Status", "done"), ("Turns", "3"), ("Denials", "1"), ("Mode", "chat")):
        fact = summary.get_by_role("term").filter(has_text=re.compile(f"^{name}$")).locator("..")
        expect(fact.get_by_role("definition")).to_have_text(value)

    expect(grid.get_by_role("row", name=re.compile(rf"Task {WHOLE}"))).to_be_visible()
    refused.click()
    details = page.get_by_role("region", name=re.compile("write_file"))
    expect(details).to_contain_text("MODE_DENIED")
    expect(details).to_contain_text("tool_call.denied")
    details.get_by_role("button", name="Close").click()
    expect(refused).to_be_focused()
    page.get_by_role("button", name=re.compile("^Denials")).click()
    expect(grid.get_by_role("row", name=re.compile("write_file"))).to_have_count(0)
    page.get_by_role("searchbox", name="Search events").fill("no such thing")
    expect(page.get_by_text("No matching events.")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(grid.get_by_role("row", name=re.compile("write_file"))).to_be_visible()


def test_the_timeline_is_live(server, page, enter, model):
    is_done(begin(page, model.plays("Begin", said("Begun."))))
    watching = enter(server, f"#/activity/{session_id(page)}/all")
    rows = watching.get_by_role("treegrid").get_by_role("row")
    expect(rows.filter(has_text="Turn 1").first).to_be_visible()
    say(page, model.plays("Go on", called(("current_time", {})), said("Gone on.")))
    expect(rows.filter(has_text="current_time")).to_be_visible()


def test_verify_and_export(server, page, looked):
    go(page, "Activity")
    page.get_by_role("button", name="Verify hash chain").click()
    found = page.get_by_role("status").filter(has_text="The hash chain is intact.")
    expect(found).to_contain_text(re.compile("checkpoints? (is|are) signed|No checkpoint is signed"))
    expect(found).to_contain_text("No anchor was compared")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Export all events").click()
    lines = [json.loads(line) for line in downloading.value.path().read_text().splitlines()]
    kinds = json.dumps(lines)
    assert all(kind in kinds for kind in ("tool_call.denied", "turn.completed", "auth.login"))
    page.goto(f"{server.origin}/#/activity/{looked}")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Export session").click()
    session = downloading.value.path().read_text()
    assert "write_file" in session
    assert "auth.login" not in session


def test_the_dashboard_counts(page, looked):
    go(page, "Activity")
    board = page.get_by_role("region", name="Last 7 days")
    numbers = {}
    for name in ("Turns", "Tasks", "Tool calls", "Denials"):
        fact = board.get_by_role("term").filter(has_text=re.compile(f"^{name}$")).locator("..")
        numbers[name] = int(fact.get_by_role("definition").inner_text())
    assert numbers["Turns"] >= 4
    assert numbers["Tasks"] >= 2
    assert numbers["Tool calls"] >= 2
    assert numbers["Denials"] >= 1
    # The model has no price.
    paid = board.get_by_role("term").filter(has_text=re.compile("^Cost$")).locator("..")
    expect(paid.get_by_role("definition")).to_have_text("unknown")
    expect(board.get_by_role("link", name="write_file")).to_be_visible()
    expect(board.get_by_role("img", name=re.compile("^Tokens per day for the last 7 days"))).to_be_visible()
    board.get_by_role("button", name="30 days").click()
    expect(page.get_by_role("region", name="Last 30 days")).to_be_visible()
    recent = page.get_by_role("region", name="Recent tasks").get_by_role("link")
    expect(recent.first).to_contain_text("done")


def test_the_timeline_says_that_a_price_is_unknown(server, page, looked):
    page.goto(f"{server.origin}/#/activity/{looked}")
    grid = page.get_by_role("treegrid")
    expect(grid.get_by_role("columnheader", name="Cost")).to_be_visible()
    expect(grid.get_by_role("gridcell", name="unknown", exact=True).first).to_be_visible()
    summary = page.get_by_role("region", name="Summary")
    paid = summary.get_by_role("term").filter(has_text=re.compile("^Cost$")).locator("..")
    expect(paid.get_by_role("definition")).to_have_text("unknown")


def test_a_refusal_whose_session_was_deleted_is_still_counted(server, page, model):
    """Nor where its content was erased: the tool's name is among what stays."""
    is_done(begin(page, model.plays("Read it", called(("read_file", {"path": "a.txt"})), said("No."))))
    server.interlock("sessions", "erase", session_id(page), "--yes")
    go(page, "Activity")
    board = page.get_by_role("region", name="Last 7 days")
    expect(board.get_by_role("listitem").filter(has_text="read_file")).to_be_visible()
    expect(board).not_to_contain_text("No calls were denied")
    expect(board).to_contain_text("No errors.")


def test_a_changed_log_is_reported(serve, enter, model):
    """In a store of its own: from here on it is broken."""
    own = serve(open_modes="", **model.variables)
    page = enter(own)
    is_done(begin(page, model.plays("Write this down", said("Written."))))
    page.close()
    own.stop()
    with sqlite3.connect(own.store) as connection:
        changed = connection.execute(
            "UPDATE events SET facts = replace(facts, 'local:', 'other:') WHERE kind = 'task.queued'"
        )
        assert changed.rowcount == 1
    connection.close()
    own.start()
    page = enter(own, "#/activity")
    page.get_by_role("button", name="Verify hash chain").click()
    broken = page.get_by_role("status").filter(has_text=re.compile("The hash chain is broken: 1 problem"))
    expect(broken).to_contain_text("The log was changed outside Interlock")


def test_a_session_is_followed_for_as_long_as_its_timeline_is_shown(page, looked):
    """A socket follows so many sessions and no more, and is told of each what happens there."""
    page.evaluate(
        """() => {
          const { send } = WebSocket.prototype;
          const followed = new Set();
          WebSocket.prototype.send = function (text) {
            const { method, params } = JSON.parse(text);
            if (method === 'session.subscribe') followed.add(params.session_id);
            if (method === 'session.unsubscribe') followed.delete(params.session_id);
            document.body.dataset.followed = [...followed].join();
            return send.call(this, text);
          };
        }"""
    )
    body = page.locator("body")
    for leave in ("#/activity", "#/activity/system", "#/authority", "#/chat"):
        page.evaluate(f"() => (location.hash = '#/activity/{looked}/all')")
        expect(body).to_have_attribute("data-followed", looked)
        page.evaluate(f"() => (location.hash = '{leave}')")
        expect(body).to_have_attribute("data-followed", "")
