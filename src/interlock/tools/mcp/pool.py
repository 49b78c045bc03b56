"""The open connections of this process: one per server, opened on demand and closed when idle.

A server that fails is suspended for a while, longer each time. One that may write is stopped with the last
call that uses it, so that changed protected names can be restored, as after a command.
"""

import asyncio
import importlib.util
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.core.aio import finish_uncancelled
from interlock.core.errors import InterlockError, StoreError
from interlock.log.event import Event
from interlock.log.kinds import SYSTEM_STREAM
from interlock.log.mcp_events import McpRestored, McpServerFailed, McpServerStarted
from interlock.log.writer import EventLog
from interlock.redaction.redactor import Redactor
from interlock.sandbox.backend_selection import BackendSelection
from interlock.sandbox.jobs import SandboxBackend, SandboxUnavailable
from interlock.sandbox.paths import PathResolver
from interlock.sandbox.protected_snapshot import ProtectedSnapshot
from interlock.tools.mcp.launch import LaunchCeiling, server_job
from interlock.tools.mcp.server import McpRootAccess, McpServerConfig, McpServerError, resolve_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    from mcp.client._transport import TransportStreams

    from interlock.tools.mcp.connection import McpConnection

IDLE_SECONDS = 300.0
MAX_PAUSE_SECONDS = 60.0
# Abandoned calls after which the server that holds them is stopped.
MAX_ABANDONED = 8
MAX_RESTORED_SHOWN = 50


class LazySandbox:
    """The sandbox of servers: the runtime's own, or one selected when a server first needs it.

    `given` is None if no sandbox was selected, as for commands that run nothing.
    """

    def __init__(
        self, given: BackendSelection | None, choose: "Callable[[], Awaitable[BackendSelection]]"
    ) -> None:
        self._given = given
        self._choose = choose
        self._chosen: BackendSelection | None = None
        self._choosing = asyncio.Lock()

    async def choice(self) -> BackendSelection:
        if self._given is not None:
            return self._given
        async with self._choosing:
            if self._chosen is None:
                self._chosen = await self._choose()
            return self._chosen

    async def close(self) -> None:
        """Close only what was selected here."""
        chosen, self._chosen = self._chosen, None
        if chosen is not None and chosen.backend is not None:
            await chosen.backend.close()


@dataclass(slots=True)
class McpServerState:
    """A server and its connection, if open. `opened` changes under `turn` only."""

    server: McpServerConfig
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    opened: "McpConnection | None" = None
    failures: int = 0
    not_before: float = 0.0
    last_trouble: str = ""
    closing: asyncio.TimerHandle | None = None

    @property
    def ends_with_its_call(self) -> bool:
        return self.server.roots is McpRootAccess.write

    def keep_open(self) -> None:
        """Do not close it for being idle."""
        if self.closing is not None:
            self.closing.cancel()
            self.closing = None


