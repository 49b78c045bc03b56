"""A stand for each test that speaks to servers."""

import pytest

from interlock.sandbox.landlock import abi_version
from tests.integration.mcp.stand import opened_stand


@pytest.fixture
async def stand(tmp_path, monkeypatch):
    if not abi_version():
        pytest.skip("this kernel has no Landlock")
    async with opened_stand(tmp_path, monkeypatch) as made:
        yield made
