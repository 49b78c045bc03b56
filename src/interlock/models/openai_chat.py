"""Streams from any endpoint of the chat completions protocol."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import aiohttp
import orjson

from interlock.models.message_encoding import encode_message
from interlock.models.provider import (
    AssistantMessage,
    ChatMessage,
    ModelError,
    ModelFault,
    ModelReasoningDelta,
    ModelRequest,
    ModelStreamItem,
    ModelTextDelta,
    ToolChoice,
)
from interlock.models.server_errors import (
    error_from_status,
    error_text,
    parse_error_body,
    parse_retry_after,
    unreadable_reply_error,
)
from interlock.models.sse import SseEventTooLong, SseReader
from interlock.models.stream_accumulator import StreamAccumulator

_MAX_ERROR_BYTES = 64 * 1024
_LONG_BYTES = 256 * 1024
# Parsing JSON takes many times its size in memory.
_MAX_WHOLE_BYTES = 8 * 1024 * 1024
# How long a server may take to close a finished answer before its connection is dropped.
_CLOSING_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class ChatEndpointConfig:
    """A model's endpoint. `idle_seconds` is how long it may send nothing."""

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    connect_seconds: float = 10.0
    idle_seconds: float = 120.0


# How servers say that they want the reasoning of earlier turns, beside the field's name.
_ASKS_FOR_REASONING = ("must be passed back", "missing")
_DEFAULT_REASONING_FIELD = "reasoning_content"


class _Dialect:
    """What this server was found to support and to require, so that it is asked in vain only once."""

    def __init__(self, model: str) -> None:
        # Of reasoning and of cached messages: other providers have models of the same name.
        self.origin = f"openai:{model}"
        self._asks_for_usage = True
        self._limit = b'"max_tokens":'
        # The field in which the server writes reasoning, and takes it back.
        self._reasoning_field = ""
        self._takes_reasoning = True
        self._requires_reasoning = False
        self._form = self._name_form()

    def options(self, request: ModelRequest) -> list[bytes]:
        parts = []
        if self._asks_for_usage:
            parts.append(b'"stream_options":{"include_usage":true},')
        if request.tools and request.tools != b"[]":
            parts += [b'"tools":', request.tools, b","]
            if request.tool_choice is ToolChoice.required:
                parts.append(b'"tool_choice":"required",')
        if request.max_output_tokens is not None:
            parts += [self._limit, str(request.max_output_tokens).encode(), b","]
        return parts

    def adapt_to(self, error: Any, request: ModelRequest) -> bool:
        """Whether the request can be changed to avoid the server's refusal."""
        said = error_text(error)
        if self._asks_for_usage and "stream_options" in said:
            self._asks_for_usage = False
        elif request.max_output_tokens and "max_completion_tokens" in said and b"_c" not in self._limit:
            self._limit = b'"max_completion_tokens":'
        else:
            return "reasoning" in said and self._adapt_reasoning(said.lower(), request)
        return True

    def _adapt_reasoning(self, said: str, request: ModelRequest) -> bool:
        """DeepSeek refuses a history without the reasoning beside calls; Groq refuses one with it."""
        if any(sign in said for sign in _ASKS_FOR_REASONING):
            if self._requires_reasoning:
                return False
            self._requires_reasoning = True
        elif self._takes_reasoning and any(map(self._reasoning_fields, request.messages)):
            self._takes_reasoning = self._requires_reasoning = False
        else:
            return False
        self._form = self._name_form()
        return True

    def reasoning_came_in(self, field: str) -> None:
        if field != self._reasoning_field:
            self._reasoning_field = field
            self._form = self._name_form()

    def messages(self, request: ModelRequest) -> bytes:
        form = self._form
        return b",".join(
            [message.encodings.get(form) or self._encode(message) for message in request.messages]
        )

    def _encode(self, message: ChatMessage) -> bytes:
        encoded = message.encodings[self._form] = encode_message(message, self._reasoning_fields(message))
        return encoded

    def _name_form(self) -> str:
        """Another name whenever a message may have to be encoded in another way."""
        rules = (self._reasoning_field, self._takes_reasoning, self._requires_reasoning)
        return f"chat {self.origin} {rules}"

    def _reasoning_fields(self, message: ChatMessage) -> dict[str, object]:
        if not isinstance(message, AssistantMessage) or not self._takes_reasoning:
            return {}
        field = self._reasoning_field or (_DEFAULT_REASONING_FIELD if self._requires_reasoning else "")
        reasoning = message.reasoning
        if reasoning is None or reasoning.model != self.origin:
            # A turn of another model, or of an earlier task: its field may be empty, but not missing.
            return {field: ""} if self._requires_reasoning else {}
        if reasoning.opaque:
            return {"reasoning_details": orjson.Fragment(reasoning.opaque)}
        return {field: reasoning.text} if field else {}


