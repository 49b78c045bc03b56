"""The sandbox that attacks are run in, the gateway they are run against, the stand of hostile servers."""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from interlock.gateway.serving import listening_socket
from interlock.sandbox.landlock import CONFINING_ABI, abi_version
from interlock.sandbox.landlock_backend import LandlockBackend
from tests.escape.confinement import World
from tests.escape.trying import Listener
from tests.integration.gateway import house as house_module
from tests.integration.gateway.house import House, opened_house
from tests.integration.mcp.stand import Stand, opened_stand


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[World]:
    """With a launcher of its own, for tests that kill it."""
    losses: list[str] = []
    backend = await started(losses)
    with attacked(backend, tmp_path, losses) as made:
        yield made
        await backend.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched() -> AsyncIterator[LandlockBackend]:
    """One launcher for many attacks: what one of them leaves behind, the next one meets."""
    losses: list[str] = []
    backend = await started(losses)
    yield backend
    await backend.close()
    assert losses == []


@pytest_asyncio.fixture(loop_scope="module")
async def shared_world(launched, tmp_path) -> AsyncIterator[World]:
    with attacked(launched, tmp_path, []) as made:
        yield made


@pytest.fixture
def listener(world) -> Iterator[Listener]:
    opened = Listener(world.outside)
    yield opened
    opened.close()


@pytest.fixture
def linked(world: World) -> World:
    """Inside and outside, each with a link to either's file."""
    for place in (world.inside, world.outside):
        for name in ("inside", "outside"):
            (place / f"link-{name}").symlink_to(world.place / name / "file")
    return world


async def started(losses: list[str]) -> LandlockBackend:
    if abi_version() < CONFINING_ABI:
        pytest.skip("this kernel has no Landlock that confines")
    backend = LandlockBackend(report=losses.append)
    await backend.start()
    return backend


@contextmanager
def attacked(backend: LandlockBackend, place: Path, losses: list[str]) -> Iterator[World]:
    """Whatever a test does, it fails if a process of it is left."""
    made = World(backend, place, losses=losses)
    yield made
    os.close(made.folder)
    assert made.survivors() == []


@pytest.fixture
async def open_house(tmp_path, monkeypatch) -> AsyncIterator[Callable[..., Awaitable[House]]]:
    """A gateway to be attacked; call it with settings by their names in the environment."""
    async with AsyncExitStack() as stack:

        async def opening(**environment: str) -> House:
            return await stack.enter_async_context(opened_house(tmp_path, monkeypatch, environment))

        yield opening


@pytest.fixture
async def house(open_house) -> House:
    return await open_house()


@pytest.fixture
def narrow_house(open_house, monkeypatch):
    """One whose connections hold next to nothing that the other end has not read."""

    def narrow(host: str, port: int) -> socket.socket:
        listening = listening_socket(host, port)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return listening

    monkeypatch.setattr(house_module, "listening_socket", narrow)
    return open_house


@pytest.fixture
async def stand(tmp_path, monkeypatch) -> AsyncIterator[Stand]:
    """For MCP servers, which attack from inside."""
    if abi_version() < CONFINING_ABI:
        pytest.skip("this kernel has no Landlock that confines")
    async with opened_stand(tmp_path, monkeypatch) as made:
        yield made
