"""The HTTP application: the page, login, the WebSocket, downloads, health checks and metrics."""

import asyncio
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO

import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from interlock.core.errors import InterlockError, SessionNotFound, StoreFull, UserError
from interlock.core.logging import StructuredLogger
from interlock.core.text import sanitize_text
from interlock.db.driver import DbConnection as StoreConnection
from interlock.gateway.auth import ClientIdentity, CredentialService, LoginRefused
from interlock.gateway.connection import SocketLimits, WebSocketConnection
from interlock.gateway.connection_registry import ConnectionRegistry
from interlock.gateway.login_rate_limit import LoginRateLimiter
from interlock.gateway.methods import Dispatcher
from interlock.gateway.metrics import GatewayMetrics
from interlock.gateway.protocol import STORE_IS_FULL
from interlock.gateway.services import GatewayServices
from interlock.gateway.uvicorn_protocols import SCOPE_AUTHENTICATED
from interlock.log.export import export_events
from interlock.sessions.export import export_session

_log = StructuredLogger(__name__)

STATIC = Path(__file__).parent / "static"
# A client that has not sent its few bytes by then is dropped.
BODY_SECONDS = 10.0
CHUNK = 65_536

COUNT_TASKS = """
SELECT status, count(*) FROM tasks WHERE status IN ('queued', 'running', 'waiting') GROUP BY status
"""
COUNT_EVENTS = "SELECT coalesce(max(position), 0) FROM events"
IS_THERE = "SELECT 1"


