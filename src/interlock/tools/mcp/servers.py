"""A server as the operator described it: how it is reached, what it is given, and how far it may go.

What a server may do is fixed for all its tools, since they share one process. So the grants decide which
modes its tools can have: a tool belongs only in a mode in which a command could do no less.
"""

import shutil
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from interlock.config.addresses import is_loopback, refuse_unsafe
from interlock.config.modes import ToolMode
from interlock.infra.errors import BadUsage, PersonError
from interlock.infra.records import dataclass
from interlock.infra.text import is_utf8, quotable
from interlock.redaction.redactor import Redactor
from interlock.tools.mcp.names import SERVER_ID
from interlock.tools.mcp.references import Given, parse_given

MAX_WORDS = 100
MAX_WORD_CHARS = 4096
MAX_GIVEN = 50
# Those of the protocol itself, and those that frame a request.
_OWN_HEADERS = frozenset(
    {
        *("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection"),
        *("accept", "accept-encoding", "te", "trailer", "upgrade", "expect", "mcp-session-id"),
        *("mcp-protocol-version", "last-event-id"),
    }
)


class UnknownServer(PersonError):
    code = "MCP_SERVER_NOT_FOUND"


class RootAccess(StrEnum):
    """What of the opened folders a server's process reaches."""

    none = "none"
    read = "read"
    write = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """With a command it is a child over pipes, with an address it is reached over HTTP."""

    id: str
    command: tuple[str, ...] = ()
    url: str = ""
    environment: tuple[Given, ...] = ()
    headers: tuple[Given, ...] = ()
    readable: tuple[Path, ...] = ()
    roots: RootAccess = RootAccess.read
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
        """Of whoever's files: the opened ones, or those that it was given."""
        return self.roots is not RootAccess.none or bool(self.readable)

    def fitting_modes(self) -> frozenset[ToolMode]:
        """The modes whose own walls are no narrower than this server's.

        Who is reached over a network could pass on what it is told, and who may write could write.
        """
        if not self.is_local or self.network or self.roots is RootAccess.write:
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
    def from_dict(cls, server_id: str, stored: Mapping[str, Any]) -> "Server":
        def given(name: str) -> tuple[Given, ...]:
            return tuple(Given(*text.split("=", 1)) for text in stored[name])

        return cls(
            id=server_id,
            command=tuple(stored["command"]),
            url=stored["url"],
            environment=given("environment"),
            headers=given("headers"),
            readable=tuple(Path(path) for path in stored["readable"]),
            roots=RootAccess(stored["roots"]),
            network=bool(stored["network"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person at the command line said of a new server."""

    id: str
    command: Sequence[str] = ()
    url: str = ""
    environment: Sequence[str] = ()
    headers: Sequence[str] = ()
    readable: Sequence[Path] = ()
    roots: str = RootAccess.read.value
    network: bool = False


def server_of(wish: Wish, redactor: Redactor) -> Server:
    """The server, or a `BadUsage` that says what to write instead."""
    if not SERVER_ID.fullmatch(wish.id):
        raise BadUsage(f"'{wish.id}' is not a valid server id: use 1 to 20 characters of a-z, 0-9 and -")
    if bool(wish.command) == bool(wish.url):
        raise BadUsage("give either a command (after --) or a URL (--url)")
    if len(wish.environment) + len(wish.headers) > MAX_GIVEN:
        raise BadUsage(f"a server can have at most {MAX_GIVEN} values")
    if not all(is_utf8(text) and "\0" not in text for text in (*wish.command, wish.url)):
        raise BadUsage("the command or URL is not valid UTF-8, or contains a null character")
    return _remote(wish, redactor) if wish.url else _local(wish, redactor)


def _remote(wish: Wish, redactor: Redactor) -> Server:
    if wish.environment or wish.readable or wish.network or wish.roots != RootAccess.read:
        raise BadUsage(
            "--env, --readable, --roots and --network apply only to a command, not to a server over HTTP"
        )
    try:
        refuse_unsafe(wish.url, "--url", plain_http="")
    except ValueError as error:
        raise BadUsage(str(error)) from None
    parts = urlsplit(wish.url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise BadUsage("--url: plain http is not encrypted; use https")
    if redactor.text(wish.url) != wish.url:
        raise BadUsage("--url: it contains a secret; use --header NAME=env:VARIABLE")
    headers = tuple(parse_given(text, redactor, "--header") for text in wish.headers)
    for header in headers:
        if header.name.lower() in _OWN_HEADERS or not header.name.replace("-", "").isalnum():
            raise BadUsage(f"--header {header.name}: this header cannot be set")
    return Server(id=wish.id, url=wish.url, headers=headers, roots=RootAccess.none)


def _local(wish: Wish, redactor: Redactor) -> Server:
    if wish.headers:
        raise BadUsage("--header applies only to a URL; use --env to pass variables to a command")
    words = [str(word) for word in wish.command]
    if len(words) > MAX_WORDS or any(len(word) > MAX_WORD_CHARS for word in words):
        raise BadUsage("the command is too long")
    if any(redactor.text(word) != word for word in words):
        raise BadUsage("the command contains a secret, which is not stored; use --env NAME=env:VARIABLE")
    try:
        roots = RootAccess(wish.roots)
    except ValueError:
        raise BadUsage(f"--roots: '{wish.roots}' is not one of none, read, write") from None
    return Server(
        id=wish.id,
        command=(_program(words[0]), *words[1:]),
        environment=tuple(parse_given(text, redactor, "--env") for text in wish.environment),
        readable=tuple(dict.fromkeys(_folder(path) for path in wish.readable)),
        roots=roots,
        network=wish.network,
    )


def _program(name: str) -> str:
    """By its absolute path, links as they are: an interpreter finds its libraries by the name it has."""
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
        raise BadUsage(f"--readable {quotable(str(path), 200)}: no such file or folder")
    return resolved
