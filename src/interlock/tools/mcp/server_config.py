"""A server as the operator described it: how it is reached, its values, and its grants.

Grants apply to all tools of a server, since they share one process. So the grants decide which modes its
tools can have: only modes in which a command could do no less.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from interlock.config.modes import ToolMode
from interlock.config.url_checks import is_loopback, reject_unsafe_url
from interlock.core.errors import BadUsage, UserError
from interlock.core.text import is_utf8, safe_excerpt
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.secret_references import NamedValue, parse_named_value
from interlock.tools.mcp.tool_names import SERVER_ID

MAX_WORDS = 100
MAX_WORD_CHARS = 4096
MAX_GIVEN = 50
# Headers of the protocol itself, and those that frame a request.
_OWN_HEADERS = frozenset(
    {
        *("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection"),
        *("accept", "accept-encoding", "te", "trailer", "upgrade", "expect", "mcp-session-id"),
        *("mcp-protocol-version", "last-event-id"),
    }
)


class UnknownServer(UserError):
    code = "MCP_SERVER_NOT_FOUND"


class McpRootAccess(StrEnum):
    """A server process's access to the opened directories."""

    none = "none"
    read = "read"
    write = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """A server: with a command, a child process over pipes; with a URL, reached over HTTP."""

    id: str
    command: tuple[str, ...] = ()
    url: str = ""
    environment: tuple[NamedValue, ...] = ()
    headers: tuple[NamedValue, ...] = ()
    readable: tuple[Path, ...] = ()
    roots: McpRootAccess = McpRootAccess.read
    network: bool = False

    @property
    def is_local(self) -> bool:
        return bool(self.command)

    @property
    def transport(self) -> str:
        return "stdio" if self.is_local else "http"

    @property
    def target(self) -> str:
        return " ".join(self.command) if self.is_local else self.url

    @property
    def reads_folders(self) -> bool:
        """Whether it reads any files: opened directories, or paths granted to it."""
        return self.roots is not McpRootAccess.none or bool(self.readable)

    def fitting_modes(self) -> frozenset[ToolMode]:
        """The modes whose own sandbox is no narrower than this server's.

        A server on the network could pass on what it receives, and one that may write could write.
        """
        if not self.is_local or self.network or self.roots is McpRootAccess.write:
            return frozenset({ToolMode.coding})
        if self.reads_folders:
            return frozenset({ToolMode.chat, ToolMode.plan, ToolMode.coding})
        return frozenset(ToolMode)

    def as_dict(self) -> dict[str, Any]:
        return {
            "command": list(self.command),
            "url": self.url,
            "environment": [given.shown for given in self.environment],
            "headers": [given.shown for given in self.headers],
            "readable": [str(path) for path in self.readable],
            "roots": self.roots.value,
            "network": self.network,
        }

    @classmethod
    def from_dict(cls, server_id: str, stored: Mapping[str, Any]) -> "McpServerConfig":
        def given(name: str) -> tuple[NamedValue, ...]:
            return tuple(NamedValue(*text.split("=", 1)) for text in stored[name])

        return cls(
            id=server_id,
            command=tuple(stored["command"]),
            url=stored["url"],
            environment=given("environment"),
            headers=given("headers"),
            readable=tuple(Path(path) for path in stored["readable"]),
            roots=McpRootAccess(stored["roots"]),
            network=bool(stored["network"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddServerRequest:
    """The options of a new server, from the command line."""

    id: str
    command: Sequence[str] = ()
    url: str = ""
    environment: Sequence[str] = ()
    headers: Sequence[str] = ()
    readable: Sequence[Path] = ()
    roots: str = McpRootAccess.read.value
    network: bool = False


def make_server(request: AddServerRequest, redactor: Redactor) -> McpServerConfig:
    """Build the server, or raise a `BadUsage` that says what to write instead."""
    if not SERVER_ID.fullmatch(request.id):
        raise BadUsage(f"'{request.id}' is not a valid server id: use 1 to 20 characters of a-z, 0-9 and -")
    if bool(request.command) == bool(request.url):
        raise BadUsage("give either a command (after --) or a URL (--url)")
    if len(request.environment) + len(request.headers) > MAX_GIVEN:
        raise BadUsage(f"a server can have at most {MAX_GIVEN} values")
    if not all(is_utf8(text) and "\0" not in text for text in (*request.command, request.url)):
        raise BadUsage("the command or URL is not valid UTF-8, or contains a null character")
    return _remote(request, redactor) if request.url else _local(request, redactor)


def _remote(request: AddServerRequest, redactor: Redactor) -> McpServerConfig:
    if request.environment or request.readable or request.network or request.roots != McpRootAccess.read:
        raise BadUsage(
            "--env, --readable, --roots and --network apply only to a command, not to a server over HTTP"
        )
    try:
        reject_unsafe_url(request.url, "--url", plain_http="")
    except ValueError as error:
        raise BadUsage(str(error)) from None
    parts = urlsplit(request.url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise BadUsage("--url: plain http is not encrypted; use https")
    if redactor.text(request.url) != request.url:
        raise BadUsage("--url: it contains a secret; use --header NAME=env:VARIABLE")
    headers = tuple(parse_named_value(text, redactor, "--header") for text in request.headers)
    for header in headers:
        if header.name.lower() in _OWN_HEADERS or not header.name.replace("-", "").isalnum():
            raise BadUsage(f"--header {header.name}: this header cannot be set")
    return McpServerConfig(id=request.id, url=request.url, headers=headers, roots=McpRootAccess.none)


def _local(request: AddServerRequest, redactor: Redactor) -> McpServerConfig:
    if request.headers:
        raise BadUsage("--header applies only to a URL; use --env to pass variables to a command")
    words = [str(word) for word in request.command]
    if len(words) > MAX_WORDS or any(len(word) > MAX_WORD_CHARS for word in words):
        raise BadUsage("the command is too long")
    if any(redactor.text(word) != word for word in words):
        raise BadUsage("the command contains a secret, which is not stored; use --env NAME=env:VARIABLE")
    try:
        roots = McpRootAccess(request.roots)
    except ValueError:
        raise BadUsage(f"--roots: '{request.roots}' is not one of none, read, write") from None
    return McpServerConfig(
        id=request.id,
        command=(_program(words[0]), *words[1:]),
        environment=tuple(parse_named_value(text, redactor, "--env") for text in request.environment),
        readable=tuple(dict.fromkeys(_folder(path) for path in request.readable)),
        roots=roots,
        network=request.network,
    )


def _program(name: str) -> str:
    """The absolute path, with symlinks kept: an interpreter finds its libraries by its own name."""
    found = shutil.which(name)
    if found is None:
        raise BadUsage(f"there is no executable program '{name}' here")
    path = str(Path(found).absolute())
    if not is_utf8(path):
        raise BadUsage("the program's name is not valid UTF-8")
    return path


def _folder(path: Path) -> Path:
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        resolved = None
    if resolved is None or not is_utf8(str(resolved)):
        raise BadUsage(f"--readable {safe_excerpt(str(path), 200)}: no such file or folder")
    return resolved
