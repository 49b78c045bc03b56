"""The stdio transport: a server as a child in the sandbox, one message per line, of limited length.

The library would start the child itself, without a sandbox. So the child is a job like any other, and this
passes messages between its pipes and the library. Imported only when a connection is opened.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from interlock.redaction.redactor import Redactor
from interlock.sandbox.jobs import ExitReason, Job, RunningJob, SandboxBackend
from interlock.tools.mcp.message_rate_limit import MAX_MESSAGE_BYTES
from interlock.tools.mcp.tool_names import to_visible_line

# Some servers print a greeting on stdout. More than this is not the protocol.
MAX_STRAY_LINES = 100
MAX_COMPLAINT_BYTES = 16 * 1024
READ_BYTES = 64 * 1024
# Between the end of its input and its kill.
LEAVE_SECONDS = 0.3

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class _Unheard(Exception):
    """The server sent something unusable; the text says what."""


@asynccontextmanager
async def stdio_streams(
    backend: SandboxBackend, job: Job, redactor: Redactor, on_end: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """The two streams of a connection. `on_end` is called once with the reason of the end."""
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, out_of = anyio.create_memory_object_stream[SessionMessage](0)
    async with backend.running(job) as child:
        complaints = bytearray()
        async with anyio.create_task_group() as group:
            group.start_soon(_listen, child, into, lambda: _last_words(child, complaints, redactor), on_end)
            group.start_soon(_speak, child, out_of)
            group.start_soon(_keep_complaints, child, complaints)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _let_go(child)
                group.cancel_scope.cancel()
                for stream in (into, incoming, outgoing, out_of):
                    stream.close()


async def _let_go(child: RunningJob) -> None:
    """Let it end by itself; otherwise kill it with all its children."""
    if child.stdin is not None:
        child.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(child.wait(), LEAVE_SECONDS)


async def _listen(
    child: RunningJob,
    into: Incoming,
    last_words: Callable[[], Awaitable[str]],
    on_end: Callable[[str], None],
) -> None:
    reason = ""
    try:
        async with into:
            async for message in _messages(child):
                await into.send(message)
    except _Unheard as error:
        reason = str(error)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        reason = "the connection was closed"
    on_end(reason or await last_words())


async def _messages(child: RunningJob) -> AsyncIterator[SessionMessage]:
    stray = 0
    async for line in _lines(child):
        message = _parsed(line)
        if message is not None:
            yield message
            continue
        stray += 1
        if stray > MAX_STRAY_LINES:
            raise _Unheard("its output is not the MCP protocol")


async def _lines(child: RunningJob) -> AsyncIterator[bytes]:
    """Lines of limited length; a longer one ends the connection."""
    pieces: list[bytes] = []
    held = 0
    while data := await child.stdout.read(READ_BYTES):
        *ended, rest = data.split(b"\n")
        for piece in ended:
            yield b"".join((*pieces, piece))
            pieces, held = [], 0
        pieces.append(rest)
        held += len(rest)
        if held > MAX_MESSAGE_BYTES:
            raise _Unheard(f"one of its messages is larger than {MAX_MESSAGE_BYTES} bytes")


def _parsed(line: bytes) -> SessionMessage | None:
    try:
        said = orjson.loads(line)
    except (orjson.JSONDecodeError, RecursionError):
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(said, by_name=False))
    except (ValidationError, RecursionError):
        return _faulty_answer(said)


def _faulty_answer(said: object) -> SessionMessage | None:
    """An error in place of an invalid response, so that its caller need not wait for the time-out."""
    match said:
        case {"id": int() | str() as number, "result": _} | {"id": int() | str() as number, "error": _}:
            fault = ErrorData(code=PARSE_ERROR, message="a response that does not conform to the protocol")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=fault))
        case _:
            return None


async def _speak(child: RunningJob, out_of: Outgoing) -> None:
    """Write until the child stops reading, which the reader notices."""
    if child.stdin is None:
        return
    with suppress(OSError):
        async with out_of:
            async for item in out_of:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await child.stdin.write(text.encode() + b"\n")


async def _keep_complaints(child: RunningJob, complaints: bytearray) -> None:
    """Keep the last lines of stderr, reading to the end so that the child never blocks.

    Only whole lines are dropped: the rest of a cut line could begin within a secret.
    """
    while data := await child.stderr.read(READ_BYTES):
        complaints += data
        if len(complaints) > MAX_COMPLAINT_BYTES:
            line_end = complaints.find(b"\n", len(complaints) - MAX_COMPLAINT_BYTES)
            del complaints[: len(complaints) if line_end < 0 else line_end + 1]


async def _last_words(child: RunningJob, complaints: bytearray, redactor: Redactor) -> str:
    """How it ended, if it did, and its last stderr lines."""
    try:
        ended = await asyncio.wait_for(child.wait(), LEAVE_SECONDS)
    except TimeoutError:
        return "it closed its output"
    said = complaints.decode("utf-8", "replace").strip()
    last = to_visible_line(redactor.text(said).splitlines()[-1], 200) if said else ""
    if ended.reason is ExitReason.not_started:
        return ended.text
    return f"{ended.text}; its last output: {last}" if last else ended.text
