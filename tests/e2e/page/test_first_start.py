"""From the printed link to the first message."""

import re

import pytest
from playwright.sync_api import expect

from tests.harness.browser import NOT_LET_IN, composer, is_done, say

CONNECTED = re.compile("^Connected")
TOUR = [
    "Type a task below",
    "The mode at the top decides which tools are allowed",
    "Every step goes into a tamper-evident log",
]


@pytest.fixture(scope="module")
def fresh(serve):
    """With the built-in model, and nothing said yet: as a newcomer has it."""
    return serve(open_modes="")


def test_the_printed_link_logs_in_once(fresh, new_context, watch):
    page = new_context(fresh).new_page()
    page.goto(fresh.link)
    expect(page.get_by_text(CONNECTED)).to_be_visible()
    for sentence in TOUR:
        expect(page.get_by_role("listitem").filter(has_text=sentence)).to_be_visible()
    code = fresh.link.partition("#code=")[2]
    assert page.url == f"{fresh.origin}/"
    assert page.evaluate("history.length") <= 2
    assert code not in page.content()
    assert code not in page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    page.reload()
    expect(page.get_by_text(CONNECTED)).to_be_visible()
    fresh.cookies = page.context.cookies()
    _a_second_use_explains(fresh, new_context, watch)
    assert fresh.events("auth.login")
    assert code not in fresh.complaints()


def _a_second_use_explains(server, new_context, watch):
    other = new_context(server).new_page()
    with watch.expects(NOT_LET_IN):
        other.goto(server.link)
        expect(other.get_by_role("alert")).to_contain_text(
            "This link was already used or is older than ten minutes."
        )
        expect(other.get_by_text("interlock token link")).to_be_visible()
        assert other.url == f"{server.origin}/"
        expect(composer(other)).to_have_count(0)
    other.goto(server.interlock("token", "link").strip())
    expect(other.get_by_text(CONNECTED)).to_be_visible()


def test_the_tour_goes_with_the_first_message(fresh, enter, watch):
    page = enter(fresh)
    tour = page.get_by_text(TOUR[0])
    expect(tour).to_be_visible()
    is_done(say(page, "What time is it?"))
    page.get_by_role("link", name="New chat").click()
    expect(page.get_by_role("heading", name="What do you want to do?")).to_be_visible()
    expect(tour).to_have_count(0)
    with watch.expects(NOT_LET_IN):
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_text("interlock token link")).to_be_visible()
        page.reload()
        expect(page.get_by_text("interlock token link")).to_be_visible()
    assert fresh.events("auth.logout")
