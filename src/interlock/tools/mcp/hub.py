"""The open connections of this process: one to each server, opened when it is needed and closed when idle.

A server that fails is left alone for a while, longer each time. One that may write is ended with the last
call that uses it, so that what it did to protected names can be put back, as after a command.
"""

import asyncio
import importlib.util
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from interlock.events.base import Event
from interlock.events.catalog import SYSTEM_STREAM
from interlock.events.log import EventLog
from interlock.events.mcp import McpServerFailed, McpServerStarted
from interlock.infra.errors import InterlockError, StoreError
from interlock.redaction.redactor import Redactor
from interlock.sandbox.guard import ProtectedGuard
from interlock.sandbox.jobs import Backend, SandboxUnavailable
from interlock.sandbox.paths import Territory
from interlock.tools.blocking import CancelSignal, beside_the_loop
from interlock.tools.mcp.launch import Grounds, job_of, resolved
from interlock.tools.mcp.servers import RootAccess, Server
from interlock.tools.mcp.trouble import ServerTrouble
from interlock.tools.mcp.walls import Walls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from mcp.client._transport import TransportStreams

    from interlock.tools.mcp.bounds import Streams
    from interlock.tools.mcp.connection import Connection

IDLE_SECONDS = 300.0
MAX_PAUSE_SECONDS = 60.0
# Calls that nobody waits for any more, before the server that keeps them is given up.
MAX_ABANDONED = 8

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Line:
    """A server and the connection to it, if there is one now."""

    server: Server
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: "Connection | None" = None
    guard: ProtectedGuard | None = None
    in_use: int = 0
    abandoned: int = 0
    failures: int = 0
    not_before: float = 0.0
    last_trouble: str = ""
    closing: asyncio.TimerHandle | None = None
    # What was put back when it was last ended.
    restored: list[str] = field(default_factory=list)

    @property
    def ends_with_its_call(self) -> bool:
        return self.server.roots is RootAccess.write


