"""A stand for each test that speaks to servers."""

import pytest

from interlock.sandbox.child.landlock import CONFINING_ABI, abi_version
from tests.harness.mcp import open_mcp_harness


@pytest.fixture
async def harness(tmp_path, monkeypatch):
    if abi_version() < CONFINING_ABI:
        pytest.skip("this kernel has no Landlock that confines")
    async with open_mcp_harness(tmp_path, monkeypatch) as made:
        yield made
