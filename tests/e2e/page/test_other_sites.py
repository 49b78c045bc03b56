"""Pages of other sites in the same browser: what they can make it do to this server, tried for real."""

import http.server
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.harness.external_services import REBOUND

BLANK = b"<!doctype html><title>another site</title><body></body>"


@pytest.fixture(scope="module")
def other_site() -> Iterator[int]:
    """On another port of the same machine: browsers send it this server's cookies."""

    class Blank(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(BLANK)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def visitor(browser, server, page) -> Iterator[BrowserContext]:
    """Somebody who is logged in here, and opens other pages; nobody watches those pages' console."""
    context = browser.new_context()
    context.add_cookies(server.cookies)
    ours = context.new_page()
    ours.goto(server.origin)
    expect(ours.get_by_role("textbox", name="Your message")).to_be_visible()
    yield context
    context.close()


def _answers_below(context: BrowserContext, page: Page) -> Callable[[str], set[int]]:
    """What the server answered, also where the browser keeps the answer from the page and its tests."""
    asked: dict[str, str] = {}
    answered: list[tuple[str, int]] = []
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.on(
        "Network.requestWillBeSent", lambda of: asked.update({of["requestId"]: of["request"]["url"]})
    )
    devtools.on(
        "Network.responseReceivedExtraInfo", lambda of: answered.append((of["requestId"], of["statusCode"]))
    )
    return lambda url: {status for request, status in answered if asked.get(request) == url}


def test_another_site_reads_nothing_sends_nothing_and_shows_nothing(visitor, server, other_site):
    page = visitor.new_page()
    answers = _answers_below(visitor, page)
    page.goto(f"http://127.0.0.1:{other_site}/")
    tried = page.evaluate(
        """async (origin) => {
          const outcome = (promise) => promise.then(() => 'got in', () => 'refused');
          const socket = () => new Promise((resolve, reject) => {
            const made = new WebSocket(origin.replace('http', 'ws') + '/ws');
            made.onopen = resolve; made.onerror = reject;
          });
          const readable = async (path, options) => {
            const answer = await fetch(origin + path, { credentials: 'include', ...options });
            if (answer.type === 'opaque') throw new Error('cannot be read');
          };
          const asked = {
            socket: socket(),
            fetch: readable('/export/events.jsonl'),
            opaque: readable('/export/events.jsonl', { mode: 'no-cors' }),
            metrics: readable('/metrics', { mode: 'no-cors' }),
            post: readable('/logout', { method: 'POST', mode: 'no-cors' }),
            login: readable('/login', { method: 'POST', mode: 'no-cors', body: '{"code":"x"}' }),
            preflight: readable('/login', { method: 'POST', headers: { Authorization: 'Bearer x' } }),
            script: import(origin + '/static/js/i18n.js'),
          };
          const found = {};
          for (const [name, promise] of Object.entries(asked)) found[name] = await outcome(promise);
          const frame = document.createElement('iframe');
          frame.src = origin + '/';
          document.body.append(frame);
          return found;
        }""",
        server.origin,
    )
    assert tried == dict.fromkeys(tried, "refused")
    page.wait_for_timeout(200)
    # With the cookie in hand the server did no work for any of them.
    for path in ("/export/events.jsonl", "/metrics", "/logout", "/login", "/static/js/i18n.js"):
        assert answers(f"{server.origin}{path}") == {403}, path
    assert all(not frame.url.startswith(server.origin) for frame in page.frames)
    # Still logged in.
    ours = visitor.pages[0]
    ours.reload()
    expect(ours.get_by_role("textbox", name="Your message")).to_be_visible()


def test_an_opened_window_is_out_of_reach(visitor, server, other_site):
    """It can be opened, as by any link; it cannot be steered, read or sent codes to guess with."""
    page = visitor.new_page()
    page.goto(f"http://127.0.0.1:{other_site}/")
    with visitor.expect_page() as opened:
        page.evaluate(f"window.made = window.open('{server.origin}/#code=guess'), 0")
    ours = opened.value
    expect(ours.get_by_role("textbox", name="Your message")).to_be_visible()
    assert ours.evaluate("window.opener") is None
    assert page.evaluate("window.made.closed") is True
    page.evaluate(f"window.made.location = '{server.origin}/#/settings'")
    page.wait_for_timeout(200)
    assert "settings" not in ours.url
    assert "code" not in ours.url


def test_under_another_name_the_browser_gets_nothing(browser, server):
    """A name server that leads another site's name to this machine."""
    context = browser.new_context()
    page = context.new_page()
    address = f"http://{REBOUND}:{urlsplit(server.origin).port}"
    assert page.goto(f"{address}/whoami").status == 403
    assert page.goto(f"{address}/").status == 403
    context.close()