class ServerHub:
    """`on_listing_changed` hears the id of a server that says it offers something else now."""

    def __init__(
        self,
        grounds: Grounds,
        walls: Walls,
        redactor: Redactor,
        log: EventLog,
    ) -> None:
        self.grounds = grounds
        self.walls = walls
        self.on_listing_changed: Callable[[str], None] = lambda _server: None
        self._redactor = redactor
        self._log = log
        self._lines: dict[str, Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @asynccontextmanager
    async def using(self, server: Server) -> "AsyncIterator[tuple[Connection, Line]]":
        """The connection, for as long as somebody uses it. `ServerTrouble` where there is none."""
        line = await self._line(server)
        line.in_use += 1
        try:
            async with line.turn:
                connection = await self._connected(line)
            yield connection, line
        finally:
            line.in_use -= 1
            if line.in_use == 0:
                await self._rest(line)

    def abandon(self, line: Line) -> None:
        """A call was given up. A server that does not even say what it offers is given up with it."""
        line.abandoned += 1
        if line.connection is not None:
            self._spawn(self._see_whether_it_answers(line, line.connection))

    def keep_only(self, servers: "Mapping[str, Server]") -> None:
        """Whoever was removed, or is another one now, is ended; nobody waits for that."""
        for server_id, line in list(self._lines.items()):
            if servers.get(server_id) != line.server:
                self._spawn(self.forget(server_id))

    async def forget(self, server_id: str) -> None:
        if (line := self._lines.pop(server_id, None)) is not None:
            await self._end(line, "it was removed")

    async def close(self) -> None:
        self._is_closed = True
        lines, self._lines = list(self._lines.values()), {}
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(line, "Interlock ended") for line in lines))
        await self.walls.close()

    # -- opening --

    async def _line(self, server: Server) -> Line:
        if self._is_closed:
            raise ServerTrouble("Interlock is ending")
        line = self._lines.get(server.id)
        if line is not None and line.server != server:
            await self.forget(server.id)
            line = None
        if line is None:
            line = self._lines[server.id] = Line(server)
        return line

    async def _connected(self, line: Line) -> "Connection":
        if line.closing is not None:
            line.closing.cancel()
            line.closing = None
        if line.connection is not None and line.connection.is_open:
            return line.connection
        loop = asyncio.get_running_loop()
        if (lost := line.connection) is not None:
            await self._end(line, lost.reason)
            self._failed(line, lost.reason)
        if loop.time() < line.not_before:
            wait = line.not_before - loop.time()
            again = f"it is tried again in {max(1, round(wait))} seconds"
            raise ServerTrouble(f"it failed a moment ago ({line.last_trouble}); {again}")
        try:
            line.connection = await self._opened(line)
        except (InterlockError, OSError) as error:
            self._failed(line, str(error))
            raise ServerTrouble(str(error)) from error
        return line.connection

    async def _opened(self, line: Line) -> "Connection":
        connect = await asyncio.to_thread(_load)
        server = line.server
        backend = await self._backend() if server.is_local else None
        streams = self._streams(server, backend)
        await self._remember(line)
        connection = connect(streams, lambda: self.on_listing_changed(server.id))
        try:
            await connection.open()
        except BaseException:
            await self._put_back(line)
            raise
        started = McpServerStarted(
            server=server.id,
            transport=server.transport,
            protocol=connection.protocol,
            calls_itself=connection.calls_itself,
            sandbox=backend.name if backend is not None else "",
        )
        self._note(started)
        return connection

    async def _backend(self) -> Backend:
        choice = await self.walls.choice()
        if choice.backend is None:
            raise SandboxUnavailable(f"it cannot be confined ({choice.reason})")
        return choice.backend

    def _streams(self, server: Server, backend: Backend | None) -> "Callable[[Connection], Streams]":
        grounds, redactor = self.grounds, self._redactor
        if reason := grounds.why_not(server):
            raise ServerTrouble(reason)

        @asynccontextmanager
        async def streams(connection: "Connection") -> "AsyncIterator[TransportStreams]":
            from interlock.tools.mcp.http import http_streams
            from interlock.tools.mcp.stdio import child_streams

            async with AsyncExitStack() as stack:
                if backend is None:
                    headers = resolved(server.headers, redactor)
                    yield await stack.enter_async_context(http_streams(server.url, headers))
                else:
                    job = await stack.enter_async_context(job_of(server, grounds, redactor))
                    yield await stack.enter_async_context(child_streams(backend, job, connection.end))

        return streams

    def _failed(self, line: Line, reason: str) -> None:
        line.failures += 1
        line.last_trouble = reason
        # The first time it may try again at once.
        pause = min(MAX_PAUSE_SECONDS, 2.0 ** min(line.failures - 2, 10)) if line.failures > 1 else 0.0
        line.not_before = asyncio.get_running_loop().time() + pause
        self._note(McpServerFailed(server=line.server.id, reason=reason))

    def _note(self, event: Event) -> None:
        noted = self._log.note(SYSTEM_STREAM, self._log.draft(event))
        # Nobody waits for it; where the store cannot be written, the call itself is told.
        noted.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    # -- ending --

    async def _rest(self, line: Line) -> None:
        """Nobody uses it now."""
        if line.connection is None:
            return
        if line.ends_with_its_call or line.abandoned > MAX_ABANDONED:
            await self._end(line, "its call is over")
            return
        loop = asyncio.get_running_loop()
        line.closing = loop.call_later(IDLE_SECONDS, lambda: self._spawn(self._end_idle(line)))

    async def _end_idle(self, line: Line) -> None:
        if line.in_use == 0:
            await self._end(line, "nobody used it")

    async def _see_whether_it_answers(self, line: Line, connection: "Connection") -> None:
        if not await connection.answers():
            connection.end("it did not answer any more")
            if line.connection is connection:
                await self._end(line, connection.reason)
                self._failed(line, connection.reason)

    async def _end(self, line: Line, reason: str) -> None:
        connection, line.connection = line.connection, None
        if line.closing is not None:
            line.closing.cancel()
            line.closing = None
        line.abandoned = 0
        if connection is not None:
            connection.end(reason)
            await connection.close()
        await self._put_back(line)

    # -- protected names --

    async def _remember(self, line: Line) -> None:
        if not line.ends_with_its_call:
            return
        profile = self.grounds.profile(line.server)
        guard = line.guard = ProtectedGuard(profile, Territory(profile).find("."))
        await beside_the_loop(CancelSignal(), guard.remember)

    async def _put_back(self, line: Line) -> None:
        guard, line.guard = line.guard, None
        if guard is not None:
            line.restored = await beside_the_loop(CancelSignal(), guard.restore)

    def _spawn(self, work: "Coroutine[None, None, None]") -> None:
        async def contained() -> None:
            with suppress(StoreError, ServerTrouble):
                await work

        task = asyncio.ensure_future(contained())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def library_missing() -> str:
    """Why no server can be spoken to at all; empty where one can."""
    if importlib.util.find_spec("mcp") is None:
        return "the library for it is not installed (pip install 'interlock-runtime[mcp]')"
    return ""


def _load() -> "type[Connection]":
    """A large library, which only those need who use a server."""
    if missing := library_missing():
        raise ServerTrouble(missing)
    from interlock.tools.mcp.connection import Connection

    return Connection
