"""Tasks on both databases."""

import pytest

from tests.harness.store import StoreHarness
from tests.harness.tasks import TaskHarness


@pytest.fixture
async def harness(store: StoreHarness) -> TaskHarness:
    return TaskHarness(store)
