"""Doors for each test with what stands behind them, and the credentials of its store."""

import pytest

from interlock.gateway.auth import CredentialService
from interlock.gateway.guard import RequestGuard
from interlock.redaction.redactor import Redactor
from interlock.runtime.workflow_runs import WorkflowRunService
from tests.harness.tasks import TaskHarness
from tests.unit.gateway.knocking import Behind, policy


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def doors(behind, monkeypatch) -> RequestGuard:
    return RequestGuard(behind, policy(monkeypatch))


@pytest.fixture
def credentials(store) -> CredentialService:
    return CredentialService(store.database, store.log, Redactor())


@pytest.fixture
def runs(store) -> WorkflowRunService:
    """What ends the work of a credential."""
    return TaskHarness(store).runs
