"""An answer in the middle: reloads, second windows, a server that dies, and drafts."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.judges import serious, sticks_out
from tests.harness.browser import (
    SERVER_AWAY,
    begin,
    composer,
    is_connected,
    is_done,
    say,
    session_id,
    task,
    texts,
)
from tests.harness.model_answers import DropConnection
from tests.harness.scripted_model import Gate, called, held, held_back, said

# So that a new process does not wait long for what a dead one held.
LEASE_SECONDS = "4"
FIRST = "The beginning of the answer, with enough words to be seen. "
REST = "And the rest of it, which came after the reload."


@pytest.fixture(scope="module")
def server(serve, model):
    return serve(**model.variables, SESSION_LEASE_SECONDS=LEASE_SECONDS)


def _text(task):
    """The paragraphs of the answer."""
    return " ".join(texts(task.get_by_role("paragraph")))


def test_a_reload_in_the_middle_goes_on_and_doubles_nothing(server, page, enter, model):
    gate = Gate()
    message = model.plays("Tell me slowly", held(FIRST, gate, REST))
    telling = begin(page, message)
    expect(telling.get_by_text(FIRST[:40])).to_be_visible()
    other = enter(server, f"#/chat/{session_id(page)}")
    expect(task(other, message).get_by_text(FIRST[:40])).to_be_visible()
    page.reload()
    expect(telling.get_by_text(FIRST[:40])).to_be_visible()
    expect(telling.get_by_text("Working…")).to_be_visible()
    gate.set()
    for window in (page, other):
        is_done(task(window, message))
        expect(task(window, message).get_by_text(FIRST + REST, exact=True)).to_have_count(1)
        assert _text(task(window, message)).count("beginning") == 1
    page.reload()
    is_done(telling)
    assert _text(telling).count("beginning") == 1
    assert len(server.rows("SELECT 1 FROM event_texts WHERE text = ?", FIRST + REST)) == 1


def test_two_windows_of_one_session_show_the_same(server, page, enter, model):
    message = model.plays("Say it to both", called(("current_time", {})), said("**Both** hear `it`."))
    is_done(begin(page, model.plays("Open the session", said("It is open."))))
    other = enter(server, f"#/chat/{session_id(page)}")
    expect(task(other, "Open the session")).to_be_visible()
    is_done(say(other, message))
    is_done(task(page, message))
    here, there = (task(each, message).aria_snapshot() for each in (page, other))
    assert here == there


def test_a_server_that_dies_is_waited_for_and_the_answer_goes_on(server, page, model, watch):
    gate = Gate()
    message = model.plays("Survive this", [held(FIRST, gate), held(FIRST, REST)])
    telling = begin(page, message)
    expect(telling.get_by_text(FIRST[:40])).to_be_visible()
    with watch.expects(SERVER_AWAY):
        server.kill()
        lost = page.get_by_role("status").filter(has_text="Connection lost. Reconnecting")
        expect(lost).to_be_visible()
        expect(page.get_by_text("Not connected. Your text is kept")).to_be_visible()
        composer(page).fill("written while it was away")
        server.start()
        expect(page.get_by_text(re.compile("^Connected"))).to_be_visible()
        expect(lost).to_have_count(0)
    is_done(telling)
    gate.set()
    assert _text(telling).count("beginning") == 1
    expect(telling.get_by_text(FIRST + REST, exact=True)).to_be_visible()
    expect(composer(page)).to_have_value("written while it was away")


def test_a_draft_survives_a_reload_and_belongs_to_its_session(page, model):
    is_done(begin(page, model.plays("A session with a draft", said("Go on."))))
    composer(page).fill("half a thought")
    page.reload()
    expect(composer(page)).to_have_value("half a thought")
    page.get_by_role("link", name="New chat").click()
    expect(composer(page)).to_have_value("")
    page.go_back()
    expect(composer(page)).to_have_value("half a thought")
    model.plays("half a thought", said("And the other half."))
    composer(page).press("Enter")
    is_done(task(page, "half a thought"))
    page.reload()
    is_done(task(page, "half a thought"))
    expect(composer(page)).to_have_value("")


def test_messages_that_come_while_it_works_are_queued(page, model):
    gate = Gate()
    first = model.plays("The first of two", held("Working on the first of them. ", gate, "Done with it."))
    second = model.plays("The second of two", said("Done with the second."))
    begin(page, first)
    expect(task(page, first).get_by_text("Working…")).to_be_visible()
    expect(page.get_by_text("New messages are queued")).to_be_visible()
    waiting = say(page, second)
    expect(waiting.get_by_text(re.compile("Queued behind 1 task"))).to_be_visible()
    gate.set()
    is_done(waiting)
    is_done(task(page, first))


def test_a_session_that_was_left_while_the_server_was_away_is_not_followed_again(
    server, page, model, watch
):
    is_done(begin(page, model.plays("Say that you are there", said("I am."))))
    left = session_id(page)
    page.evaluate(
        """() => {
          const { send } = WebSocket.prototype;
          document.body.dataset.asked = '';
          WebSocket.prototype.send = function (text) {
            const { method, params } = JSON.parse(text);
            document.body.dataset.asked += ` ${method} ${params.session_id ?? ''};`;
            return send.call(this, text);
          };
        }"""
    )
    with watch.expects(SERVER_AWAY):
        server.kill()
        expect(page.get_by_text("Not connected. Your text is kept")).to_be_visible()
        page.evaluate("() => (location.hash = '#/chat')")
        expect(page.get_by_role("heading", name="New chat")).to_be_visible()
        server.start()
        expect(page.get_by_text(re.compile("^Connected"))).to_be_visible()
    expect(page.locator("body")).to_have_attribute("data-asked", re.compile("session.list"))
    assert f"session.subscribe {left};" not in page.locator("body").get_attribute("data-asked")


def test_a_message_on_its_way_is_sent_though_its_session_was_left_while_the_server_was_away(
    server, page, model, watch
):
    """The page has said that it will be."""
    is_done(begin(page, model.plays("Begin with this", said("Begun."))))
    session = session_id(page)
    message = model.plays("Do not lose these words", said("They are here."))
    server.freeze()
    composer(page).fill(message)
    composer(page).press("Enter")
    with watch.expects(SERVER_AWAY):
        server.kill()
        expect(page.get_by_text("Will be sent when the connection is restored.")).to_be_visible()
        page.evaluate("() => (location.hash = '#/chat')")
        expect(page.get_by_role("heading", name="New chat")).to_be_visible()
        server.start()
        expect(page.get_by_text(re.compile("^Connected"))).to_be_visible()
    for _ in range(100):
        if server.rows("SELECT 1 FROM event_texts WHERE text = ?", message):
            break
        page.wait_for_timeout(50)
    page.evaluate(f"() => (location.hash = '#/chat/{session}')")
    is_done(task(page, message))
    assert len(server.rows("SELECT 1 FROM event_texts WHERE text = ?", message)) == 1


@pytest.mark.parametrize("swallowed", ["**/whoami", "**/ws"])
def test_a_network_that_swallows_everything_for_a_while_is_tried_again(server, enter, swallowed):
    """Of a laptop that wakes up, say: nothing is refused, and nothing answers either."""
    page = enter(server)
    page.clock.install()
    taken = []
    if swallowed == "**/ws":
        # It is neither connected nor closed.
        page.route_web_socket(
            swallowed, lambda socket: taken.append(socket) if not taken else open_to(socket)
        )
    else:
        page.route(swallowed, lambda route: taken.append(route) if not taken else route.continue_())
    page.reload()
    for _ in range(100):
        if taken:
            break
        page.wait_for_timeout(50)
    assert taken
    expect(page.locator(".connection.open")).to_have_count(0)
    page.clock.fast_forward(20_000)
    is_connected(page)


def open_to(socket):
    socket.connect_to_server()


def test_reasoning_is_folded_live_and_after_a_reload_and_has_its_time(server, page, enter, model):
    gate, end = Gate(), Gate()
    thoughts = [
        {"reasoning_content": text} for text in ("First I look at all that shows the time: ", "the clock.")
    ]
    message = model.plays("Think about noon", held(thoughts[0], gate, thoughts[1], FIRST, end))
    thinking = begin(page, message)
    folded = thinking.get_by_role("group")
    expect(folded).to_have_count(1)
    expect(folded).to_have_text(re.compile("Reasoning…"))
    expect(thinking.get_by_text("First I look at")).to_be_hidden()
    folded.locator("summary").press("Enter")
    expect(thinking.get_by_text("First I look at")).to_be_visible()
    assert serious(page) == []
    page.reload()
    expect(folded).to_have_text(re.compile(r"Reasoning…\s+First I look at"))
    other = enter(server, f"#/chat/{session_id(page)}", locale="zh-CN")
    expect(other.get_by_role("article").get_by_role("group")).to_have_text(re.compile("正在推理…"))
    gate.set()
    expect(thinking.get_by_text(FIRST[:40])).to_be_visible()
    # Its time is known before its answer is whole.
    expect(folded).to_have_text(re.compile("Reasoned for [0-9.]+ m?s"))
    end.set()
    is_done(thinking)
    expect(other.get_by_role("article").get_by_role("group")).to_have_text(re.compile("推理用时"))
    for _ in range(2):
        expect(folded).to_have_text(
            re.compile(r"Reasoned for .*\s+First I look at all that shows the time: the clock\.")
        )
        expect(thinking.get_by_text("First I look at all that shows the time: the clock.")).to_be_hidden()
        page.reload()


def test_reasoning_that_breaks_off_is_taken_back(page, model):
    broken = held({"reasoning_content": "A wrong idea"}, DropConnection())
    message = model.plays("Think twice", [broken, held({"reasoning_content": "A good idea"}, "Yes.")])
    is_done(telling := begin(page, message))
    expect(telling.get_by_role("group")).to_have_count(1)
    expect(telling.get_by_role("group")).to_have_text(re.compile(r"Reasoned for .*\s+A good idea\s*$"))


@pytest.mark.parametrize("how", ["Control+Enter", "button", "/steer"])
def test_a_message_steers_the_running_task_and_stands_within_it(server, page, enter, model, how):
    gate, words = Gate(), f"Turn left by {how}"
    message = model.plays(f"Walk on by {how}", held_back(gate, called(("current_time", {}))))
    model.plays(words, said("Left it is."))
    walking = begin(page, message)
    expect(page.get_by_role("button", name="Steer", exact=True)).to_be_visible()
    composer(page).fill(f"/steer {words}" if how == "/steer" else words)
    if how == "button":
        assert serious(page) == []
        page.set_viewport_size({"width": 320, "height": 640})
        assert sticks_out(page) == []
        assert composer(page).bounding_box()["width"] > 200
        page.get_by_role("button", name="Steer", exact=True).click()
    else:
        composer(page).press(how if how != "/steer" else "Enter")
    waiting = task(page, words)
    expect(waiting.get_by_text("The running task gets this at its next turn")).to_be_visible()
    other = enter(server, f"#/chat/{session_id(page)}")
    expect(task(other, words)).to_have_count(1)
    gate.set()
    for window in (page, other):
        is_done(task(window, message))
        expect(window.get_by_label("Task", exact=True)).to_have_count(1)
    for _ in range(2):
        shown = walking.inner_text()
        places = [shown.index(part) for part in (message, "Get the time", words, "Left it is.")]
        assert places == sorted(places)
        page.reload()
        is_done(walking)


def test_without_a_running_task_there_is_nothing_to_steer(page, model):
    is_done(begin(page, model.plays("Be quick", said("Done."))))
    expect(page.get_by_role("button", name="Steer", exact=True)).to_have_count(0)
    composer(page).fill(model.plays("And again", said("Done again.")))
    composer(page).press("Control+Enter")
    is_done(task(page, "And again"))
