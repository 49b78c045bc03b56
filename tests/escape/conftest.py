"""The sandbox that the attacks are run in."""

import os
from collections.abc import AsyncIterator

import pytest

from interlock.sandbox.landlock import abi_version
from interlock.sandbox.landlock_backend import LandlockBackend
from tests.escape.confinement import World


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[World]:
    """Whatever a test does, it fails if a process of it is left."""
    if not abi_version():
        pytest.skip("this kernel has no Landlock")
    losses: list[str] = []
    backend = LandlockBackend(report=losses.append)
    await backend.start()
    made = World(backend, tmp_path, losses=losses)
    yield made
    await backend.close()
    os.close(made.folder)
    assert made.survivors() == []