class OpenAIChatProvider:
    """One model at one endpoint; connections are kept between turns."""

    def __init__(self, endpoint: ChatEndpointConfig) -> None:
        self._endpoint = endpoint
        self._url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if endpoint.api_key:
            self._headers["Authorization"] = f"Bearer {endpoint.api_key}"
        self._beginning = b'{"model":' + orjson.dumps(endpoint.model) + b',"stream":true,'
        self._client: aiohttp.ClientSession | None = None
        self._dialect = _Dialect(endpoint.model)

    @property
    def name(self) -> str:
        return self._endpoint.model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamItem]:
        try:
            response = await self._answered(request)
            async with response:
                assembly = StreamAccumulator(self._endpoint.api_key, self._dialect.origin)
                reading = _read(response, assembly)
                async with aclosing(reading):
                    async for item in reading:
                        yield item
                if assembly.reasoning_field:
                    self._dialect.reasoning_came_in(assembly.reasoning_field)
        except (aiohttp.ClientError, OSError, SseEventTooLong) as error:
            raise self._broken(error) from None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _answered(self, request: ModelRequest) -> aiohttp.ClientResponse:
        """A response that begins to answer. The request is repeated without an option that is rejected."""
        while True:
            response = await self._connected().post(
                self._url, data=self._body(request), headers=self._headers, allow_redirects=False
            )
            if response.status == 200:
                return response
            async with response:
                error = parse_error_body(await _said(response))
            if response.status not in (400, 422) or not self._dialect.adapt_to(error, request):
                raise self._refusal(response, error)

    def _connected(self) -> aiohttp.ClientSession:
        if self._client is None or self._client.closed:
            limits = aiohttp.ClientTimeout(
                total=None,
                sock_connect=self._endpoint.connect_seconds,
                sock_read=self._endpoint.idle_seconds,
            )
            self._client = aiohttp.ClientSession(
                timeout=limits, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
            )
        return self._client

    def _body(self, request: ModelRequest) -> bytes | BytesIO:
        messages = self._dialect.messages(request)
        body = b"".join(
            [self._beginning, *self._dialect.options(request), b'"messages":[', messages, b"]}"]
        )
        # A long one is sent in parts, between which the event loop runs.
        return body if len(body) < _LONG_BYTES else BytesIO(body)

    def _broken(self, error: Exception) -> ModelError:
        endpoint = self._endpoint
        match error:
            case SseEventTooLong():
                return ModelError(ModelFault.protocol, "the model's server sent a chunk that is too long")
            case aiohttp.ConnectionTimeoutError():
                text = f"the model's server at {endpoint.base_url} did not accept the connection"
                return ModelError(ModelFault.timeout, f"{text} within {endpoint.connect_seconds:g} seconds")
            case TimeoutError():
                text = f"the model sent nothing for {endpoint.idle_seconds:g} seconds"
                return ModelError(ModelFault.timeout, text)
            case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
                return ModelError(ModelFault.invalid_request, "the model's address is not a URL")
            case aiohttp.ClientConnectorCertificateError():
                text = f"the certificate of the model's server at {endpoint.base_url} is not valid"
                return ModelError(ModelFault.network, text)
            case aiohttp.ClientConnectorError():
                text = f"the model's server at {endpoint.base_url} cannot be reached"
                return ModelError(ModelFault.network, text)
        return ModelError(ModelFault.network, "the connection to the model's server was lost")

    def _refusal(self, response: aiohttp.ClientResponse, error: Any) -> ModelError:
        return error_from_status(
            response.status,
            error,
            where=f"model '{self._endpoint.model}' at {self._endpoint.base_url}",
            secret=self._endpoint.api_key,
            retry_after_seconds=parse_retry_after(response.headers.get("Retry-After", "")),
        )


async def _read(
    response: aiohttp.ClientResponse, assembly: StreamAccumulator
) -> AsyncGenerator[ModelStreamItem]:
    """Until `[DONE]`, or the end of the connection where the model had finished."""
    reader, is_answer = SseReader(), False
    async for piece in response.content.iter_any():
        if not is_answer and piece.lstrip()[:1] == b"{":
            # Not a stream at all: some servers cannot, whatever content type they claim.
            text = assembly.add(piece + await _bounded(response, _MAX_WHOLE_BYTES))
            for item in _deltas(text, assembly):
                yield item
            yield assembly.reply()
            return
        is_answer = is_answer or not piece.isspace()
        taken = _take(reader.feed(piece), assembly)
        for item in _deltas(taken.text, assembly):
            yield item
        if taken.fault is not None:
            raise taken.fault
        if taken.is_done:
            await _closed(response)
            yield assembly.reply(is_done=True)
            return
    taken = _take(reader.finish(), assembly)
    for item in _deltas(taken.text, assembly):
        yield item
    if taken.fault is not None:
        raise taken.fault
    if "html" in response.content_type:
        raise unreadable_reply_error("it is a web page; the address may be wrong")
    yield assembly.reply()


def _deltas(text: str, assembly: StreamAccumulator) -> list[ModelStreamItem]:
    """What came at once: reasoning precedes the text."""
    deltas: list[ModelStreamItem] = []
    if reasoning := assembly.take_reasoning():
        deltas.append(ModelReasoningDelta(reasoning))
    if text:
        deltas.append(ModelTextDelta(text))
    return deltas


@dataclass(frozen=True, slots=True)
class _Taken:
    """The text of all events that came at once, up to the end of the stream or the first invalid one."""

    text: str
    is_done: bool = False
    fault: ModelError | None = None


def _take(events: Iterable[bytes], assembly: StreamAccumulator) -> _Taken:
    texts: list[str] = []
    for data in events:
        if data == b"[DONE]":
            return _Taken("".join(texts), is_done=True)
        try:
            texts.append(assembly.add(data))
        except ModelError as fault:
            return _Taken("".join(texts), fault=fault)
    return _Taken("".join(texts))


async def _closed(response: aiohttp.ClientResponse) -> None:
    """Wait for the answer's end: only then can the connection be reused."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_CLOSING_SECONDS):
            await response.content.readany()


async def _said(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await asyncio.wait_for(_bounded(response, _MAX_ERROR_BYTES), 10)
    except (aiohttp.ClientError, TimeoutError):
        return b""


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            break
    return b"".join(pieces)[:limit]