class McpConnectionPool:
    """`on_listing_changed` is called with the id of a server that announces another list of tools."""

    def __init__(
        self, ceiling: LaunchCeiling, sandbox: LazySandbox, redactor: Redactor, log: EventLog
    ) -> None:
        self.ceiling = ceiling
        self.sandbox = sandbox
        self.on_listing_changed: Callable[[str], None] = lambda _server: None
        self._redactor = redactor
        self._log = log
        self._states: dict[str, McpServerState] = {}
        # Each until it has ended, also those of removed servers.
        self._alive: set[McpConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @asynccontextmanager
    async def using(self, server: McpServerConfig) -> "AsyncIterator[tuple[McpConnection, McpServerState]]":
        """The connection, while in use. `McpServerError` if it cannot be opened."""
        state = await self._state(server)
        async with state.turn:
            connection = await self._connected(state)
            connection.in_use += 1
        try:
            yield connection, state
        finally:
            connection.in_use -= 1
            if connection.in_use == 0:
                await self._rest(state, connection)

    def running(self, server: McpServerConfig) -> "McpConnection | None":
        """The connection, if open now. Looking at it does not keep it open."""
        state = self._states.get(server.id)
        if state is None or state.server != server or state.opened is None or not state.opened.is_open:
            return None
        return state.opened

    def abandon(self, state: McpServerState, connection: "McpConnection") -> None:
        """A call was abandoned. If the server does not answer a list request either, stop it."""

        async def stop_unless_it_answers() -> None:
            if not await connection.answers() and not connection.is_stopping:
                await connection.stop("it stopped responding")
                self._failed(state, connection.reason)

        connection.abandoned += 1
        self._spawn(stop_unless_it_answers())

    def keep_only(self, servers: "Mapping[str, McpServerConfig]") -> None:
        """Stop the servers that are not, or no longer so, among these."""
        for server_id, state in list(self._states.items()):
            if servers.get(server_id) != state.server:
                self._spawn(self.forget(server_id))

    async def forget(self, server_id: str) -> None:
        if (state := self._states.pop(server_id, None)) is not None:
            state.keep_open()
            if state.opened is not None:
                await state.opened.stop("it was removed, or is no longer allowed")

    async def close(self) -> None:
        """Close all and wait for every end, even if cancelled."""
        self._is_closed = True
        for state in self._states.values():
            state.keep_open()
        self._states.clear()
        for task in list(self._tasks):
            task.cancel()
        endings = [connection.stop("Interlock stopped") for connection in list(self._alive)]
        await finish_uncancelled(asyncio.gather(*self._tasks, *endings, return_exceptions=True))
        await self.sandbox.close()

    # -- opening --

    async def _state(self, server: McpServerConfig) -> McpServerState:
        if self._is_closed:
            raise McpServerError("Interlock is stopping")
        state = self._states.get(server.id)
        if state is not None and state.server != server:
            await self.forget(server.id)
        return self._states.setdefault(server.id, McpServerState(server))

    async def _connected(self, state: McpServerState) -> "McpConnection":
        """Under the server's lock. An earlier connection must have ended, with files restored, before."""
        state.keep_open()
        if (lost := state.opened) is not None:
            if lost.is_open:
                return lost
            # One that ended by itself counts as a failure; one that was stopped does not.
            has_failed = not lost.is_stopping
            await lost.stop(lost.reason)
            state.opened = None
            if has_failed:
                self._failed(state, lost.reason)
        if self._is_closed:
            raise McpServerError("Interlock is stopping")
        wait = state.not_before - asyncio.get_running_loop().time()
        if wait > 0:
            again = f"the next attempt is in {max(1, round(wait))} seconds"
            raise McpServerError(f"it has just failed ({state.last_trouble}); {again}")
        try:
            return await self._opened(state)
        except (InterlockError, OSError) as error:
            self._failed(state, str(error))
            raise McpServerError(str(error)) from error

    async def _opened(self, state: McpServerState) -> "McpConnection":
        connect = await asyncio.to_thread(_load)
        server = state.server
        backend = await self._backend() if server.is_local else None
        if reason := self.ceiling.why_not(server):
            raise McpServerError(reason)
        guard = None
        if state.ends_with_its_call:
            profile = self.ceiling.profile(server)
            guard = ProtectedSnapshot(profile, PathResolver(profile).find("."))
        state.opened = connection = connect(
            lambda opening: self._streams(server, backend, opening),
            self._redactor,
            lambda: self.on_listing_changed(server.id),
            guard,
            lambda ended: self._ended(server, ended),
        )
        self._alive.add(connection)
        try:
            await connection.open()
        except BaseException:
            state.opened = None
            raise
        self._note(
            McpServerStarted(
                server=server.id,
                transport=server.transport,
                protocol=connection.protocol,
                calls_itself=connection.calls_itself,
                sandbox=backend.name if backend is not None else "",
            )
        )
        return connection

    def _ended(self, server: McpServerConfig, connection: "McpConnection") -> None:
        self._alive.discard(connection)
        if connection.restored:
            self._note(McpRestored(server=server.id, paths=connection.restored[:MAX_RESTORED_SHOWN]))

    async def _backend(self) -> SandboxBackend:
        choice = await self.sandbox.choice()
        if choice.backend is None:
            raise SandboxUnavailable(f"it cannot be confined ({choice.reason})")
        return choice.backend

    @asynccontextmanager
    async def _streams(
        self, server: McpServerConfig, backend: SandboxBackend | None, connection: "McpConnection"
    ) -> "AsyncIterator[TransportStreams]":
        from interlock.tools.mcp.transports import http_streams, stdio_streams

        if backend is None:
            headers = resolve_values(server.headers, self._redactor)
            async with http_streams(server.url, headers, connection.end) as streams:
                yield streams
            return
        async with (
            server_job(server, self.ceiling, self._redactor) as job,
            stdio_streams(backend, job, self._redactor, connection.end) as streams,
        ):
            yield streams

    def _failed(self, state: McpServerState, reason: str) -> None:
        state.failures += 1
        state.last_trouble = reason
        # The first time it may be retried at once.
        pause = min(MAX_PAUSE_SECONDS, 2.0 ** min(state.failures - 2, 10)) if state.failures > 1 else 0.0
        state.not_before = asyncio.get_running_loop().time() + pause
        self._note(McpServerFailed(server=state.server.id, reason=reason))

    def _note(self, event: Event) -> None:
        writing = self._log.append(SYSTEM_STREAM, event)
        # Retrieve the exception; if the store cannot be written, the call itself reports it.
        writing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    # -- ending --

    async def _rest(self, state: McpServerState, connection: "McpConnection") -> None:
        """The connection is unused now."""
        if state.ends_with_its_call or connection.abandoned > MAX_ABANDONED or connection.is_stopping:
            await connection.stop("the call ended")
            return

        async def stop_if_idle() -> None:
            if connection.in_use == 0:
                await connection.stop("it was idle")

        state.keep_open()
        loop = asyncio.get_running_loop()
        state.closing = loop.call_later(IDLE_SECONDS, lambda: self._spawn(stop_if_idle()))

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
