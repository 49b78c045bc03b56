"""A gateway in this process: real runtime, real store, real sockets on loopback."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from interlock.wiring.agents import AgentRuntime
from interlock.wiring.gateway import Gateway, ListenAddress, listening_socket, open_gateway, open_server
from tests.harness.runtime import RuntimeHarness, open_agent_runtime_here, set_environment

PATIENCE = 20.0


class RequestRefused(Exception):
    """An `error` frame instead of a response."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(f"{data['code']}: {data['message']}")
        self.code = data["code"]
        self.message = data["message"]


class GatewayClient:
    """One socket. Every frame that comes is kept in `frames`, in order."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[dict[str, Any]] = []
        self._ids = itertools.count(1)
        self._more = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for text in self.socket:
                await self._keep(json.loads(text))
        finally:
            async with self._more:
                self._more.notify_all()

    async def _keep(self, frame: dict[str, Any]) -> None:
        async with self._more:
            self.frames.append(frame)
            self._more.notify_all()

    async def send(self, method: str, /, **params: Any) -> str:
        identity = f"r{next(self._ids)}"
        await self.socket.send(
            json.dumps({"type": "request", "id": identity, "method": method, "params": params})
        )
        return identity

    async def ask(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The data of the response; `Refused` where it is an error."""
        identity = await self.send(method, **params)
        return await self.answer_to(identity)

    async def answer_to(self, identity: str) -> dict[str, Any]:
        def is_answer(frame: dict[str, Any]) -> bool:
            ends_task = frame["type"] == "error" and "task_id" in frame["data"]
            return frame["id"] == identity and frame["type"] in {"response", "error"} and not ends_task

        frame = await self.until(is_answer)
        if frame["type"] == "error":
            raise RequestRefused(frame["data"])
        return frame["data"]

    async def until(self, wanted: Callable[[dict[str, Any]], bool], after: int = 0) -> dict[str, Any]:
        """The first such frame, among those that came and those that come."""
        async with asyncio.timeout(PATIENCE), self._more:
            place = after
            while True:
                for frame in self.frames[place:]:
                    place += 1
                    if wanted(frame):
                        return frame
                if self._reading.done():
                    raise AssertionError(f"the socket ended: {self.socket.close_code} {self.frames[-3:]}")
                await self._more.wait()

    async def until_end(self, task_id: str) -> dict[str, Any]:
        """`stream_chunk` with done, or the error that ends the task."""
        return await self.until(lambda frame: ends(frame, task_id))

    async def talk(self, session_id: str, content: str) -> list[dict[str, Any]]:
        """Say it, wait for the end, and give the frames that carry the request's id."""
        identity = await self.send("chat.send", session_id=session_id, content=content)
        task = (await self.answer_to(identity))["task"]
        await self.until_end(task["id"])
        return [frame for frame in self.frames if frame["id"] == identity]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == kind]

    async def closed(self) -> int | None:
        async with asyncio.timeout(PATIENCE):
            await self.socket.wait_closed()
            return self.socket.close_code

    async def close(self) -> None:
        await self.socket.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


def ends(frame: Mapping[str, Any], task_id: str) -> bool:
    data = frame["data"]
    if frame["type"] == "stream_chunk":
        return data["done"] and data["task_id"] == task_id
    return frame["type"] == "error" and data.get("task_id") == task_id


def task_of(frames: list[dict[str, Any]]) -> str:
    """The task that a `chat.send` was answered with."""
    return next(frame["data"]["task"]["id"] for frame in frames if frame["type"] == "response")


def text_of(frames: list[dict[str, Any]]) -> str:
    """The last text that the chunks amount to, put together as a client does."""
    text = ""
    for frame in frames:
        if frame["type"] == "stream_chunk" and not frame["data"]["done"]:
            text = text[: frame["data"]["offset"]] + frame["data"]["content"]
    return text


class GatewayHarness(RuntimeHarness):
    """A gateway on a loopback port, with a worker beside it as in `interlock serve`."""

    def __init__(self, agent_runtime: AgentRuntime, gateway: Gateway, port: int, root: Path) -> None:
        super().__init__(agent_runtime, root)
        self.gateway = gateway
        self.port = port
        self._clients: list[GatewayClient] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def token(self, name: str = "tester") -> str:
        return (await self.gateway.credentials.add_token(name, who="test")).secret

    async def connect(self, token: str | None = None, **options: Any) -> GatewayClient:
        headers = {"Authorization": f"Bearer {token or await self._own_token()}"}
        socket = await connect(
            f"ws://127.0.0.1:{self.port}/ws",
            additional_headers=headers | options.pop("headers", {}),
            max_size=None,
            compression=None,
            **options,
        )
        client = GatewayClient(socket)
        self._clients.append(client)
        return client

    async def _own_token(self) -> str:
        if not hasattr(self, "_secret"):
            self._secret = await self.token()
        return self._secret

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@asynccontextmanager
async def open_gateway_harness(
    tmp_path: Path,
    monkeypatch: Any,
    environment: Mapping[str, str] | None = None,
    *,
    works: bool = True,
) -> AsyncIterator[GatewayHarness]:
    """It ends as `serve` ends: sockets first, then the worker, the agents and the store."""
    root = set_environment(tmp_path, monkeypatch, {"GATEWAY_PORT": "0", **(environment or {})})
    async with open_agent_runtime_here() as agent_runtime:
        listening = listening_socket("127.0.0.1", 0)
        port = listening.getsockname()[1]
        gateway = open_gateway(agent_runtime, port=port)
        server = open_server(gateway, agent_runtime.runtime, ListenAddress("127.0.0.1", port))
        worker, stop = agent_runtime.worker(), asyncio.Event()
        if not works:
            worker.stop()
        working = asyncio.create_task(worker.run())
        beside = (*gateway.beside(), lambda: agent_runtime.runtime.bus.run(worker.has_room))
        serving = asyncio.create_task(server.run(listening, beside, stop))
        harness = GatewayHarness(agent_runtime, gateway, port, root)
        try:
            yield harness
        finally:
            await harness.close()
            stop.set()
            await serving
            worker.stop()
            await working
