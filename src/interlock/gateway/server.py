"""Runs the application and its background tasks under uvicorn."""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from interlock.core.errors import ConfigurationError
from interlock.core.logging import StructuredLogger
from interlock.gateway.app import Gateway
from interlock.gateway.login_rate_limit import LogThrottle
from interlock.gateway.uvicorn_protocols import (
    SPARE_CONNECTIONS,
    BoundedWebSocketProtocol,
    TimeoutHttpProtocol,
    TlsHandshakeLimiter,
)

_log = StructuredLogger(__name__)

PING_SECONDS = 20.0
STOP_SECONDS = 5
# For the store, the log, child processes and other files of this process.
RESERVED_OPEN_FILES = 512


@dataclass(frozen=True, slots=True)
class ListenAddress:
    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.tls_cert is None else "https"


def listening_socket(host: str, port: int) -> socket.socket:
    """Bind the socket before the address is announced, so that the printed port is the one that answers."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        infos = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        bound = socket.socket(infos[0][0], socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(infos[0][4])
        bound.listen(1024)
    except OSError as error:
        raise listen_error(host, port, error) from None
    bound.settimeout(0)
    return bound


def listen_error(host: str, port: int, error: OSError) -> ConfigurationError:
    where = f"cannot listen on {host}:{port} ({error.strerror or error})"
    choose = "choose another with --port or GATEWAY_PORT"
    match error.errno:
        case errno.EADDRINUSE:
            why = f"another program uses it; {choose}. If that program is Interlock: interlock token link"
        case errno.EACCES:
            why = f"this account cannot use a port that low; {choose}"
        case _:
            return ConfigurationError(f"GATEWAY_HOST: {where}: use an address of this machine")
    return ConfigurationError(f"GATEWAY_PORT: {where}: {why}")


class GatewayServer:
    def __init__(
        self, gateway: Gateway, app: Any, address: ListenAddress, *, max_frame_bytes: int, max_sockets: int
    ) -> None:
        self._gateway = gateway
        config = uvicorn.Config(
            app,
            http=TimeoutHttpProtocol,
            ws=BoundedWebSocketProtocol,
            ws_per_message_deflate=False,
            ws_max_size=max_frame_bytes,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            h11_max_incomplete_event_size=32_768,
            limit_concurrency=max_sockets + SPARE_CONNECTIONS,
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
        self._uvicorn = _UvicornServer(config)
        self._open_files = max_sockets + SPARE_CONNECTIONS + RESERVED_OPEN_FILES

    async def run(
        self,
        listening: socket.socket,
        beside: Sequence[Callable[[], Awaitable[None]]],
        stop: asyncio.Event,
    ) -> None:
        """Serve until `stop` is set. If a background task ends, stop and raise its error."""
        raise_open_file_limit(self._open_files)
        told, faults = logging.getLogger("uvicorn.error"), _ClientErrorFilter()
        told.addFilter(faults)
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
            told.removeFilter(faults)
            stopping.cancel()
            for task in (serving, *tasks):
                task.cancel()
            await asyncio.gather(serving, *tasks, return_exceptions=True)


def raise_open_file_limit(wanted: int) -> None:
    """Raise the limit of open files: each socket needs one, and common defaults are too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        _log.warning("few_open_files", wanted=wanted, allowed=most)


class _ClientErrorFilter(logging.Filter):
    """Throttles uvicorn's messages about clients, with which any client could fill the log."""

    WORDS = ("Invalid HTTP request", "Unsupported upgrade", "Exceeded concurrency", "Invalid UTF-8")

    def __init__(self) -> None:
        super().__init__()
        self._throttle = LogThrottle()

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(self.WORDS) or self._throttle.take()


class _UvicornServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn, but with limited TLS handshakes: asyncio would wait a minute for each stalled one."""
        loop, config = asyncio.get_running_loop(), self.config
        handshakes = TlsHandshakeLimiter(config.ssl) if config.ssl else None

        def made() -> asyncio.BaseProtocol:
            protocol = TimeoutHttpProtocol(config, self.server_state, self.lifespan.state)
            return protocol if handshakes is None else handshakes.before(protocol)

        self.servers = [
            await loop.create_server(made, sock=each, backlog=config.backlog) for each in sockets or ()
        ]
        self.started = True
