"""Values given to a server: literal, or a reference resolved when it starts.

A secret is never stored. The store has `env:NAME` or `file:/PATH`; the value is read at the last moment and
registered with the redactor.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from interlock.core.errors import BadUsage, InterlockError
from interlock.core.text import is_utf8
from interlock.redaction.redactor import Redactor
from interlock.redaction.secret_names import is_secret_name

MAX_VALUE_BYTES = 32 * 1024
_FORMS = ("env:", "file:")


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

    @property
    def shown(self) -> str:
        return f"{self.name}={self.value}"

    def resolved(self) -> str:
        if self.value.startswith("env:"):
            return _variable(self.name, self.value.removeprefix("env:"))
        return self.value if self.file is None else _content(self.name, self.file)


def parse_named_value(text: str, redactor: Redactor, what: str) -> NamedValue:
    """Parse `NAME=VALUE`. A value that looks secret must be given as a reference."""
    name, separator, value = text.partition("=")
    if not separator or not name or not name.isascii() or not name.isprintable() or " " in name:
        raise BadUsage(f"{what}: write NAME=VALUE, NAME=env:VARIABLE or NAME=file:/PATH")
    given = NamedValue(name, value)
    if given.value.startswith("file:") and not Path(value.removeprefix("file:")).is_absolute():
        raise BadUsage(f"{what} {name}: give the absolute path of the file")
    if not is_utf8(value):
        raise BadUsage(f"{what} {name}: the value is not valid UTF-8")
    if not given.is_reference and value and (is_secret_name(name) or redactor.text(value) != value):
        raise BadUsage(
            f"{what} {name}: this looks like a secret, and secrets are not stored; "
            f"write {name}=env:VARIABLE or {name}=file:/PATH"
        )
    if "\0" in value or len(value.encode()) > MAX_VALUE_BYTES:
        raise BadUsage(f"{what} {name}: the value is too long, or contains a null character")
    return given


def _variable(name: str, variable: str) -> str:
    if variable not in os.environ:
        raise ReferenceUnresolved(f"{name} is read from the variable {variable}, which is not set")
    return os.environ[variable]


def _content(name: str, path: Path) -> str:
    try:
        # Opening a pipe would block the whole process.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ReferenceUnresolved(f"{name} is read from {path}, which is not a regular file")
            content = file.read(MAX_VALUE_BYTES + 1)
        text = content.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ReferenceUnresolved(f"{name} is read from the file {path}: {reason}") from None
    if len(content) > MAX_VALUE_BYTES:
        raise ReferenceUnresolved(f"{name} is read from the file {path}, which is too large")
    return text
