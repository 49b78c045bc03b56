"""The open connections of this process: one per server, opened on demand and closed when idle.

A server that fails is suspended for a while, longer each time. One that may write is stopped with the last
call that uses it, so that changed protected names can be restored, as after a command.
"""

import asyncio
import importlib.util
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.core.aio import finish_uncancelled
from interlock.core.errors import InterlockError, StoreError
from interlock.core.logging import StructuredLogger
from interlock.log.event import Event
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.mcp_events import McpRestored, McpServerFailed, McpServerStarted
from interlock.log.writer import EventLog
from interlock.redaction.redactor import Redactor
from interlock.sandbox.jobs import SandboxBackend, SandboxUnavailable
from interlock.sandbox.paths import PathResolver
from interlock.sandbox.protected_snapshot import ProtectedSnapshot
from interlock.tools.mcp.errors import McpServerError
from interlock.tools.mcp.lazy_sandbox import LazySandbox
from interlock.tools.mcp.restoring_connection import RestoringConnection
from interlock.tools.mcp.server_config import McpRootAccess, McpServerConfig
from interlock.tools.mcp.server_job import LaunchCeiling, resolve_values, server_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from mcp.client._transport import TransportStreams

    from interlock.tools.mcp.connection import McpConnection
    from interlock.tools.mcp.message_rate_limit import Streams

IDLE_SECONDS = 300.0
MAX_PAUSE_SECONDS = 60.0
# Abandoned calls after which the server that holds them is stopped.
MAX_ABANDONED = 8
MAX_RESTORED_TOLD = 50

_log = StructuredLogger(__name__)


@dataclass(slots=True)
class McpServerState:
    """A server and its connection, if open. `opened` changes under `turn` only."""

    server: McpServerConfig
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    opened: RestoringConnection | None = None
    failures: int = 0
    not_before: float = 0.0
    last_trouble: str = ""
    closing: asyncio.TimerHandle | None = None

    @property
    def ends_with_its_call(self) -> bool:
        return self.server.roots is McpRootAccess.write


