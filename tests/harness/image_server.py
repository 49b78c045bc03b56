"""An endpoint that makes images, on a real socket. It judges every request that it gets."""

import asyncio
import base64
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from tests.harness.sample_images import png

KEY = "sk-image-key-7f3a9c2e5d"
MODEL = "dall-e-3"
GENERATIONS = "/v1/images/generations"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def image_reply(image: bytes | None = None, **more: Any) -> dict[str, Any]:
    """The answer of a well-behaved endpoint."""
    encoded = base64.b64encode(png() if image is None else image).decode()
    return {"created": 1, "data": [{"b64_json": encoded, **more}]}


class ImageServer:
    """Answers each request with `answer`; whatever was wrong with a request is in `faults`."""

    def __init__(self, key: str | None = KEY) -> None:
        self.key = key
        self.bodies: list[dict[str, Any]] = []
        self.fetched: list[web.Request] = []
        self.faults: list[str] = []
        self.hung_up = asyncio.Event()
        self.reached = asyncio.Event()
        self.files: dict[str, Answer] = {}
        self.reply(image_reply())

    def reply(
        self, document: Any = None, *, status: int = 200, headers: dict | None = None, **more
    ) -> None:
        """Answer with this from now on: JSON, or `body=` bytes."""

        async def answer(_request: web.Request) -> web.StreamResponse:
            if "body" in more:
                return web.Response(status=status, headers=headers, **more)
            return web.json_response(document, status=status, headers=headers)

        self.answer: Answer = answer

    def waits_for(self, event: asyncio.Event, seconds: float = 60) -> bool:
        """For a test in another thread than the endpoint."""
        until = time.monotonic() + seconds
        while not event.is_set() and time.monotonic() < until:
            time.sleep(0.01)
        return event.is_set()

    async def start(self, ssl_context=None) -> "ImageServer":
        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", self._handle)
        # A handler is cancelled when its client hangs up: that is how a real server notices.
        self._runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=ssl_context)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.origin = f"{'https' if ssl_context else 'http'}://127.0.0.1:{self.port}"
        return self

    async def stop(self) -> None:
        await self._runner.cleanup()

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.reached.set()
        try:
            if request.method == "GET" and request.path in self.files:
                self.fetched.append(request)
                return await self.files[request.path](request)
            self.bodies.append(await self._judged(request))
            return await self.answer(request)
        except asyncio.CancelledError:
            self.hung_up.set()
            raise

    async def _judged(self, request: web.Request) -> dict[str, Any]:
        body = await request.json()
        sent = request.headers
        expected = None if self.key is None else f"Bearer {self.key}"
        checks = {
            f"{request.method} {request.path}": f"POST {GENERATIONS}" == f"{request.method} {request.path}",
            f"query {request.query_string}": not request.query_string,
            f"Authorization {sent.get('Authorization')}": sent.get("Authorization") == expected,
            f"Content-Type {sent.get('Content-Type')}": sent.get("Content-Type") == "application/json",
            f"Accept-Encoding {sent.get('Accept-Encoding')}": sent.get("Accept-Encoding") == "identity",
            f"Cookie {sent.get('Cookie')}": "Cookie" not in sent,
            f"Content-Length {sent.get('Content-Length')}": sent.get("Content-Length", "").isdigit(),
            f"keys {sorted(body)}": set(body)
            in ({"model", "prompt", "n", "size", "response_format"}, {"model", "prompt", "n", "size"})
            or set(body) == {"model", "prompt", "n", "size", "output_format"},
            f"n {body.get('n')}": body.get("n") == 1,
        }
        self.faults += [what for what, is_right in checks.items() if not is_right]
        return body


class ImageServerThread:
    """The same endpoint beside a test that waits for a child process."""

    def __init__(self, endpoint: ImageServer) -> None:
        self.endpoint = endpoint
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> ImageServer:
        self._thread.start()
        self._do(self.endpoint.start())
        return self.endpoint

    def __exit__(self, *_error: object) -> None:
        self._do(self.endpoint.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _do(self, work: Awaitable) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


class RawServer:
    """Writes bytes as it likes: what no HTTP library would let a test send."""

    def __init__(self, *pieces: bytes, closes: bool = True) -> None:
        self._pieces, self._closes = pieces, closes
        self.heard = b""
        self.hung_up = asyncio.Event()

    async def __aenter__(self) -> "RawServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            self.heard += await reader.read(65536)
            for piece in self._pieces:
                writer.write(piece)
                await writer.drain()
            if not self._closes:
                await reader.read()
                self.hung_up.set()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
