"""A runtime with MCP servers: real children in a real sandbox, through the real runner and log."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.gates.mcp_administration import AddServerRequest, ClassifyRequest
from interlock.log.kinds import SYSTEM_STREAM
from interlock.sandbox.backend_selection import BackendSelection
from interlock.sandbox.jobs import SandboxBackend
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext
from interlock.wiring.agents import AgentRuntime
from tests.harness.runtime import RuntimeHarness, open_agent_runtime_here, set_environment

SERVERS = Path(__file__).parent / "mcp_servers"
# Without the environment's packages, which it does not need: it starts in a moment.
QUICK = (str(Path(sys.executable).resolve()), "-I", "-S")
HOSTILE = SERVERS / "hostile.py"
OFFICIAL = SERVERS / "official.py"
WHO = "local:tester"


class McpHarness(RuntimeHarness):
    def __init__(self, agent_runtime: AgentRuntime, root: Path, session_id: str) -> None:
        super().__init__(agent_runtime, root)
        self.session_id = session_id
        self.progress: list[str] = []
        self._calls = 0

    async def add(self, name: str, *command: str, **wish: Any) -> dict[str, Any]:
        wish.setdefault("readable", (SERVERS,))
        made = AddServerRequest(id=name, command=command, **wish)
        return await self.runtime.mcp_servers.add(made, who=WHO)

    async def add_hostile(self, behaviour: str, *more: str, name: str = "bad", **wish: Any) -> None:
        await self.add(name, *QUICK, str(HOSTILE), behaviour, *more, **wish)

    async def inspect(self, name: str) -> dict[str, dict[str, Any]]:
        told = await self.runtime.mcp_servers.inspect(name, is_operator=True)
        return {tool["tool"]: tool for tool in told["offered"]}

    async def allow(
        self, name: str, tool: str, effect: str = "read", modes: str = "coding", **more: Any
    ) -> None:
        known = (await self.runtime.mcp.repository.catalog()).servers[name].tools.get(tool)
        more.setdefault("hash", known.hash if known is not None else "0" * 64)
        wish = ClassifyRequest(effect=effect, modes=tuple(modes.split(",")), **more)
        await self.runtime.mcp_servers.allow(name, tool, wish, who=WHO, is_operator=True)

    async def switch_on(self, *names: str) -> None:
        patch = {"tools": {"mcp": {"enabled": True, "allowed_servers": list(names)}}}
        await self.runtime.stored_settings.update(patch, who=WHO)

    async def ready(self, behaviour: str, *more: str, tool: str = "echo", **wish: Any) -> None:
        """A hostile server, seen, classed for coding and switched on."""
        await self.add_hostile(behaviour, *more, **wish)
        await self.inspect("bad")
        await self.allow("bad", tool)
        await self.switch_on("bad")

    async def call(
        self, tool: str, mode: ToolMode = ToolMode.coding, seconds: float | None = 10.0, **arguments: Any
    ) -> ToolResult:
        self._calls += 1
        call = ToolCall(f"c{self._calls}", tool, arguments, timeout_seconds=seconds)
        authority = await self.runtime.authority(mode)
        context = ToolContext(self.session_id, report_progress=self.progress.append)
        return await self.runtime.runner.call(call, authority, context)

    async def exposed(self, mode: ToolMode = ToolMode.coding) -> set[str]:
        authority = await self.runtime.authority(mode)
        return {name for name in authority.exposed if "__" in name}

    async def flushed(self, kind: str, stream: str = SYSTEM_STREAM) -> list[dict[str, Any]]:
        """The events of one kind, also those that were appended without waiting."""
        await self.runtime.log.transact(SYSTEM_STREAM, lambda _transaction: None)
        return self.payloads(stream, kind)


@asynccontextmanager
async def open_mcp_harness(
    folder: Path, monkeypatch: Any, backend: SandboxBackend | None = None, **environment: str
) -> AsyncIterator[McpHarness]:
    root = set_environment(folder, monkeypatch, environment)
    sandbox = BackendSelection(backend or LandlockBackend(), "chosen by the test")
    async with open_agent_runtime_here(opened=list(ToolMode), sandbox=sandbox) as agent_runtime:
        session = await agent_runtime.runtime.sessions.create(opened_by="test", mode=ToolMode.coding)
        yield McpHarness(agent_runtime, root, session.id)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@asynccontextmanager
async def listening(port: int, *command: str, **environment: str) -> AsyncIterator[str]:
    """A server in a process of its own, once it can be reached; its address."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=os.environ | environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()
