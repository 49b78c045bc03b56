"""A bench for each test that calls tools."""

import pytest

from tests.conftest import Store
from tests.doubles import DeclaredTool
from tests.integration.bench import Bench


@pytest.fixture
async def bench(store: Store):
    session = await store.sessions.create(opened_by="test")

    def build(tool=None, **limits) -> Bench:
        return Bench(store, tool or DeclaredTool(), session.id, **limits)

    return build
