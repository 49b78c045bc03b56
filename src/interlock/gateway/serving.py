"""Runs the application under uvicorn, with everything that has to go on beside it."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from interlock.gateway.app import Gateway
from interlock.infra.errors import ConfigurationError

_log = structlog.get_logger(__name__)

# Somebody who connects and asks for nothing by then is sent away.
REQUEST_SECONDS = 10.0
PING_SECONDS = 20.0
# What may be connected beside sockets: pages, downloads, watchdogs.
MORE_CONNECTIONS = 256
STOP_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.tls_cert is None else "https"


class ImpatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, but not for ever with someone who says nothing."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._patience = self.loop.call_later(REQUEST_SECONDS, self._lose_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)

    def _lose_patience(self) -> None:
        # uvicorn has none before the first request, whatever its types say.
        has_asked = getattr(self, "cycle", None) is not None or self.transport.get_protocol() is not self
        if not has_asked:
            self.transport.close()


def listening_socket(host: str, port: int) -> socket.socket:
    """Bound before anything is announced, so that the port that is printed is the port that answers."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        infos = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        bound = socket.socket(infos[0][0], socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(infos[0][4])
        bound.listen(1024)
    except OSError as error:
        raise ConfigurationError(
            f"GATEWAY_PORT: cannot listen on {host}:{port} ({error.strerror or error}); "
            "another program may have it: choose another with --port"
        ) from None
    bound.settimeout(0)
    return bound


class Server:
    def __init__(
        self, gateway: Gateway, app: Any, address: Address, *, max_frame_bytes: int, max_sockets: int
    ) -> None:
        self._gateway = gateway
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ws_max_size=max_frame_bytes,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            h11_max_incomplete_event_size=32_768,
            limit_concurrency=max_sockets + MORE_CONNECTIONS,
            timeout_graceful_shutdown=STOP_SECONDS,
            ssl_certfile=address.tls_cert,
            ssl_keyfile=address.tls_key,
            lifespan="off",
            loop="none",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
        )
        try:
            config.load()
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(f"GATEWAY_TLS_CERT, GATEWAY_TLS_KEY: {error}") from None
        self._uvicorn = _Quiet(config)

    async def run(
        self,
        listening: socket.socket,
        beside: Sequence[Callable[[], Awaitable[None]]],
        stop: asyncio.Event,
    ) -> None:
        """Until `stop` is set. If something beside it ends by itself, so does all of it, with its fault."""
        tasks = [asyncio.ensure_future(run()) for run in beside]
        serving = asyncio.create_task(self._uvicorn.serve(sockets=[listening]))
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({serving, stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            self._gateway.sockets.close_all()
            self._uvicorn.should_exit = True
            await serving
            for task in done - {stopping}:
                task.result()
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Quiet(uvicorn.Server):
    """Signals are the business of whoever runs the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield
