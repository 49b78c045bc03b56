"""A real server, a real browser, and a watch on everything that must never happen in the page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.page.furniture import furnish
from tests.harness.browser import PageMonitor
from tests.harness.model_thread import ScriptedModel
from tests.harness.server_process import ServerProcess
from tests.harness.services import chromium, chromium_flags

PATIENCE_MS = 20_000
EVERY_MODE = "chat,plan,coding"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One a file: while Playwright's own loop is there, no other can run in this thread."""
    path = chromium()
    if path is None:
        pytest.skip("no chromium on PATH: the page is tested in a real browser")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=chromium_flags())
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as playing:
        yield playing
        assert playing.server.faults == []


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers; they end with the file."""
    started: list[ServerProcess] = []

    def start(open_modes: str = EVERY_MODE, home: Path | None = None, **variables: str) -> ServerProcess:
        server = ServerProcess(home or tmp_path_factory.mktemp("home"), open_modes, **variables)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def server(serve: Callable[..., ServerProcess], model: ScriptedModel) -> ServerProcess:
    """With every mode open, and a model that says what a test wrote down."""
    return serve(**model.variables)


@pytest.fixture
def watch() -> Iterator[PageMonitor]:
    watching = PageMonitor()
    yield watching
    assert watching.faults == []


@pytest.fixture
def new_context(browser: Browser, watch: PageMonitor) -> Iterator[Callable[..., BrowserContext]]:
    """A browser of somebody who was never here: no cookie, no draft, nothing kept."""
    expect.set_options(timeout=PATIENCE_MS)
    opened: list[BrowserContext] = []

    def open_context(server: ServerProcess, **options: object) -> BrowserContext:
        context = browser.new_context(**{"locale": "en-GB", **options})
        context.set_default_timeout(PATIENCE_MS)
        watch.look_at(context, server.origin)
        opened.append(context)
        return context

    yield open_context
    for context in opened:
        context.close()


@pytest.fixture
def enter(new_context: Callable[..., BrowserContext]) -> Callable[..., Page]:
    """A window in which somebody is logged in: the first by the printed link, others by its cookie."""

    def open_window(server: ServerProcess, address: str = "", **options: object) -> Page:
        context = new_context(server, **options)
        context.add_cookies(server.cookies)
        page = context.new_page()
        page.goto(f"{server.origin}/{address}" if server.cookies else server.link)
        # In whatever language, and also where the side bar is folded away.
        expect(page.locator(".connection.open")).to_be_attached()
        server.cookies = context.cookies()
        return page

    return open_window


@pytest.fixture
def page(server: ServerProcess, enter: Callable[..., Page]) -> Page:
    return enter(server)


@pytest.fixture(scope="module")
def lived_in(server: ServerProcess, model: ScriptedModel, browser: Browser) -> str:
    """A session of a furnished house, once for all tests of a file."""
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(server.link)
    session = furnish(page, server, model)
    server.cookies = context.cookies()
    context.close()
    return session
