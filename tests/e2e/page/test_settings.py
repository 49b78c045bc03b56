"""Settings → Tools: the effect before saving, in the next call, and after a restart."""

import itertools
import json
import re

import pytest
from playwright.sync_api import expect

from tests.harness.browser import SERVER_AWAY, begin, composer, go, is_done, say, switch_mode, task
from tests.harness.scripted_model import called, said
from tests.unit.questions.widget_cases import CASES

READ = ("read_file", {"path": "long.txt"})
LONG = "a line of the long file\n" * 400
USUAL_BYTES = 524288
NUMBERS = itertools.count(4)


@pytest.fixture(scope="module")
def server(serve, model):
    """Of its own: its settings are changed, and it is started anew."""
    started = serve(**model.variables)
    (started.root / "long.txt").write_text(LONG)
    return started


def _effect(page):
    return page.get_by_role("complementary", name="Preview")


def _save(page, changes="Save 1 change"):
    page.get_by_role("button", name=changes, exact=True).click()
    expect(_effect(page).get_by_text(re.compile(r"Saved as version \d+"))).to_be_visible()


def _stored(server):
    sql = "SELECT document FROM settings_versions ORDER BY version DESC LIMIT 1"
    return json.loads(server.rows(sql)[0][0])


def _reads(page, model):
    """Each time in other words, so that nothing earlier is taken for the answer."""
    done = say(page, model.plays(f"Read it, for the {next(NUMBERS)}th time", called(READ), said("Read.")))
    is_done(done)
    return done.get_by_role("article").last


def test_a_new_installation_shows_the_defaults_and_what_switching_off_means(page):
    """S4-UX1 to S4-UX7."""
    go(page, "Settings")
    files = page.get_by_role("checkbox", name="Enable filesystem tools (fs.*)")
    expect(files).to_be_checked()
    expect(files).to_have_accessible_description(
        re.compile(
            "stops file access in chat, agent and run sessions.* The agent can still ask you questions"
        )
    )
    expect(page.get_by_role("textbox", name="Max read bytes")).to_have_value("524288")
    expect(page.get_by_role("textbox", name="Max write bytes")).to_have_value("2097152")
    expect(page.get_by_role("checkbox", name="Enable MCP tools")).not_to_be_checked()
    expect(page.get_by_role("textbox", name=re.compile("server", re.IGNORECASE))).to_have_count(0)
    expect(page.get_by_role("group", name=re.compile("server", re.IGNORECASE))).to_have_count(0)


def test_both_limits_of_a_read_are_stated(server, enter):
    """S4 AC4: what a call may read, and what a result shows of it."""
    _states_both_limits(enter(server, "#/settings", locale="en-US"), "2,000 lines", "With limit_bytes")
    _states_both_limits(enter(server, "#/settings", locale="zh-CN"), "2,000 行", "可用 limit_bytes")


def _states_both_limits(page, lines, asked):
    field = page.locator("#setting-fs-max-read-bytes-hint")
    for text in (lines, "50 KiB", asked):
        expect(field).to_contain_text(text)
    page.goto(page.url.replace("#/settings", "#/authority"))
    said = page.locator("il-matrix")
    for text in ("512 KiB", "2 MiB", lines, "50 KiB", asked):
        expect(said).to_contain_text(text)


def test_a_limit_acts_on_the_next_call_and_outlives_a_restart(server, page, model, watch):
    is_done(begin(page, model.plays("Begin to read", said("Begun."))))
    switch_mode(page, "chat_safe", "chat")
    expect(_reads(page, model)).to_have_accessible_name("allowed, done: read_file")
    chat = page.url

    go(page, "Settings")
    limit = page.get_by_role("textbox", name="Max read bytes")
    expect(limit).to_have_value(str(USUAL_BYTES))
    before = server.events("settings.changed")
    limit.fill("1 KiB")
    changed = _effect(page).get_by_role("listitem").filter(has_text="Max read bytes")
    expect(changed).to_contain_text("524,288 (512 KiB)")
    expect(changed).to_contain_text("1,024 (1 KiB)")
    expect(_effect(page).get_by_text("No tools are added or removed in any mode.")).to_be_visible()
    assert server.events("settings.changed") == before
    _save(page)
    assert _stored(server)["tools"]["fs"]["max_read_bytes"] == 1024

    page.goto(chat)
    limited = _reads(page, model)
    expect(limited).to_contain_text(re.compile("1,?024|next page|truncated|larger|at most"))
    with watch.expects(SERVER_AWAY):
        server.restart()
        page.goto(f"{server.origin}/#/settings")
        expect(limit).to_have_value("1024")
    page.goto(chat)
    expect(_reads(page, model)).to_contain_text(re.compile("1,?024|next page|truncated|larger|at most"))

    go(page, "Settings")
    limit.fill("")
    expect(limit).to_have_accessible_description(re.compile("Leave empty for the default."))
    _save(page)
    expect(limit).to_have_value(str(USUAL_BYTES))
    page.goto(chat)
    expect(_reads(page, model)).to_have_accessible_name("allowed, done: read_file")


