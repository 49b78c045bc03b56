"""What is read: tables, other scripts, narrow windows, and the place in a long conversation."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.judges import PHONE
from tests.harness.browser import begin, composer, is_done, say, session_id, switch_mode, task
from tests.harness.scripted_model import called, refused, said
from tests.unit.questions.widget_cases import CASES

COLUMNS = 12
TABLE = "\n".join(
    "|" + "|".join(cells) + "|"
    for cells in (
        [f" column {number} " for number in range(COLUMNS)],
        ["---"] * COLUMNS,
        [f" value {number} `code` " for number in range(COLUMNS)],
    )
)
# On how many lines the letters of each word stand.
BROKEN_WORDS = r"""(table) => {
  const broken = [];
  const walk = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    for (const word of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""
DIRECTION = "element => getComputedStyle(element).direction"
ARABIC = "مرحبا بالعالم\n\n- أولا\n- ثانيا\n\n> اقتباس `x`\n\n```\ncode\n```\n\nAnd in English.\n\n- one"


@pytest.fixture
def phone(server, enter):
    return enter(server, **PHONE)


def test_a_wide_table_keeps_its_words_whole(phone, model):
    is_done(say(phone, model.plays("Many columns", said(TABLE, size=80))))
    table = phone.get_by_role("region", name="Table")
    assert table.evaluate(BROKEN_WORDS) == []
    assert table.evaluate("element => element.scrollWidth > element.clientWidth")


def test_a_script_from_right_to_left_runs_that_way(page, model):
    answer = begin(page, model.plays("سلام", said(ARABIC, size=80)))
    is_done(answer)
    expect(answer.get_by_text("And in English.")).to_have_css("direction", "ltr")
    ways = [answer.locator(name).first.evaluate(DIRECTION) for name in ("p", "ul", "blockquote", "pre")]
    assert ways == ["rtl", "rtl", "rtl", "ltr"]
    assert answer.locator("blockquote code").evaluate(DIRECTION) == "ltr"
    assert answer.locator("ul").last.evaluate(DIRECTION) == "ltr"
    assert answer.locator(".said-text").evaluate(DIRECTION) == "rtl"
    composer(page).fill("سلام")
    assert composer(page).evaluate(DIRECTION) == "rtl"


def test_what_stands_below_a_task_fits_a_phone(phone, model):
    asking, _ = CASES["selection"]
    waiting = say(phone, model.plays("Ask on the phone", called(("ask_user", asking)), said("Thanks.")))
    foot = waiting.get_by_text("Waiting for your answer").locator("..")
    assert foot.bounding_box()["height"] < 70
    waiting.get_by_role("button", name="Cancel").click()
    expect(waiting.get_by_text("Cancelled by you")).to_be_visible()
    failing = say(phone, model.plays("Fail on the phone", refused(400, "the model is on holiday")))
    words = failing.get_by_text(re.compile("the model is on holiday"))
    assert words.bounding_box()["width"] > 220


def test_a_first_visit_begins_at_the_top(serve, enter):
    small = {"width": 390, "height": 600}
    page = enter(serve(""), **(PHONE | {"viewport": small}))
    expect(page.get_by_role("heading", name="An agent that can only do what you allow")).to_be_in_viewport()


def test_a_long_question_is_read_from_its_beginning(server, enter, model):
    asking, _ = CASES["form"]
    page = enter(server, viewport={"width": 1000, "height": 500})
    lines = "\n\n".join(f"Line {number}." for number in range(30))
    is_done(begin(page, model.plays("A long talk", said(lines, size=80))))
    asked = say(page, model.plays("A long form", called(("ask_user", asking)), said("Filled in.")))
    expect(asked.get_by_role("heading", name="Release")).to_be_in_viewport()
    page.reload()
    expect(asked.get_by_role("heading", name="Release")).to_be_in_viewport()
    boxes = [
        asked.get_by_text(label, exact=True).locator("xpath=ancestor::label") for label in ("public", "mac")
    ]
    assert all(
        box.evaluate("element => parseFloat(getComputedStyle(element).paddingLeft)") > 5 for box in boxes
    )
    asked.get_by_role("textbox", name=re.compile("^Version")).fill("1.2")
    submit = asked.get_by_role("button", name="Submit")
    submit.scroll_into_view_if_needed()
    expect(submit).to_be_in_viewport()
    asked.get_by_role("checkbox", name="mac").check()
    expect(submit).to_be_in_viewport()


def test_a_button_hides_no_two_lines_and_what_failed_is_counted(server, page, model):
    (server.root / "eight.txt").write_text("".join(f"line {number}\n" for number in range(8)))
    (server.root / "nine.txt").write_text("".join(f"line {number}\n" for number in range(9)))
    is_done(begin(page, model.plays("Hello to the reader", said("Hello."))))
    switch_mode(page, "chat_safe", "chat")
    calls = [("read_file", {"path": f"{name}.txt"}) for name in ("eight", "nine", "none")]
    reading = say(page, model.plays("Read three files", called(*calls), said("Read.")))
    is_done(reading)
    eight, nine, none = reading.get_by_role("article").all()
    expect(eight).to_contain_text("line 7")
    expect(nine).not_to_contain_text("line 8")
    nine.get_by_role("button", name="Show 3 more of 9 lines").click()
    expect(nine).to_contain_text("line 8")
    expect(none.get_by_text("failed", exact=True)).to_be_visible()
    expect(reading.get_by_text("1 failed", exact=True)).to_be_visible()
    page.set_viewport_size(PHONE["viewport"])
    assert eight.get_by_role("button", name="Copy").bounding_box()["width"] < 44


def test_a_session_is_opened_at_its_end(server, page, enter, model):
    """Its cards are drawn one after another, and each makes it longer."""
    (server.root / "long.txt").write_text("".join(f"line {number}\n" for number in range(8)))
    is_done(begin(page, model.plays("Hello once more", said("Hello."))))
    switch_mode(page, "chat_safe", "chat")
    reads = called(*[("read_file", {"path": "long.txt"})] * 6)
    for number in range(4):
        is_done(say(page, model.plays(f"Read it all {number}", reads, said("Read."))))
    other = enter(server, f"#/chat/{session_id(page)}", viewport={"width": 1000, "height": 600})
    last = task(other, "Read it all 3")
    expect(last.get_by_text("Done", exact=True)).to_be_in_viewport()
    other.get_by_role("main").hover()
    other.mouse.wheel(0, -300)
    expect(last.get_by_text("Done", exact=True)).not_to_be_in_viewport()
    expect(other.get_by_role("button", name="Jump to latest")).to_be_visible()
