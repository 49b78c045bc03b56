"""The workspace files included in a prompt: AGENTS.md, USER.md, SOUL.md and MEMORY.md.

People write them, and no tool can. They are read again for every task; each may be missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interlock.agent.regular_files import (
    InvalidFile,
    RegularFile,
    decode_text,
    open_directory,
    read_regular_file,
    strip_comments,
)
from interlock.core.logging import StructuredLogger
from interlock.redaction.redactor import MARK
from interlock.sessions.models import SessionKind

_log = StructuredLogger(__name__)

AGENTS, USER, SOUL, MEMORY = "AGENTS.md", "USER.md", "SOUL.md", "MEMORY.md"
# An agent has a persona instead of SOUL.md; a run has its brief, and is not a private conversation.
READ_BY = {
    SessionKind.chat: (AGENTS, USER, SOUL, MEMORY),
    SessionKind.agent: (AGENTS, USER, MEMORY),
    SessionKind.run: (AGENTS,),
}
MAX_SHOWN_BYTES = 16_384

# Read beyond the limit and cut after redaction, so that no part of a secret remains at the end.
_MARGIN_BYTES = 65_536

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """The text of a file for the model, or in `problem` why there is none."""

    name: str
    text: str
    problem: str = ""


class WorkspaceFiles:
    def __init__(self, path: Path, redact: Redact) -> None:
        self._path = path
        self._redact = redact

    def read(self, kind: SessionKind) -> tuple[WorkspaceFile, ...]:
        """The current files for a session of this kind, in fixed order."""
        try:
            with open_directory(self._path) as folder:
                if folder is None:
                    return ()
                files = [self._file(folder, name) for name in READ_BY[kind]]
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            files = [WorkspaceFile(name, "", problem) for name in READ_BY[kind]]
        for file in files:
            if file is not None and file.problem:
                _log.warning("workspace_file_refused", file=file.name, reason=file.problem)
        return tuple(file for file in files if file is not None)

    def _file(self, folder: int, name: str) -> WorkspaceFile | None:
        try:
            file = read_regular_file(folder, name, MAX_SHOWN_BYTES + _MARGIN_BYTES)
            return None if file is None else WorkspaceFile(name, _shown(name, file, self._redact))
        except InvalidFile as unfit:
            return WorkspaceFile(name, "", unfit.reason)


def _shown(name: str, file: RegularFile, redact: Redact) -> str:
    safe = redact(decode_text(file))
    if file.is_cut:
        safe = safe.encode()[:-_MARGIN_BYTES].decode("utf-8", "ignore")
    text = strip_comments(safe, is_cut=file.is_cut)
    if not file.is_cut and len(text.encode()) <= MAX_SHOWN_BYTES:
        return text
    return f"{_beginning(text)}\n[{name} has {file.size} bytes; only the beginning is shown here.]"


def _beginning(text: str) -> str:
    """The beginning of a longer text: up to the limit, at a line end if near, without a partial mark."""
    piece = text.encode()[:MAX_SHOWN_BYTES].decode("utf-8", "ignore")
    line_end = piece.rfind("\n", len(piece) // 2)
    if line_end >= 0:
        return piece[:line_end]
    if piece.endswith(MARK):
        return piece
    for length in range(len(MARK) - 1, 0, -1):
        if piece.endswith(MARK[:length]):
            return piece[:-length]
    return piece
