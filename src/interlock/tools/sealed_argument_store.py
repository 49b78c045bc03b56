"""Stores the original arguments of calls whose arguments the log masks.

A model chooses what looks like a secret: `PASSWORD='…'; eval "$PASSWORD"` is masked, yet it is what ran. So
masked arguments are stored here before the call runs, readable by their owner only.

An entry is a file: random bytes, then the arguments as JSON. The sha256 of the whole is its name, and is in
the log as the call's seal. It proves the file's content; and arguments cannot be guessed from the log
alone, because the random bytes are unknown.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from interlock.core.files import fsync_path, write_durably
from interlock.core.logging import StructuredLogger
from interlock.core.remove_tree import remove_tree

_log = StructuredLogger(__name__)

SALT_BYTES = 32


class SealedArgumentStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def seal(self, session_id: str, arguments: Mapping[str, Any]) -> str:
        """Store the arguments; they are on disk when this returns. Raises `OSError`."""
        content = secrets.token_bytes(SALT_BYTES) + orjson.dumps(arguments)
        seal = sha256(content).hexdigest()
        folder = self._folder_of(session_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(folder / seal, [content])
        fsync_path(folder.parent)
        return seal

    def opened(self, session_id: str, seal: str) -> dict[str, Any] | None:
        """The arguments of a call; None if no longer stored, or if they do not match the seal."""
        if not seal.isalnum():
            return None
        try:
            content = (self._folder_of(session_id) / seal).read_bytes()
        except OSError:
            return None
        if sha256(content).hexdigest() != seal:
            return None
        arguments: dict[str, Any] = orjson.loads(content[SALT_BYTES:])
        return arguments

    def forget(self, session_id: str) -> None:
        """Erase everything stored of a session. Raises `OSError`."""
        remove_tree(self._folder_of(session_id))

    def forget_before(self, time_us: int) -> None:
        """Delete older entries, as the content of events is."""
        with suppress(FileNotFoundError):
            for folder in list(self._folder.iterdir()):
                for path in list(folder.iterdir()):
                    _forget_if_before(time_us, path)

    def _folder_of(self, session_id: str) -> Path:
        # Session ids are arbitrary text; directory names are not.
        return self._folder / sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _forget_if_before(time_us: int, path: Path) -> None:
    try:
        if path.stat().st_mtime_ns // 1000 < time_us:
            path.unlink(missing_ok=True)
    except OSError as error:
        _log.error("sealed_not_erased", path=str(path), error=error.strerror)
