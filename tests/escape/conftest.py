"""The sandbox that attacks are run in, the gateway they are run against, the stand of hostile servers."""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from interlock.gateway.server import listening_socket
from interlock.sandbox.child.landlock import CONFINING_ABI, abi_version
from interlock.sandbox.landlock_backend import LandlockBackend
from tests.escape.trying import Listener
from tests.harness import gateway as gateway_module
from tests.harness.gateway import GatewayHarness, open_gateway_harness
from tests.harness.mcp import McpHarness, open_mcp_harness
from tests.harness.sandbox import SandboxHarness


@pytest.fixture
async def sandbox(tmp_path) -> AsyncIterator[SandboxHarness]:
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
async def shared_sandbox(launched, tmp_path) -> AsyncIterator[SandboxHarness]:
    with attacked(launched, tmp_path, []) as made:
        yield made


@pytest.fixture
def listener(sandbox) -> Iterator[Listener]:
    opened = Listener(sandbox.outside)
    yield opened
    opened.close()


@pytest.fixture
def linked(sandbox: SandboxHarness) -> SandboxHarness:
    """Inside and outside, each with a link to either's file."""
    for place in (sandbox.inside, sandbox.outside):
        for name in ("inside", "outside"):
            (place / f"link-{name}").symlink_to(sandbox.place / name / "file")
    return sandbox


async def started(losses: list[str]) -> LandlockBackend:
    if abi_version() < CONFINING_ABI:
        pytest.skip("this kernel has no Landlock that confines")
    backend = LandlockBackend(report=losses.append)
    await backend.start()
    return backend


@contextmanager
def attacked(backend: LandlockBackend, place: Path, losses: list[str]) -> Iterator[SandboxHarness]:
    """Whatever a test does, it fails if a process of it is left."""
    made = SandboxHarness(backend, place, losses=losses)
    yield made
    os.close(made.folder)
    assert made.survivors() == []


@pytest.fixture
async def open_harness(tmp_path, monkeypatch) -> AsyncIterator[Callable[..., Awaitable[GatewayHarness]]]:
    """A gateway to be attacked; call it with settings by their names in the environment."""
    async with AsyncExitStack() as stack:

        async def opening(**environment: str) -> GatewayHarness:
            return await stack.enter_async_context(open_gateway_harness(tmp_path, monkeypatch, environment))

        yield opening


@pytest.fixture
async def harness(open_harness) -> GatewayHarness:
    return await open_harness()


@pytest.fixture
def narrow_harness(open_harness, monkeypatch):
    """One whose connections hold next to nothing that the other end has not read."""

    def narrow(host: str, port: int) -> socket.socket:
        listening = listening_socket(host, port)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return listening

    monkeypatch.setattr(gateway_module, "listening_socket", narrow)
    return open_harness


@pytest.fixture
async def mcp(tmp_path, monkeypatch) -> AsyncIterator[McpHarness]:
    """For MCP servers, which attack from inside."""
    if abi_version() < CONFINING_ABI:
        pytest.skip("this kernel has no Landlock that confines")
    async with open_mcp_harness(tmp_path, monkeypatch) as made:
        yield made
