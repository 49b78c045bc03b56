"""A real browser, real servers, and a watch on everything that must never happen in the page.

One browser, one model and one server for all files of a process. Tests on the shared server look for what
they made themselves; whoever changes settings, kills a server or needs another one starts one with `serve`.
"""

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.e2e.page.furniture import furnish
from tests.harness.browser import BrowserHarness, BrowserWindows, PageMonitor
from tests.harness.external_services import chromium
from tests.harness.scripted_model import ScriptedModel
from tests.harness.server_process import ServerProcess

EVERY_MODE = "chat,plan,coding"
_HARNESS = pytest.StashKey[BrowserHarness]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Playwright's loop is this thread's while a test of the page runs, and not one test longer.

    What a file leaves to the garbage collector is collected at its end: a socket or a task of Playwright's
    that is found later would fail whichever test runs then.
    """
    before = item.config.stash.get(_HARNESS, None)
    if before is not None and item.path.is_relative_to(Path(__file__).parent):
        before.wake()
    try:
        return (yield)
    finally:
        after = item.config.stash.get(_HARNESS, None)
        if after is not None:
            after.sleep()
            if nextitem is None or nextitem.path != item.path:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    gc.collect()


@pytest.fixture(scope="session")
def harness(request: pytest.FixtureRequest) -> Iterator[BrowserHarness]:
    path = chromium()
    if path is None:
        pytest.skip("no chromium on PATH: the page is tested in a real browser")
    started = request.config.stash[_HARNESS] = BrowserHarness(path)
    yield started
    del request.config.stash[_HARNESS]
    started.close()


@pytest.fixture(scope="session")
def browser(harness: BrowserHarness) -> Browser:
    return harness.browser


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as playing:
        yield playing


@pytest.fixture(autouse=True)
def _nothing_unwritten(model: ScriptedModel) -> Iterator[None]:
    """The model was asked nothing that this test did not write down."""
    yield
    faults = list(model.server.faults)
    model.server.faults.clear()
    assert faults == []


def _starter(folders: pytest.TempPathFactory) -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def start(open_modes: str = EVERY_MODE, home: Path | None = None, **variables: str) -> ServerProcess:
        server = ServerProcess(home or folders.mktemp("home"), open_modes, **variables)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers; they end with the file."""
    yield from _starter(tmp_path_factory)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[ServerProcess]:
    """With every mode open, and a model that says what a test wrote down."""
    starting = _starter(tmp_path_factory)
    yield next(starting)(**model.variables)
    next(starting, None)


@pytest.fixture(scope="module")
def server(shared: ServerProcess) -> ServerProcess:
    """The shared one, unless a file has its own."""
    return shared


@pytest.fixture
def windows(harness: BrowserHarness) -> Iterator[BrowserWindows]:
    with harness.windows() as opened:
        yield opened
    assert opened.monitor.faults == []


@pytest.fixture
def watch(windows: BrowserWindows) -> PageMonitor:
    return windows.monitor


@pytest.fixture
def new_context(windows: BrowserWindows) -> Callable[..., BrowserContext]:
    return windows.new_context


@pytest.fixture
def enter(windows: BrowserWindows) -> Callable[..., Page]:
    return windows.enter


@pytest.fixture
def page(server: ServerProcess, windows: BrowserWindows) -> Page:
    return windows.enter(server)


@pytest.fixture(scope="session")
def lived_in(shared: ServerProcess, model: ScriptedModel, harness: BrowserHarness) -> str:
    """A session of a furnished house, once for all tests of a process."""
    with harness.windows() as opened:
        return furnish(opened.enter(shared), shared, model)
