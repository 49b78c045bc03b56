"""Doors for each test, and what stands behind them."""

import pytest

from interlock.gateway.doors import Doors
from tests.unit.gateway.knocking import Behind, policy


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def doors(behind, monkeypatch) -> Doors:
    return Doors(behind, policy(monkeypatch))
