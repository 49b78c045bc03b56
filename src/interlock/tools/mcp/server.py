"""A server as the operator described it: how it is reached, its values, and its grants.

Grants apply to all tools of a server, since they share one process. So the grants decide which modes its
tools can have: only modes in which a command could do no less. A secret is never stored: the store has
`env:NAME` or `file:/PATH`, and the value is read at the last moment and registered with the redactor.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from interlock.config.modes import ToolMode
from interlock.config.url_checks import is_loopback, reject_unsafe_url
from interlock.core.errors import BadUsage, InterlockError, UserError
from interlock.core.text import is_utf8, safe_excerpt
from interlock.redaction.redactor import Redactor
from interlock.redaction.secret_names import is_secret_name

SERVER_ID = re.compile(r"[a-z0-9-]{1,20}")
MAX_WORDS = 100
MAX_WORD_CHARS = 4096
MAX_GIVEN = 50
MAX_VALUE_BYTES = 32 * 1024
_FORMS = ("env:", "file:")
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


class McpServerError(InterlockError):
    """The rest of a sentence that begins with the server's name.

    `is_answer`: the server said so itself, and can be asked again.
    """

    def __init__(self, reason: str, *, is_answer: bool = False) -> None:
        super().__init__(reason)
        self.is_answer = is_answer


class ReferenceUnresolved(InterlockError):
    """The target of a reference does not exist."""


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A variable or header: its name, and its value or reference."""

    name: str
    value: str

    @property
    def is_reference(self) -> bool:
        return self.value.startswith(_FORMS)

    @property
    def file(self) -> Path | None:
        """The file it is read from, if any."""
        return Path(self.value.removeprefix("file:")) if self.value.startswith("file:") else None

    def resolved(self) -> str:
        source = f"{self.name} is read from"
        if self.value.startswith("env:"):
            variable = self.value.removeprefix("env:")
            if variable not in os.environ:
                raise ReferenceUnresolved(f"{source} the variable {variable}, which is not set")
            return os.environ[variable]
        return self.value if self.file is None else _content(self.file, source)


def _content(path: Path, source: str) -> str:
    try:
        # Opening a pipe would block the whole process.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ReferenceUnresolved(f"{source} {path}, which is not a regular file")
            content = file.read(MAX_VALUE_BYTES + 1)
        text = content.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ReferenceUnresolved(f"{source} the file {path}: {reason}") from None
    if len(content) > MAX_VALUE_BYTES:
        raise ReferenceUnresolved(f"{source} the file {path}, which is too large")
    return text


def resolve_values(given: Iterable[NamedValue], redactor: Redactor) -> dict[str, str]:
    """Resolve the values. Those from references are secret from here on."""
    values = {each.name: each.resolved() for each in given}
    redactor.learn(values[each.name] for each in given if each.is_reference)
    return values


def _stored_value(value: NamedValue | str) -> NamedValue:
    return NamedValue(*value.split("=", 1)) if isinstance(value, str) else value


# Stored and shown as NAME=VALUE.
StoredValue = Annotated[
    NamedValue,
    BeforeValidator(_stored_value),
    PlainSerializer(lambda value: f"{value.name}={value.value}", return_type=str),
]


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
    environment: tuple[StoredValue, ...] = ()
    headers: tuple[StoredValue, ...] = ()
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

    def why_unfitting(self) -> str:
        """Why it fits no further modes."""
        if not self.is_local:
            return f"{self.id} is reached over the network"
        if self.roots is McpRootAccess.write:
            return f"{self.id} may write to the opened folders"
        if self.network:
            return f"{self.id} may use the network"
        opened = "the opened folders" if self.roots is McpRootAccess.read else "the folders it was given"
        return f"{self.id} reads {opened}"

    def as_dict(self) -> dict[str, Any]:
        """Everything but the id, as it is stored."""
        stored: dict[str, Any] = _CONFIG.dump_python(self, mode="json", exclude={"id"})
        return stored

    @classmethod
    def from_dict(cls, server_id: str, stored: dict[str, Any]) -> "McpServerConfig":
        return _CONFIG.validate_python(stored | {"id": server_id})


_CONFIG = TypeAdapter(McpServerConfig)


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
    headers = tuple(_named_value(text, redactor, "--header") for text in request.headers)
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
    # The absolute path, with symlinks kept: an interpreter finds its libraries by its own name.
    program = shutil.which(words[0])
    if program is None:
        raise BadUsage(f"there is no executable program '{words[0]}' here")
    path = str(Path(program).absolute())
    if not is_utf8(path):
        raise BadUsage("the program's name is not valid UTF-8")
    return McpServerConfig(
        id=request.id,
        command=(path, *words[1:]),
        environment=tuple(_named_value(text, redactor, "--env") for text in request.environment),
        readable=tuple(dict.fromkeys(_folder(path) for path in request.readable)),
        roots=roots,
        network=request.network,
    )


def _named_value(text: str, redactor: Redactor, option: str) -> NamedValue:
    """Parse `NAME=VALUE`. A value that looks secret must be given as a reference."""
    name, separator, value = text.partition("=")
    if not separator or not name or not name.isascii() or not name.isprintable() or " " in name:
        raise BadUsage(f"{option}: write NAME=VALUE, NAME=env:VARIABLE or NAME=file:/PATH")
    given = NamedValue(name, value)
    if given.file is not None and not given.file.is_absolute():
        raise BadUsage(f"{option} {name}: give the absolute path of the file")
    if not is_utf8(value):
        raise BadUsage(f"{option} {name}: the value is not valid UTF-8")
    if not given.is_reference and value and (is_secret_name(name) or redactor.text(value) != value):
        raise BadUsage(
            f"{option} {name}: this looks like a secret, and secrets are not stored; "
            f"write {name}=env:VARIABLE or {name}=file:/PATH"
        )
    if "\0" in value or len(value.encode()) > MAX_VALUE_BYTES:
        raise BadUsage(f"{option} {name}: the value is too long, or contains a null character")
    return given


def _folder(path: Path) -> Path:
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        resolved = None
    if resolved is None or not is_utf8(str(resolved)):
        raise BadUsage(f"--readable {safe_excerpt(str(path), 200)}: no such file or folder")
    return resolved