class Gateway:
    """Builds the application. Its background tasks (`beside`) are started by the server."""

    def __init__(
        self,
        services: GatewayServices,
        credentials: CredentialService,
        *,
        cookie: str,
        secure_cookie: bool,
        browser_days: float,
        max_sockets: int,
        limits: SocketLimits,
    ) -> None:
        self.services = services
        self.credentials = credentials
        self.sockets = ConnectionRegistry(credentials.still_valid, most=max_sockets)
        self.dispatcher = Dispatcher(services, credentials.is_live)
        self.metrics = GatewayMetrics(frozenset(self.dispatcher.methods))
        self._cookie = cookie
        self._secure_cookie = secure_cookie
        self._browser_days = browser_days
        self._limits = limits
        self._logins = LoginRateLimiter()
        # One at a time: each export reads much of the store.
        self._exporting = asyncio.Lock()

    def beside(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """The background tasks that must run as long as the application does."""
        return self.services.hub.run, self.services.watch.run, self.sockets.run

    def app(self) -> Starlette:
        routes: list[BaseRoute] = [
            Route("/", self.page),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/whoami", self.whoami),
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.show_metrics),
            Route("/export/session/{name}", self.export_session),
            Route("/export/events.jsonl", self.export_events),
            WebSocketRoute("/ws", self.socket),
            Mount("/static", StaticFiles(directory=STATIC, follow_symlink=False)),
        ]
        return Starlette(routes=routes, exception_handlers={InterlockError: self._error_response})

    # -- login --

    async def page(self, _request: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    async def login(self, request: Request) -> Response:
        code = await _code_in(request)
        if not self._logins.take(request.client.host if request.client else ""):
            self.metrics.login("too_many")
            return PlainTextResponse("too many attempts at once; try again", 429, {"Retry-After": "1"})
        try:
            session = await self.credentials.redeem_code(code, browser_days=self._browser_days)
        except LoginRefused as error:
            self.metrics.login("refused")
            return PlainTextResponse(str(error), 401)
        self.metrics.login("ok")
        response = Response(status_code=204)
        response.set_cookie(
            self._cookie,
            session.secret,
            max_age=int(self._browser_days * 86_400),
            path="/",
            secure=self._secure_cookie,
            httponly=True,
            samesite="strict",
        )
        return response

    async def logout(self, request: Request) -> Response:
        secret = request.cookies.get(self._cookie, "")
        who = await self.credentials.check_cookie(secret)
        if who is not None:
            await self.credentials.end_browser(secret, who=who.name)
            self.sockets.close_by_credential(who.credential_id)
        response = Response(status_code=204)
        response.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict")
        return response

    async def whoami(self, request: Request) -> Response:
        """Report whether the page is logged in. "No" is a normal answer, so that browsers log no error."""
        who = await self._who(request)
        if who is None and "authorization" in request.headers:
            return _unknown()
        return Response(orjson.dumps({"who": who.name if who else None}), media_type=JSON)

    async def _who(self, connection: HTTPConnection) -> ClientIdentity | None:
        who = await self._bearer_of(connection)
        # The server keeps authenticated connections before others.
        connection.scope[SCOPE_AUTHENTICATED] = who is not None
        return who

    async def _bearer_of(self, connection: HTTPConnection) -> ClientIdentity | None:
        """The identity by the token if one is given, else by the cookie."""
        given = connection.headers.get("authorization")
        if given is not None:
            scheme, _, secret = given.partition(" ")
            if scheme.lower() != "bearer":
                return None
            return await self.credentials.check_bearer(secret.strip())
        return await self.credentials.check_cookie(connection.cookies.get(self._cookie, ""))

    # -- WebSocket --

    async def socket(self, socket: WebSocket) -> None:
        who = await self._who(socket)
        if who is None:
            await socket.send_denial_response(_unknown())
            return
        if self.sockets.is_full or self.sockets.is_stopping:
            await socket.send_denial_response(PlainTextResponse("too many sockets are open", 503))
            return
        await socket.accept()
        connection = WebSocketConnection(
            socket, who, limits=self._limits, metrics=self.metrics, handle=self.dispatcher
        )
        try:
            await self.sockets.serve(connection)
        finally:
            self.services.watch.leave(connection)
            for session_id in tuple(connection.subscriptions):
                await self.services.hub.leave(session_id, connection)

    # -- monitoring --

    async def healthz(self, _request: Request) -> Response:
        """Healthy also with a full disk: a restart would not help."""
        reserve = self.services.database.reserve
        if reserve is not None and reserve.shortage() is not None:
            return PlainTextResponse("ok, but the disk of the store is full or almost full")
        return PlainTextResponse("ok")

    async def readyz(self, _request: Request) -> Response:
        try:
            await self.services.database.read(lambda db: db.query(IS_THERE))
        except InterlockError:
            return PlainTextResponse("not ready", 503)
        if self.sockets.is_stopping:
            return PlainTextResponse("not ready", 503)
        return PlainTextResponse("ok")

    async def show_metrics(self, request: Request) -> Response:
        if await self._who(request) is None:
            return _unknown()

        def read(connection: StoreConnection) -> tuple[dict[str, int], int]:
            tasks = {str(status): int(count) for status, count in connection.query(COUNT_TASKS)}
            return tasks, int(connection.query(COUNT_EVENTS)[0][0])

        tasks, events = await self.services.database.read(read)
        text = self.metrics.text(sockets=len(self.sockets), tasks=tasks, events=events)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    # -- downloads --

    async def export_session(self, request: Request) -> Response:
        if await self._who(request) is None:
            return _unknown()
        session_id = sanitize_text(request.path_params["name"].removesuffix(".jsonl"))
        await self.services.sessions.get(session_id)
        return await self._download(lambda db: export_session(db, session_id), f"{session_id}.jsonl")

    async def export_events(self, request: Request) -> Response:
        if await self._who(request) is None:
            return _unknown()
        session_id = request.query_params.get("session_id")
        if session_id is not None:
            session_id = sanitize_text(session_id)
            await self.services.sessions.get(session_id)
        return await self._download(
            lambda db: export_events(db, session_id), f"{session_id or 'interlock'}-events.jsonl"
        )

    async def _download(
        self, lines: Callable[[StoreConnection], Iterator[bytes]], name: str
    ) -> StreamingResponse:
        """Write to a temporary file first: a slow reader must not hold the store's snapshot."""

        def write(connection: StoreConnection) -> IO[bytes]:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when it was sent
            try:
                for line in lines(connection):
                    file.write(line)
            except BaseException:
                file.close()
                raise
            file.seek(0)
            return file

        async with self._exporting:
            file = await self.services.database.read(write)
        return StreamingResponse(
            _chunks(file),
            media_type="application/x-ndjson",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    async def _error_response(self, _request: Request, error: Exception) -> Response:
        """Answer with an error, redacted: it may quote the request, and so a secret."""
        if isinstance(error, UserError):
            status = 404 if isinstance(error, SessionNotFound) else 400
            return PlainTextResponse(self.services.redactor.text(str(error)), status)
        if isinstance(error, StoreFull):
            return PlainTextResponse(STORE_IS_FULL, 507)
        _log.error("request_failed", exc_info=error)
        return PlainTextResponse("internal error; see the server's log", 500)


JSON = "application/json"


def script_hashes() -> tuple[str, ...]:
    """The hash of the page's inline script, the import map, for the content security policy."""
    page = (STATIC / "index.html").read_bytes()
    begin, end = b'<script type="importmap">', b"</script>"
    inside = page.split(begin, 1)[1].split(end, 1)[0] if begin in page else b""
    return (b64encode(sha256(inside).digest()).decode(),)


async def _code_in(request: Request) -> str:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            given = orjson.loads(await request.body())
    except (TimeoutError, ClientDisconnect, orjson.JSONDecodeError):
        return ""
    code = given.get("code") if isinstance(given, dict) else None
    return code if isinstance(code, str) else ""


def _unknown() -> Response:
    return PlainTextResponse("log in first: use interlock token link, or a token", 401)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
    finally:
        file.close()
