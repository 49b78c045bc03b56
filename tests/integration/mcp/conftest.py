"""A stand for each test that speaks to servers."""

import pytest

from interlock.sandbox.landlock import CONFINING_ABI, abi_version
from tests.integration.mcp.stand import opened_stand


@pytest.fixture
async def stand(tmp_path, monkeypatch):
    if abi_version() < CONFINING_ABI:
        pytest.skip("this kernel has no Landlock that confines")
    async with opened_stand(tmp_path, monkeypatch) as made:
        yield made
