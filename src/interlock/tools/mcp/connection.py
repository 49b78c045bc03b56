"""One connection to one server: open, list, call, and give up if it does not answer.

A task of its own holds it open, since the library must be entered and left by the same task. Callers wait
separately, and can stop without asking the server. A server that could write must not leave a protected
name changed, so its end and the restore happen once, as one. Imported only when a connection is opened.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    Implementation,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from interlock import __version__
from interlock.core.aio import finish_uncancelled
from interlock.core.text import to_visible_line
from interlock.redaction.redactor import Redactor
from interlock.sandbox.protected_snapshot import ProtectedSnapshot
from interlock.tools.mcp.definition import MAX_TOOLS, McpToolDefinition, make_definition
from interlock.tools.mcp.server import McpServerError
from interlock.tools.mcp.transports import Streams, limit_messages
from interlock.tools.threads import CancelSignal, run_in_thread

START_SECONDS = 30.0
LIST_SECONDS = 15.0
PING_SECONDS = 5.0
REASON_SECONDS = 1.0
CLOSE_SECONDS = 2.0
MAX_PAGES = 20
MAX_ERROR_CHARS = 500

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Result = TypeVar("Result")


class _Raw(BaseModel):
    """A raw result: its parts are checked one by one, without assuming a shape."""

    model_config = ConfigDict(extra="allow")


class McpConnection:
    """`on_listing_changed` is called when the server announces another list of tools.

    `guard` has what a server that can write must leave unchanged. Texts of the server are redacted before
    they are cut: part of a secret would not be recognised.
    """

    def __init__(
        self,
        streams: Callable[["McpConnection"], Streams],
        redactor: Redactor,
        on_listing_changed: Callable[[], None],
        guard: ProtectedSnapshot | None = None,
        on_ended: Callable[["McpConnection"], None] = lambda _connection: None,
    ) -> None:
        self.in_use = 0
        # Calls whose callers stopped waiting.
        self.abandoned = 0
        # What was restored, once it has ended.
        self.restored: list[str] = []
        # Why it ended, or ends; empty before that.
        self.reason = ""
        self._streams = streams
        self._redactor = redactor
        self._on_listing_changed = on_listing_changed
        self._guard = guard
        self._on_ended = on_ended
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    # -- lifecycle --

    async def open(self) -> None:
        """Take the snapshot, then connect. On an error it has ended when this raises."""
        try:
            if self._guard is not None:
                await run_in_thread(CancelSignal(), self._guard.remember)
            if self.is_stopping:
                raise McpServerError(self.reason)
            # Events record what matters; the library would log what the server says.
            for name in ("mcp", "httpx2", "httpcore2"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            self._holding = asyncio.ensure_future(self._hold())
            try:
                async with asyncio.timeout(START_SECONDS):
                    await asyncio.shield(self._client)
            except TimeoutError:
                self.end(f"it did not complete the handshake within {START_SECONDS:g} seconds")
                raise McpServerError(self.reason) from None
        except BaseException as error:
            await self.stop(str(error) or "it was stopped")
            raise

    @property
    def is_open(self) -> bool:
        return not self.reason and self._holding is not None and not self._holding.done()

    @property
    def is_stopping(self) -> bool:
        """Whether it was stopped from here; otherwise, if it has ended, it was lost."""
        return self._stopping is not None

    @property
    def protocol(self) -> str:
        return self._client.result().protocol_version

    @property
    def calls_itself(self) -> str:
        info = self._client.result().server_info
        return self._brief(f"{info.name} {info.version}", 100) if info is not None else ""

    @property
    def instructions(self) -> str:
        """The server's instructions, for people only. They are never sent to a model."""
        return self._brief(self._client.result().instructions or "", 500)

    def end(self, reason: str) -> None:
        """End the connection, without waiting. The first reason is kept."""
        self.reason = self.reason or reason
        self._closing.set()

    async def close(self) -> None:
        self.end("it was closed")
        if self._holding is None:
            return
        done, _ = await asyncio.wait({self._holding}, timeout=CLOSE_SECONDS)
        if not done:
            self._holding.cancel()
            await asyncio.wait({self._holding}, timeout=2 * CLOSE_SECONDS)

    async def stop(self, reason: str) -> None:
        """Close and restore: all callers wait for the same end. A cancellation is raised after that."""
        if self._stopping is None:
            self.end(reason)
            self._stopping = asyncio.ensure_future(self._close_and_restore())
        await finish_uncancelled(self._stopping)

    async def _close_and_restore(self) -> None:
        try:
            await finish_uncancelled(asyncio.ensure_future(self.close()))
        finally:
            try:
                if self._guard is not None:
                    self.restored = await run_in_thread(CancelSignal(), self._guard.restore)
            finally:
                self._on_ended(self)

    async def _hold(self) -> None:
        try:
            transport = limit_messages(self._streams(self), lambda: self.end("it sends output without end"))
            client = Client(
                transport,
                cache=None,
                client_info=Implementation(name="interlock", version=__version__),
                message_handler=self._handle,
            )
            async with client:
                self._client.set_result(client)
                await self._closing.wait()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it did, it is over
            self.end(self._describe_error(error))
        finally:
            self.end("it ended")
            if not self._client.done():
                self._client.set_exception(McpServerError(self.reason))
                # The opener may have been cancelled. Retrieve it so that asyncio does not log it.
                self._client.exception()

    async def _handle(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._on_listing_changed()

    # -- requests --

    async def tools(self, seconds: float = LIST_SECONDS) -> list[McpToolDefinition]:
        """The tools that it offers now, up to a limit."""
        return await self._answer(self._list(), seconds)

    async def answers(self) -> bool:
        """Whether it still answers, with a short time limit."""
        try:
            await self.tools(PING_SECONDS)
        except McpServerError:
            return False
        return True

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """The raw result. On cancellation, the server is notified without waiting."""
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=dict(arguments)))
        sending = self._session().send_request(request, _Raw, progress_callback=progress)
        return dict((await self._answer(sending)).model_extra or {})

    async def _list(self) -> list[McpToolDefinition]:
        session = self._session()
        found: list[McpToolDefinition] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await session.list_tools(params=params)
            found += [_definition(tool) for tool in page.tools]
            cursor = page.next_cursor
            if not cursor or len(found) >= MAX_TOOLS:
                break
        return found[:MAX_TOOLS]

    async def _answer(self, work: Coroutine[Any, Any, Result], seconds: float | None = None) -> Result:
        """The answer, unless the connection ends or the time is over before."""
        asking = asyncio.ensure_future(work)
        # Retrieve the exception so that asyncio does not log it.
        asking.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        ending = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({asking, ending}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            is_answered = asking.done()
            asking.cancel()
        if not is_answered:
            raise McpServerError(self.reason or f"it did not answer within {seconds or 0:g} seconds")
        try:
            return asking.result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the library's error is the server's
            raise await self._server_error(error) from None

    async def _server_error(self, error: BaseException) -> McpServerError:
        """Wait briefly for the reason: the end of a connection is known before its cause."""
        if isinstance(error, asyncio.CancelledError):
            return McpServerError(self.reason or "it was stopped")
        if not isinstance(error, MCPError) or error.code != CONNECTION_CLOSED:
            return McpServerError(
                self._describe_error(error), is_answer=isinstance(error, MCPError | ValidationError)
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), REASON_SECONDS)
        return McpServerError(self.reason or self._describe_error(error))

    def _session(self) -> Any:
        if not self.is_open:
            raise McpServerError(self.reason or "it is not connected")
        return self._client.result().session

    def _brief(self, text: str, max_chars: int) -> str:
        return to_visible_line(self._redactor.text(text), max_chars)

    def _describe_error(self, error: BaseException) -> str:
        """The error in a few words. The server's own text is cut and made visible."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, McpServerError):
            return str(error)
        if isinstance(error, MCPError):
            return f"it answered with an error: {self._brief(error.error.message, MAX_ERROR_CHARS)}"
        if isinstance(error, ValidationError):
            return "its response does not conform to the protocol"
        if isinstance(error, asyncio.CancelledError):
            return "it was stopped"
        return self._brief(f"{type(error).__name__}: {error}", MAX_ERROR_CHARS)


def _definition(tool: Tool) -> McpToolDefinition:
    hints = tool.annotations.model_dump(by_alias=True) if tool.annotations is not None else {}
    title = str(tool.title or hints.get("title") or "")
    try:
        return make_definition(
            tool.name, tool.description or "", tool.input_schema, tool.output_schema, hints, title
        )
    except (ValueError, RecursionError):
        # It could not be compared later: keep the name, marked as unusable.
        return make_definition(tool.name, "", {}, None, {})