class McpConnectionPool:
    """The pool.

    `on_listing_changed` is called with the id of a server that announces another list of tools.
    """

    def __init__(
        self,
        grounds: LaunchCeiling,
        walls: LazySandbox,
        redactor: Redactor,
        log: EventLog,
    ) -> None:
        self.grounds = grounds
        self.walls = walls
        self.on_listing_changed: Callable[[str], None] = lambda _server: None
        self._redactor = redactor
        self._log = log
        self._lines: dict[str, McpServerState] = {}
        # Each until it has ended, also those of removed servers.
        self._alive: set[RestoringConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @asynccontextmanager
    async def using(
        self, server: McpServerConfig
    ) -> "AsyncIterator[tuple[RestoringConnection, McpServerState]]":
        """The connection, while in use. `McpServerError` if it cannot be opened."""
        line = await self._line(server)
        async with line.turn:
            opened = await self._connected(line)
            opened.in_use += 1
        try:
            yield opened, line
        finally:
            opened.in_use -= 1
            if opened.in_use == 0:
                await self._rest(line, opened)

    def running(self, server: McpServerConfig) -> "McpConnection | None":
        """The connection, if open now. Looking at it does not keep it open."""
        line = self._lines.get(server.id)
        if line is None or line.server != server or line.opened is None or not line.opened.is_usable:
            return None
        return line.opened.connection

    def abandon(self, line: McpServerState, opened: RestoringConnection) -> None:
        """A call was abandoned. If the server does not answer a list request either, stop it."""
        opened.abandoned += 1
        self._spawn(self._see_whether_it_answers(line, opened))

    def keep_only(self, servers: "Mapping[str, McpServerConfig]") -> None:
        """Stop servers that were removed, changed or disallowed, in the background."""
        for server_id, line in list(self._lines.items()):
            if servers.get(server_id) != line.server:
                self._spawn(self.forget(server_id))

    async def forget(self, server_id: str) -> None:
        if (line := self._lines.pop(server_id, None)) is not None:
            self._disarm(line)
            if line.opened is not None:
                await line.opened.end("it was removed, or is no longer allowed")

    async def close(self) -> None:
        """Close all and wait for every end, even if cancelled."""
        self._is_closed = True
        lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            self._disarm(line)
        for task in list(self._tasks):
            task.cancel()
        endings = [opened.end("Interlock stopped") for opened in list(self._alive)]
        await finish_uncancelled(asyncio.gather(*self._tasks, *endings, return_exceptions=True))
        await self.walls.close()

    # -- opening --

    async def _line(self, server: McpServerConfig) -> McpServerState:
        if self._is_closed:
            raise McpServerError("Interlock is stopping")
        line = self._lines.get(server.id)
        if line is not None and line.server != server:
            await self.forget(server.id)
        return self._lines.setdefault(server.id, McpServerState(server))

    async def _connected(self, line: McpServerState) -> RestoringConnection:
        """Under the server's lock.

        An earlier connection must have ended, with files restored, before another opens.
        """
        self._disarm(line)
        if line.opened is not None:
            if line.opened.is_usable:
                return line.opened
            await self._end_lost(line, line.opened)
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise McpServerError("Interlock is stopping")
        if loop.time() < line.not_before:
            wait = line.not_before - loop.time()
            again = f"the next attempt is in {max(1, round(wait))} seconds"
            raise McpServerError(f"it has just failed ({line.last_trouble}); {again}")
        try:
            return await self._opened(line)
        except (InterlockError, OSError) as error:
            self._failed(line, str(error))
            raise McpServerError(str(error)) from error

    async def _opened(self, line: McpServerState) -> RestoringConnection:
        connect = await asyncio.to_thread(_load)
        server = line.server
        backend = await self._backend() if server.is_local else None
        connection = connect(
            self._streams(server, backend), self._redactor, lambda: self.on_listing_changed(server.id)
        )
        line.opened = opened = RestoringConnection(
            connection, self._guard(line), lambda it: self._ended(server, it)
        )
        self._alive.add(opened)
        try:
            await opened.open()
        except BaseException:
            line.opened = None
            raise
        started = McpServerStarted(
            server=server.id,
            transport=server.transport,
            protocol=connection.protocol,
            calls_itself=connection.calls_itself,
            sandbox=backend.name if backend is not None else "",
        )
        self._note(started)
        return opened

    def _guard(self, line: McpServerState) -> ProtectedSnapshot | None:
        if not line.ends_with_its_call:
            return None
        profile = self.grounds.profile(line.server)
        return ProtectedSnapshot(profile, PathResolver(profile).find("."))

    def _ended(self, server: McpServerConfig, opened: RestoringConnection) -> None:
        self._alive.discard(opened)
        if opened.restored:
            self._note(McpRestored(server=server.id, paths=opened.restored[:MAX_RESTORED_TOLD]))

    async def _backend(self) -> SandboxBackend:
        choice = await self.walls.choice()
        if choice.backend is None:
            raise SandboxUnavailable(f"it cannot be confined ({choice.reason})")
        return choice.backend

    def _streams(
        self, server: McpServerConfig, backend: SandboxBackend | None
    ) -> "Callable[[McpConnection], Streams]":
        grounds, redactor = self.grounds, self._redactor
        if reason := grounds.why_not(server):
            raise McpServerError(reason)

        @asynccontextmanager
        async def streams(connection: "McpConnection") -> "AsyncIterator[TransportStreams]":
            from interlock.tools.mcp.http_transport import http_streams
            from interlock.tools.mcp.stdio_transport import stdio_streams

            async with AsyncExitStack() as stack:
                if backend is None:
                    headers = resolve_values(server.headers, redactor)
                    opened = http_streams(server.url, headers, connection.end)
                    yield await stack.enter_async_context(opened)
                else:
                    job = await stack.enter_async_context(server_job(server, grounds, redactor))
                    opened = stdio_streams(backend, job, redactor, connection.end)
                    yield await stack.enter_async_context(opened)

        return streams

    def _failed(self, line: McpServerState, reason: str) -> None:
        line.failures += 1
        line.last_trouble = reason
        # The first time it may be retried at once.
        pause = min(MAX_PAUSE_SECONDS, 2.0 ** min(line.failures - 2, 10)) if line.failures > 1 else 0.0
        line.not_before = asyncio.get_running_loop().time() + pause
        self._note(McpServerFailed(server=line.server.id, reason=reason))

    def _note(self, event: Event) -> None:
        writing = self._log.append(SYSTEM_STREAM, event)
        # Retrieve the exception; if the store cannot be written, the call itself reports it.
        writing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    # -- ending --

    async def _rest(self, line: McpServerState, opened: RestoringConnection) -> None:
        """The connection is unused now."""
        if line.ends_with_its_call or opened.abandoned > MAX_ABANDONED or opened.is_ending:
            await opened.end("the call ended")
            return
        self._disarm(line)
        loop = asyncio.get_running_loop()
        line.closing = loop.call_later(IDLE_SECONDS, lambda: self._spawn(self._end_idle(opened)))

    async def _end_idle(self, opened: RestoringConnection) -> None:
        if opened.in_use == 0:
            await opened.end("it was idle")

    async def _see_whether_it_answers(self, line: McpServerState, opened: RestoringConnection) -> None:
        if not await opened.connection.answers() and not opened.is_ending:
            await opened.end("it stopped responding")
            self._failed(line, opened.connection.reason)

    async def _end_lost(self, line: McpServerState, lost: RestoringConnection) -> None:
        """A connection that ended by itself counts as a failure; one that was stopped does not."""
        has_failed = not lost.is_ending
        await lost.end(lost.connection.reason)
        line.opened = None
        if has_failed:
            self._failed(line, lost.connection.reason)

    def _disarm(self, line: McpServerState) -> None:
        if line.closing is not None:
            line.closing.cancel()
            line.closing = None

    def _spawn(self, work: "Coroutine[None, None, None]") -> None:
        async def contained() -> None:
            with suppress(StoreError, McpServerError):
                await work

        task = asyncio.ensure_future(contained())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def library_missing() -> str:
    """Why no server can be used at all; empty if they can."""
    if importlib.util.find_spec("mcp") is None:
        return "the library for it is not installed (pip install 'interlock-runtime[mcp]')"
    return ""


def _load() -> "type[McpConnection]":
    """Import the library on demand: it is large."""
    if missing := library_missing():
        raise McpServerError(missing)
    from interlock.tools.mcp.connection import McpConnection

    return McpConnection
