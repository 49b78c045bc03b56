"""The doors before a real server, on a real socket."""

import asyncio
import contextlib
import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from interlock.gateway.guard import RequestGuard
from tests.unit.gateway.knocking import policy


@contextlib.asynccontextmanager
async def serving(monkeypatch):
    async def echo(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{len(await request.body())} bytes")

    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = RequestGuard(
        Starlette(routes=[Route("/", echo, methods=["GET", "POST"])]), policy(monkeypatch, port=port)
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="websockets-sansio"))
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield port
    finally:
        server.should_exit = True
        await task
        listening.close()


async def exchanged(port: int, text: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.replace("\n", "\r\n").encode())
    await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read(100_000)
    writer.close()
    await writer.wait_closed()
    return answer.decode()


def head(port: int, *lines: str, request: str = "GET / HTTP/1.1") -> str:
    return "\n".join([request, f"Host: 127.0.0.1:{port}", *lines, "", ""])


async def test_over_a_real_socket_the_doors_hold(monkeypatch):
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    upgrade += ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",)
    async with serving(monkeypatch) as port:
        own = f"Origin: http://127.0.0.1:{port}"
        assert " 200 OK" in await exchanged(port, head(port, "Connection: close"))
        for refused in (
            head(port, f"Host: 127.0.0.1:{port}"),
            head(port, "Host: evil.com"),
            head(port, "Origin: http://evil.com"),
            head(port, "Content-Length: 0", request="POST / HTTP/1.1"),
            head(port, "Cookie: a=b", *upgrade),
            head(port, "Origin: null", *upgrade),
            f"GET / HTTP/1.1\nHost: 127.0.0.1:{port}.evil.com\n\n",
            f"GET http://127.0.0.1:{port}/ HTTP/1.1\nHost: evil.com\n\n",
        ):
            assert (await exchanged(port, refused)).split(" ")[1] in {"400", "403"}, refused
        chunk = "1000\n" + "x" * 4096 + "\n"
        large = head(port, own, "Transfer-Encoding: chunked", request="POST / HTTP/1.1") + chunk * 17
        assert " 413 " in await exchanged(port, large)
        assert " 413 " in await exchanged(
            port, head(port, own, "Content-Length: 65537", request="POST / HTTP/1.1")
        )
