"""The servers that `gateway.py` measures, each a process of its own: Interlock's gateway, and what is less.

The bare one is Starlette under the same uvicorn. It lets anybody in, and sends what it is given to whoever
asked for it, one socket after the other, waiting for slow ones. The last one writes frames that it has
ready for the wire, and does nothing else: less is not possible from Python.
"""

import asyncio
import contextlib
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

# A session and its task.
Followed = tuple[str, str]

# With more sessions than this nothing is streamed.
MANY = 500


def piece(number: int) -> str:
    return f"word{number} "


def frames_of(followed: Followed, pieces: int) -> Iterator[str]:
    """What docs/protocol.md promises, in the order in which the gateway writes it."""
    session_id, task_id = followed
    offset = 0
    for number in range(pieces):
        data = {"content": piece(number), "done": False, "task_id": task_id, "offset": offset}
        frame = {"id": None, "type": "stream_chunk", "session_id": session_id, "seq": None, "data": data}
        yield json.dumps(frame, separators=(",", ":"))
        offset += len(piece(number))


class Side(Protocol):
    welcome: dict[str, Any]

    async def tell(self, number: int) -> None:
        """Send the piece of this number to all who follow."""


class Bare:
    """An echo, a list of who wants what, and nothing else."""

    def __init__(self, followed: Sequence[Followed], pieces: int) -> None:
        self._frames = {each[0]: list(frames_of(each, pieces)) for each in followed}
        self._sockets: dict[str, list[Any]] = {session: [] for session in self._frames}
        self.welcome: dict[str, Any] = {}

    async def socket(self, socket: Any) -> None:
        from starlette.websockets import WebSocketDisconnect

        await socket.accept()
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                text = await socket.receive_text()
                self._sockets[json.loads(text)["params"]["session_id"]].append(socket)
                await socket.send_text(text)

    async def tell(self, number: int) -> None:
        for session, frames in self._frames.items():
            text = frames[number]
            for socket in self._sockets[session]:
                await socket.send_text(text)


class Writes(Bare):
    """Lets in as the bare one does, but writes past it, the one session's frames to all."""

    def __init__(self, followed: Sequence[Followed], pieces: int) -> None:
        from websockets.frames import Frame, Opcode

        super().__init__(followed, pieces)
        [frames] = self._frames.values()
        self._wire = [Frame(Opcode.TEXT, text.encode()).serialize(mask=False) for text in frames]
        self.connections: set[Any] = set()

    async def tell(self, number: int) -> None:
        wire = self._wire[number]
        for connection in self.connections:
            connection.transport.write(wire)


@asynccontextmanager
async def writes_side(given: dict[str, Any]) -> AsyncIterator[Side]:
    side = Writes(given["followed"], given["pieces"])
    async with _served(side, given) as server:
        side.connections = server.server_state.connections
        yield side


@asynccontextmanager
async def bare_side(given: dict[str, Any]) -> AsyncIterator[Side]:
    side = Bare(given["followed"], given["pieces"] if len(given["followed"]) <= MANY else 0)
    async with _served(side, given):
        yield side


@asynccontextmanager
async def _served(side: Bare, given: dict[str, Any]) -> AsyncIterator[Any]:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import WebSocketRoute

    from interlock.gateway.server import listening_socket

    listening = listening_socket("127.0.0.1", 0)
    config = uvicorn.Config(
        Starlette(routes=[WebSocketRoute("/ws", side.socket)]),
        ws="websockets-sansio",
        http="h11",
        loop="asyncio",
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    side.welcome = {"port": listening.getsockname()[1], "headers": {}, "followed": given["followed"]}
    yield server
    server.should_exit = server.force_exit = True
    await serving


class Ours:
    """The agent's part: it tells what a model says, piece by piece."""

    def __init__(self, live: Any, tasks: Sequence[Any]) -> None:
        self._live = live
        self._tasks = tasks
        self._offset = 0
        self.welcome: dict[str, Any] = {}

    async def tell(self, number: int) -> None:
        from interlock.agent.events import TextDelta

        text = piece(number)
        for task in self._tasks:
            self._live.publish(task, TextDelta(turn=1, offset=self._offset, text=text))
        self._offset += len(text)


@asynccontextmanager
async def our_side(given: dict[str, Any]) -> AsyncIterator[Side]:
    from interlock.config.settings import Settings
    from interlock.wiring import open_runtime
    from interlock.wiring.agents import open_agent_runtime
    from interlock.wiring.gateway import ListenAddress, listening_socket, open_gateway, open_server

    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as home:
        (Path(home) / "root").mkdir()
        os.environ["INTERLOCK_STATE_DIR"], os.environ["TOOL_ALLOWED_ROOTS"] = (
            f"{home}/state",
            f"{home}/root",
        )
        os.environ["WORKSPACE_DIR"] = f"{home}/workspace"
        runtime = open_runtime(Settings())
        agent_runtime, listening = open_agent_runtime(runtime), listening_socket("127.0.0.1", 0)
        port, stop = listening.getsockname()[1], asyncio.Event()
        gateway = open_gateway(agent_runtime, port=port)
        server = open_server(gateway, runtime, ListenAddress("127.0.0.1", port))
        serving = asyncio.create_task(server.run(listening, gateway.beside(), stop))
        tasks = await asyncio.gather(*(_running_task(runtime, n) for n in range(given["sessions"])))
        side = Ours(agent_runtime.live, tasks)
        token = (await gateway.credentials.add_token("bench", who="bench")).secret
        followed = [(task.session_id, task.id) for task in tasks]
        side.welcome = {"port": port, "headers": {"Authorization": f"Bearer {token}"}, "followed": followed}
        yield side
        stop.set()
        await serving
        await agent_runtime.close()
        await runtime.close()


async def _running_task(runtime: Any, number: int) -> Any:
    """A session with a task under way, as the log tells it: that is where text belongs."""
    from interlock.log.stream_appender import EventScope
    from interlock.log.task_events import TaskStarted
    from interlock.runtime.task_rows import Task, TaskStatus

    session = await runtime.sessions.create(opened_by="bench")
    task_id = f"t_{number:016x}"
    started = TaskStarted(task_id=task_id, mode="chat", worker="none", attempt=1)
    await runtime.log.append(session.id, started, scope=EventScope(task_id))
    return Task(
        id=task_id,
        session_id=session.id,
        message_seq=1,
        status=TaskStatus.running,
        who="bench",
        created_us=0,
        queued_event="",
    )


SIDES = {"ours": our_side, "bare": bare_side, "writes": writes_side}


async def serve(side: str, given: dict[str, Any]) -> None:
    """Do what is said on standard input, until that ends."""
    asked = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(asked), sys.stdin
    )
    async with SIDES[side](given) as served:
        print(json.dumps(served.welcome), flush=True)
        async for line in asked:
            command, _, number = line.decode().strip().partition(" ")
            if command == "piece":
                await served.tell(int(number))
            else:
                print(json.dumps(_cost()), flush=True)


def _cost() -> dict[str, float]:
    """Tidying up is for the memory's sake; what it takes counts neither for what was before nor after."""
    until = time.process_time()
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"until": until, "since": time.process_time(), "rss": pages * os.sysconf("SC_PAGE_SIZE")}


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
