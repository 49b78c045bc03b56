"""Any endpoint that speaks the chat completions protocol, streamed, with as little between as possible."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

import aiohttp
import orjson

from interlock.models.assembling import Assembly, error_text
from interlock.models.provider import (
    ModelError,
    ModelFault,
    ModelItem,
    ModelRequest,
    TextPiece,
    ToolChoice,
)
from interlock.models.sse import EventReader, TooLong

_MAX_ERROR_BYTES = 64 * 1024
_MAX_WHOLE_BYTES = 32 * 1024 * 1024
_LONGEST_WAIT_SECONDS = 3600.0
_TOO_LONG = ("context_length", "maximum context", "context window", "too many tokens", "prompt is too long")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked. `idle_seconds` is how long it may say nothing."""

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    connect_seconds: float = 10.0
    idle_seconds: float = 120.0


class OpenAIChat:
    """One model at one endpoint; connections are kept between turns."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if endpoint.api_key:
            self._headers["Authorization"] = f"Bearer {endpoint.api_key}"
        self._beginning = b'{"model":' + orjson.dumps(endpoint.model) + b',"stream":true,'
        self._client: aiohttp.ClientSession | None = None
        # Not every server knows the option that asks for the usage at the end.
        self._asks_for_usage = True

    @property
    def name(self) -> str:
        return self._endpoint.model

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        try:
            async with aclosing(self._items(request)) as items:
                async for item in items:
                    yield item
        except TooLong:
            raise ModelError(ModelFault.protocol, "the model's server sent a piece without end") from None
        except TimeoutError:
            seconds = self._endpoint.idle_seconds
            raise ModelError(
                ModelFault.timeout, f"the model said nothing for {seconds:g} seconds"
            ) from None
        except aiohttp.ClientError as error:
            raise ModelError(ModelFault.network, self._network_text(error)) from None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _items(self, request: ModelRequest) -> AsyncGenerator[ModelItem]:
        for _ in range(2):
            async with self._connected().post(
                self._url, data=self._body(request), headers=self._headers, allow_redirects=False
            ) as response:
                if response.status == 400 and self._asks_for_usage:
                    said = await _said(response)
                    if "stream_options" in said:
                        self._asks_for_usage = False
                        continue
                    raise self._refusal(response, said)
                if response.status != 200:
                    raise self._refusal(response, await _said(response))
                async with aclosing(_read(response)) as items:
                    async for item in items:
                        yield item
                return

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

    def _body(self, request: ModelRequest) -> bytes:
        parts = [self._beginning]
        if self._asks_for_usage:
            parts.append(b'"stream_options":{"include_usage":true},')
        if request.tools:
            parts += [b'"tools":', request.tools, b","]
            if request.tool_choice is ToolChoice.required:
                parts.append(b'"tool_choice":"required",')
        if request.max_output_tokens is not None:
            parts += [b'"max_tokens":', str(request.max_output_tokens).encode(), b","]
        parts += [b'"messages":[', b",".join(request.messages), b"]}"]
        return b"".join(parts)

    def _network_text(self, error: aiohttp.ClientError) -> str:
        if isinstance(error, aiohttp.ClientConnectorError):
            return f"the model's server at {self._endpoint.base_url} cannot be reached"
        if isinstance(error, aiohttp.InvalidURL):
            return "the model's address is not a URL"
        return "the connection to the model's server broke"

    def _refusal(self, response: aiohttp.ClientResponse, said: str) -> ModelError:
        status = response.status
        told = f"the model's server says: {said}" if said else "the model's server gives no reason"
        if status in (401, 403):
            return ModelError(ModelFault.auth, f"the model's server refuses the key ({status}); {told}")
        if status == 404:
            missing = f"there is no model '{self._endpoint.model}' at {self._endpoint.base_url}"
            return ModelError(ModelFault.not_found, f"{missing} (404); {told}")
        if status == 429:
            return ModelError(
                ModelFault.rate_limited,
                f"the model's server is asked too often (429); {told}",
                retry_after_seconds=_retry_after(response),
            )
        if status in (400, 413, 422) and any(sign in said.lower() for sign in _TOO_LONG):
            return ModelError(ModelFault.too_long, f"the conversation is too long for the model; {told}")
        if status >= 500 or status in (408, 409, 425):
            return ModelError(
                ModelFault.server,
                f"the model's server failed ({status}); {told}",
                retry_after_seconds=_retry_after(response),
            )
        if 300 <= status < 400:
            return ModelError(ModelFault.invalid_request, f"the model's address has moved ({status})")
        return ModelError(
            ModelFault.invalid_request, f"the model's server refuses the request ({status}); {told}"
        )


async def _read(response: aiohttp.ClientResponse) -> AsyncGenerator[ModelItem]:
    """Until `[DONE]`, or the end of the connection where the model had finished."""
    assembly = Assembly()
    if response.content_type == "application/json":
        whole = await _bounded(response, _MAX_WHOLE_BYTES)
        if text := assembly.add(whole):
            yield TextPiece(text)
        yield assembly.reply()
        return
    reader = EventReader()
    async for piece in response.content.iter_any():
        for data in reader.feed(piece):
            if data == b"[DONE]":
                yield assembly.reply()
                return
            if text := assembly.add(data):
                yield TextPiece(text)
    for data in reader.finish():
        if data != b"[DONE]" and (text := assembly.add(data)):
            yield TextPiece(text)
    yield assembly.reply()


async def _said(response: aiohttp.ClientResponse) -> str:
    try:
        data = await asyncio.wait_for(_bounded(response, _MAX_ERROR_BYTES), 10)
    except (aiohttp.ClientError, TimeoutError):
        return ""
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError:
        return error_text(data.decode("utf-8", "replace"))
    return error_text(said.get("error") or said) if isinstance(said, dict) else error_text(said)


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            break
    return b"".join(pieces)[:limit]


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds, as most servers write it; a date is left to our own waiting."""
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return min(seconds, _LONGEST_WAIT_SECONDS) if seconds >= 0 else None
