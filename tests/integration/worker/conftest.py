"""Tasks on both databases."""

import pytest

from tests.conftest import Store
from tests.integration.worker.shop import Shop


@pytest.fixture
async def shop(store: Store) -> Shop:
    return Shop(store)
