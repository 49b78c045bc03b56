"""One connection to one server: open, list, call, and give up if it does not answer.

A task of its own holds it open, since the library must be entered and left by the same task. Callers wait
separately, and can stop without asking the server. Imported only when a connection is opened.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

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
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.errors import McpServerError
from interlock.tools.mcp.message_rate_limit import Streams, limit_messages
from interlock.tools.mcp.tool_definitions import MAX_TOOLS, McpToolDefinition, make_definition
from interlock.tools.mcp.tool_names import to_visible_line

START_SECONDS = 30.0
LIST_SECONDS = 15.0
PING_SECONDS = 5.0
REASON_SECONDS = 1.0
CLOSE_SECONDS = 2.0
MAX_PAGES = 20
MAX_ERROR_CHARS = 500

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


class _Raw(BaseModel):
    """A raw result: its parts are checked one by one, without assuming a shape."""

    model_config = ConfigDict(extra="allow")


class McpConnection:
    """`on_listing_changed` is called when the server announces another list of tools.

    Its texts are redacted before they are cut: part of a secret would not be recognised.
    """

    def __init__(
        self,
        streams: Callable[["McpConnection"], Streams],
        redactor: Redactor,
        on_listing_changed: Callable[[], None],
    ) -> None:
        self._streams = streams
        self._redactor = redactor
        self._on_listing_changed = on_listing_changed
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._reason = ""
        self._holding: asyncio.Task[None] | None = None

    # -- lifecycle --

    async def open(self) -> None:
        """Open the connection; `McpServerError` if that fails."""
        _silence_the_library()
        self._holding = asyncio.ensure_future(self._hold())
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(self._client)
        except TimeoutError:
            self.end(f"it did not complete the handshake within {START_SECONDS:g} seconds")
            await self.close()
            raise McpServerError(self._reason) from None
        except asyncio.CancelledError:
            await self.close()
            raise

    @property
    def is_open(self) -> bool:
        return not self._reason and self._holding is not None and not self._holding.done()

    @property
    def reason(self) -> str:
        return self._reason

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
        """End the connection. The first reason is kept."""
        self._reason = self._reason or reason
        self._closing.set()

    async def close(self) -> None:
        self.end("it was closed")
        if self._holding is None:
            return
        done, _ = await asyncio.wait({self._holding}, timeout=CLOSE_SECONDS)
        if not done:
            self._holding.cancel()
            await asyncio.wait({self._holding}, timeout=2 * CLOSE_SECONDS)

    async def _hold(self) -> None:
        try:
            transport = limit_messages(self._streams(self), lambda: self.end("it sends output without end"))
            client = Client(
                transport,
                cache=None,
                client_info=Implementation(name="interlock", version=__version__),
                message_handler=self._hear,
            )
            async with client:
                self._client.set_result(client)
                await self._closing.wait()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it did, it is over
            self.end(self._describe_error(error))
        finally:
            self.end("it ended")
            if not self._client.done():
                self._client.set_exception(McpServerError(self._reason))
                # The opener may have been cancelled. Retrieve the exception so that asyncio does not log
                # it.
                self._client.exception()

    async def _hear(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._on_listing_changed()

    # -- requests --

    async def tools(self, seconds: float = LIST_SECONDS) -> list[McpToolDefinition]:
        """The tools that it offers now, up to a limit."""
        return await self._asked(self._list(), seconds)

    async def answers(self) -> bool:
        """Whether it still answers, with a short time limit."""
        try:
            await self.tools(PING_SECONDS)
        except McpServerError:
            return False
        return True

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """The raw result. On cancellation, the server is notified without waiting."""
        session = self._session()
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=dict(arguments)))
        calling = asyncio.ensure_future(session.send_request(request, _Raw, progress_callback=progress))
        calling.add_done_callback(_retrieved)
        ending = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({calling, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            if not calling.done():
                calling.cancel()
        if not calling.done() or calling.cancelled():
            raise McpServerError(self._reason)
        try:
            return dict(calling.result().model_extra or {})
        except Exception as error:  # noqa: BLE001 - whatever the library made of it, it is the server's
            raise await self._trouble(error) from None

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

    async def _asked(
        self, work: Awaitable[list[McpToolDefinition]], seconds: float
    ) -> list[McpToolDefinition]:
        asking = asyncio.ensure_future(work)
        asking.add_done_callback(_retrieved)
        ending = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({asking, ending}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            if not asking.done():
                asking.cancel()
        if not asking.done():
            raise McpServerError(self._reason or f"it did not answer within {seconds:g} seconds")
        try:
            return asking.result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the same
            raise await self._trouble(error) from None

    async def _trouble(self, error: BaseException) -> McpServerError:
        """Wait briefly for the reason: the end of a connection is known before its cause."""
        if not isinstance(error, MCPError) or error.code != CONNECTION_CLOSED:
            return McpServerError(
                self._describe_error(error), is_answer=isinstance(error, MCPError | ValidationError)
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), REASON_SECONDS)
        return McpServerError(self._reason or self._describe_error(error))

    def _session(self) -> Any:
        if not self.is_open:
            raise McpServerError(self._reason or "it is not connected")
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


def _silence_the_library() -> None:
    """Silence the library's logging of server messages. Events record what matters."""
    for name in ("mcp", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _definition(tool: Tool) -> McpToolDefinition:
    hints = tool.annotations.model_dump(by_alias=True) if tool.annotations is not None else {}
    try:
        return make_definition(
            tool.name, tool.description or "", tool.input_schema, tool.output_schema, hints
        )
    except (ValueError, RecursionError):
        # It could not be compared later: keep the name, marked as unusable.
        return make_definition(tool.name, "", {}, None, {})


def _retrieved(ended: "asyncio.Future[Any]") -> None:
    if not ended.cancelled():
        ended.exception()
