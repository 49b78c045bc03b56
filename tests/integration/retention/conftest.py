"""An archive for each test, and the clock that everybody in it writes by."""

import pytest

from tests.harness.store import StoreHarness
from tests.integration.retention.archive import Archive, Clock


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    for module in ("log.stream_appender", "runtime.tasks"):
        monkeypatch.setattr(f"interlock.{module}.now_us", clock)
    return clock


@pytest.fixture
def archive(store: StoreHarness, clock: Clock) -> Archive:
    return Archive(store, clock)
