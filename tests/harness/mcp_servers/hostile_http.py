"""A server over HTTP that does one thing wrong, on a thread of the test's own process."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}}


class ReceivedRequests:
    """What came in: the method, the path, the headers and the message of each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        # Of one that keeps sessions: the one that it knows.
        self.session = ""

    def methods(self) -> list[str]:
        return [(message or {}).get("method", "") for _, _, _, message in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behaviour = "well"
    elsewhere = ""
    seen: ReceivedRequests

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._note(None)
        if self.behaviour == "closes-streams":
            self._begin("text/event-stream")
            self.wfile.write(b"retry: 0\nid: 1\ndata: \n\n")
            self.close_connection = True
            return
        self._plain(405)

    def do_DELETE(self) -> None:
        self._note(None)
        self._plain(200)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._note(message)
        if self.behaviour == "redirects" or (
            self.behaviour == "redirects-call" and message.get("method") == "tools/call"
        ):
            self.send_response(307)
            self.send_header("location", self.elsewhere)
            self.send_header("content-length", "0")
            self.end_headers()
        elif self.behaviour == "refuses":
            self._plain(401)
        elif self.behaviour == "hangs":
            time.sleep(30)
        elif self.behaviour == "keeps-sessions" and self._is_unknown(message):
            self._plain(404)
        elif "id" not in message:
            self._plain(202)
        else:
            self._answer(message)

    def _is_unknown(self, message: dict[str, Any]) -> bool:
        """As the protocol says it of a session that a server has forgotten, by being started again say."""
        if message.get("method") == "initialize":
            self.seen.session = f"session-{len(self.seen.requests)}"
        return self.headers.get("mcp-session-id", self.seen.session) != self.seen.session

    def _answer(self, message: dict[str, Any]) -> None:
        method = message["method"]
        if method == "initialize":
            about = {"name": "double", "version": "1"}
            result: Any = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": about,
            }
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            if self._misbehaves():
                return
            result = {"content": [{"type": "text", "text": "done"}]}
        else:
            self._json({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
            return
        self._json({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _misbehaves(self) -> bool:
        if self.behaviour == "endless":
            self._begin("application/json")
            self._pour(b'{"jsonrpc": "2.0", "id": 1, "result": "' + b"x" * 65536)
        elif self.behaviour == "endless-events":
            self._begin("text/event-stream")
            self._pour(b"data: " + b"x" * 65536)
        elif self.behaviour == "packed":
            body = gzip.compress(b'{"x": "' + b"0" * 50_000_000)
            self.send_response(200)
            for name, value in (
                ("content-type", "application/json"),
                ("content-encoding", "gzip"),
                ("content-length", str(len(body))),
            ):
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)
        elif self.behaviour == "closes-streams":
            self._begin("text/event-stream")
            self.wfile.write(b"retry: 0\nid: 1\ndata: \n\n")
            self.close_connection = True
        else:
            return False
        return True

    def _pour(self, piece: bytes) -> None:
        with suppress(OSError):
            while True:
                self.wfile.write(piece)

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()

    def _json(self, message: object) -> None:
        body = json.dumps(message).encode()
        self.send_response(200)
        if self.seen.session:
            self.send_header("mcp-session-id", self.seen.session)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _plain(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def _note(self, message: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.requests.append((self.command, self.path, headers, message))


@contextmanager
def serve_hostile_http(behaviour: str, elsewhere: str = "") -> Iterator[tuple[str, ReceivedRequests]]:
    """Its address, and what it saw."""
    seen = ReceivedRequests()
    handler = type("Handler", (_Handler,), {"behaviour": behaviour, "elsewhere": elsewhere, "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", seen
    finally:
        server.shutdown()
        server.server_close()