def test_what_is_not_a_number_is_refused_at_its_field(page, server):
    go(page, "Settings")
    limit = page.get_by_role("textbox", name="Max write bytes")
    before = server.events("settings.changed")
    limit.fill("plenty")
    expect(limit).to_have_accessible_description(re.compile("Enter a whole number of bytes"))
    expect(page.get_by_role("button", name=re.compile("^Save"))).to_be_disabled()
    limit.fill("-1")
    expect(page.get_by_role("button", name=re.compile("^Save"))).to_be_disabled()
    limit.fill("0")
    expect(limit).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Discard changes").click()
    expect(limit).not_to_have_value("0")
    assert server.events("settings.changed") == before


def test_without_files_reading_is_refused_and_questions_stay(server, page, enter, model):
    question, _ = CASES["action_selection"]
    asked = model.plays("Ask me something", called(("ask_user", question)), said("Thank you."))
    is_done(begin(page, model.plays("Begin to read in vain", said("Begun."))))
    switch_mode(page, "chat_safe", "chat")
    chat = page.url
    go(page, "Settings")
    page.get_by_role("checkbox", name="Enable filesystem tools").uncheck()
    expect(_effect(page).get_by_role("link", name="read_file")).to_be_visible()
    expect(_effect(page)).to_contain_text(re.compile("denied in chat, plan and coding", re.IGNORECASE))
    _save(page)
    assert _stored(server)["tools"]["fs"]["enabled"] is False

    page.goto(chat)
    refused = _reads(page, model)
    expect(refused).to_have_accessible_name("denied: read_file")
    expect(refused).to_contain_text("TOOL_NOT_AVAILABLE")
    asking = say(page, asked)
    asking.get_by_role("button", name="Try again").click()
    is_done(asking)

    other = enter(server, "#/settings")
    other.get_by_role("checkbox", name="Enable filesystem tools").check()
    _save(other)
    page.goto(chat)
    expect(_reads(page, model)).to_have_accessible_name("allowed, done: read_file")
    expect(task(page, asked).get_by_text("answered", exact=True)).to_be_visible()


def test_a_group_of_tools_is_denied_and_the_choice_over_unknown_commands_is_made(server, page, enter):
    go(page, "Settings")
    denied = page.get_by_role("group", name="Denied tools")
    denied.get_by_role("button", name="group:memory", exact=True).click()
    expect(_effect(page).get_by_role("link", name="memory_search")).to_be_visible()
    expect(_effect(page).get_by_role("link", name="memory_append")).to_be_visible()
    choice = page.get_by_role("combobox", name="Commands that no rule names")
    expect(choice).to_have_value("allow")
    expect(choice).to_have_accessible_description(re.compile("deny refuses them"))
    choice.select_option("deny")
    changed = _effect(page).get_by_role("listitem").filter(has_text="Commands that no rule names")
    expect(changed).to_contain_text(re.compile(r"allow changes to\s+deny"))
    _save(page, "Save 2 changes")
    tools = _stored(server)["tools"]
    assert (tools["denied_tools"], tools["shell"]["unknown"]) == (["group:memory"], "deny")

    chinese = enter(server, "#/settings", locale="zh-CN")
    expect(chinese.get_by_role("combobox", name="没有规则提到的命令")).to_have_value("deny")
    expect(chinese.get_by_role("option", name="拒绝")).to_be_attached()
    chip = chinese.get_by_role("button", name="group:memory", exact=True)
    expect(chip).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Reset all to defaults").click()
    _save(page, "Save 2 changes")


def test_two_people_do_not_overwrite_each_other_unseen(server, enter):
    mine, theirs = enter(server, "#/settings"), enter(server, "#/settings")
    mine.get_by_role("checkbox", name="Enable memory").uncheck()
    expect(_effect(mine).get_by_role("link", name="memory_search")).to_be_visible()
    theirs.get_by_role("textbox", name="Max image bytes").fill("1 MiB")
    _save(theirs)
    mine.evaluate("dispatchEvent(new Event('focus'))")
    expect(mine.get_by_role("alert")).to_contain_text("changed the settings in the meantime")
    expect(mine.get_by_role("button", name="Save 1 change")).to_be_disabled()
    mine.get_by_role("button", name="Apply my changes on top").click()
    _save(mine)
    assert _stored(server)["tools"]["image"]["max_bytes"] == 1024 * 1024
    assert _stored(server)["tools"]["memory"]["enabled"] is False
    mine.get_by_role("button", name="Reset all to defaults").click()
    _save(mine, "Save 2 changes")


def test_no_switch_is_offered_where_another_mode_would_not_help(server, page, model):
    refused = called(("read_file", {"path": "x"}))
    server.interlock("settings", "set", "tools.fs.enabled", "false")
    try:
        is_done(begin(page, model.plays("Read x, once more", refused, said("I may not."))))
        expect(page.get_by_text("in the stored settings (tools.fs.enabled)").first).to_be_attached()
        expect(page.get_by_role("button", name="Switch mode")).to_have_count(0)
    finally:
        server.interlock("settings", "set", "tools.fs.enabled", "true")
    # What could be done then is in the log; what can be done now is told.
    composer(page).fill("/why")
    composer(page).press("Enter")
    dialog = page.get_by_role("dialog", name="Last denied call")
    expect(dialog).to_contain_text("Only a person can switch it (/mode chat).")
    dialog.get_by_role("button", name="Switch mode").click()
    expect(page.get_by_role("dialog", name="Session mode")).to_be_visible()
