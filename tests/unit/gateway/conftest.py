"""Doors for each test with what stands behind them, and the credentials of its store."""

import pytest

from interlock.gateway.auth import Credentials
from interlock.gateway.doors import Doors
from interlock.redaction.redactor import Redactor
from interlock.worker.runs import RunDesk
from tests.harness.tasks import TaskHarness
from tests.unit.gateway.knocking import Behind, policy


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def doors(behind, monkeypatch) -> Doors:
    return Doors(behind, policy(monkeypatch))


@pytest.fixture
def credentials(store) -> Credentials:
    return Credentials(store.database, store.log, Redactor())


@pytest.fixture
def runs(store) -> RunDesk:
    """What ends the work of a credential."""
    return TaskHarness(store).runs
