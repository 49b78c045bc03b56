"""A browser's windows, watched: what no test of the page may ever see, and what a person does in them."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.harness.external_services import chromium_flags
from tests.harness.server_process import ServerProcess

PATIENCE_MS = 20_000

# What the page does not tell by itself: that its own content policy held something off.
TELL_VIOLATIONS = """addEventListener('securitypolicyviolation', (event) =>
  console.error(`content policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));"""
HOLD_REQUESTS = """window.heldRequests = [];
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (text) {
    if (JSON.parse(text).method === '%s') heldRequests.push(() => send.call(this, text));
    else send.call(this, text);
  };"""
# What a browser writes by itself when a server is away, or refuses something.
SERVER_AWAY = r"ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|WebSocket connection"
NOT_LET_IN = r"status of 401"


class PageMonitor:
    """Collects faults of all windows of a test. A test may say which it expects, and for how long."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._expected: list[str] = []

    @contextmanager
    def expects(self, pattern: str) -> Iterator[None]:
        self._expected.append(pattern)
        yield
        self._expected.remove(pattern)

    def look_at(self, context: BrowserContext, origin: str) -> None:
        context.add_init_script(TELL_VIOLATIONS)
        context.on("console", self._console)
        context.on("weberror", lambda error: self._found(f"page error: {error.error}"))
        context.on("dialog", lambda dialog: (self._found(f"dialog: {dialog.message}"), dialog.dismiss()))
        context.on("request", lambda request: self._asked(request, origin))
        context.on("page", lambda page: self._opened(page, origin))

    def _found(self, fault: str) -> None:
        if not any(re.search(pattern, fault) for pattern in self._expected):
            self.faults.append(fault)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self._found(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request, origin: str) -> None:
        self._at_home(request.url, origin)

    def _opened(self, page: Page, origin: str) -> None:
        page.on("websocket", lambda socket: self._at_home(socket.url, origin))

    def _at_home(self, url: str, origin: str) -> None:
        if urlsplit(url).scheme not in {"data", "blob"} and urlsplit(url).netloc != urlsplit(origin).netloc:
            self._found(f"a request that leaves the server: {url}")


class BrowserWindows:
    """The windows of one test, watched. Each context is a browser of somebody who was never here."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._opened: list[BrowserContext] = []
        self.monitor = PageMonitor()

    def new_context(self, server: ServerProcess, **options: Any) -> BrowserContext:
        """No cookie, no draft, nothing kept. Nothing moves by itself, so nothing is waited for to rest."""
        usual = {"locale": "en-GB", "reduced_motion": "reduce"}
        context = self._browser.new_context(**(usual | options))
        context.set_default_timeout(PATIENCE_MS)
        self.monitor.look_at(context, server.origin)
        self._opened.append(context)
        return context

    def enter(self, server: ServerProcess, address: str = "", **options: Any) -> Page:
        """A window in which somebody is logged in: the first by the printed link, others by its cookie."""
        context = self.new_context(server, **options)
        context.add_cookies(server.cookies)
        page = context.new_page()
        page.goto(f"{server.origin}/{address}" if server.cookies else server.link)
        # In whatever language, and also where the side bar is folded away.
        is_connected(page)
        server.cookies = context.cookies()
        return page

    def close(self) -> None:
        for context in self._opened:
            context.close()
        self._opened.clear()


class BrowserHarness:
    """One browser for all tests of a process.

    Playwright keeps a loop in the thread that started it, and marks it as the running one whenever it
    returns. Asleep, that mark is off, and other tests of this process can run loops of their own.
    """

    def __init__(self, program: str) -> None:
        expect.set_options(timeout=PATIENCE_MS)
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        self.browser = self._playwright.chromium.launch(executable_path=program, args=chromium_flags())

    def wake(self) -> None:
        asyncio._set_running_loop(self._loop)

    def sleep(self) -> None:
        asyncio._set_running_loop(None)

    @contextmanager
    def windows(self) -> Iterator[BrowserWindows]:
        opened = BrowserWindows(self.browser)
        try:
            yield opened
        finally:
            opened.close()

    def close(self) -> None:
        self.wake()
        self.browser.close()
        self._playwright.stop()
        self.sleep()


def in_browser(name: str) -> str:
    """A function that the page evaluates; it is kept as a script of its own."""
    return (Path(__file__).parents[1] / "e2e/page/in_browser" / f"{name}.js").read_text()


# -- what a person does ------------------------------------------------------------------------------


def composer(page: Page, name: str = "Your message") -> Locator:
    return page.get_by_role("textbox", name=name)


def say(page: Page, text: str) -> Locator:
    """Write a message, send it, and look at the task that comes of it."""
    composer(page).fill(text)
    composer(page).press("Enter")
    return task(page, text)


def task(page: Page, text: str) -> Locator:
    """The newest task that has these words in it."""
    return page.get_by_label("Task", exact=True).filter(has_text=text).last


def is_done(task: Locator) -> None:
    expect(task.get_by_text("Done", exact=True)).to_be_visible()


def begin(page: Page, text: str) -> Locator:
    """In a session of its own."""
    new_chat(page)
    return say(page, text)


def new_chat(page: Page) -> None:
    is_connected(page)
    page.get_by_role("link", name="New chat").click()
    expect(page.get_by_role("heading", name="New chat")).to_be_visible()


def is_connected(page: Page) -> None:
    """Until then Enter sends nothing: the text stays in its field."""
    expect(page.locator(".connection.open")).to_be_attached()


def go(page: Page, name: str) -> None:
    """To one of the views, by the menu."""
    page.get_by_role("navigation", name="Main menu").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1, name=re.compile(name, re.IGNORECASE)).first).to_be_visible()


def chip(page: Page, mode: str) -> Locator:
    return page.get_by_role("button", name=f"Mode: {mode}.")


def switch_mode(page: Page, before: str, after: str) -> None:
    chip(page, before).click()
    dialog = page.get_by_role("dialog", name="Session mode")
    dialog.get_by_role("radio", name=re.compile(rf"^{after}\b")).check()
    dialog.get_by_role("button", name=f"Switch to {after}").click()
    expect(chip(page, after)).to_be_visible()
    # The event may arrive before the answer does, and under an open dialog nothing can be written.
    expect(dialog).to_be_hidden()


def session_id(page: Page) -> str:
    page.wait_for_url(re.compile(r"#/chat/.+"))
    return page.url.rsplit("/", 1)[1]


def texts(locator: Locator) -> list[str]:
    return [text.strip() for text in locator.all_inner_texts()]


class HeldRequests:
    """Requests of one method, held in the page's socket until the test lets them go."""

    def __init__(self, page: Page, method: str) -> None:
        self._page = page
        page.add_init_script(HOLD_REQUESTS % method)
        page.reload()
        is_connected(page)

    def release(self) -> int:
        """How many there were."""
        self._page.wait_for_function("() => heldRequests.length")
        return int(self._page.evaluate("() => heldRequests.splice(0).map((send) => send()).length"))
