"""Stores the original arguments of calls whose arguments the log masks.

A model chooses what looks like a secret: `PASSWORD='…'; eval "$PASSWORD"` is masked, yet it is what ran. So
masked arguments are stored here before the call runs, readable by their owner only.

An entry is a file: random bytes, then the arguments as JSON. The sha256 of the whole is its name, and is in
the log as the call's seal. It proves the file's content; and arguments cannot be guessed from the log
alone, because the random bytes are unknown.
"""

import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from interlock.core.files import write_durably
from interlock.core.session_files import SessionFiles

SALT_BYTES = 32


class SealedArgumentStore:
    def __init__(self, folder: Path) -> None:
        self.files = SessionFiles(folder)

    def seal(self, session_id: str, arguments: Mapping[str, Any]) -> str:
        """Store the arguments; they are on disk when this returns. Raises `OSError`."""
        content = secrets.token_bytes(SALT_BYTES) + orjson.dumps(arguments)
        seal = sha256(content).hexdigest()
        write_durably(self.files.make_directory(session_id) / seal, [content])
        return seal

    def opened(self, session_id: str, seal: str) -> dict[str, Any] | None:
        """The arguments of a call; None if no longer stored, or if they do not match the seal."""
        if not seal.isalnum():
            return None
        try:
            content = (self.files.directory_of(session_id) / seal).read_bytes()
        except OSError:
            return None
        if sha256(content).hexdigest() != seal:
            return None
        arguments: dict[str, Any] = orjson.loads(content[SALT_BYTES:])
        return arguments
