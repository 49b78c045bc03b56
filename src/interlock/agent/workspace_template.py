"""The files that `interlock init` creates in a workspace. Existing files are never changed."""

import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from interlock.agent.workspace_files import AGENTS, MEMORY, SOUL, USER

# All content is in comments: until a person adds text, the model receives nothing.
TEMPLATE_FILES = {
    AGENTS: """\
<!--
AGENTS.md: working instructions. Every conversation, agent and workflow run reads this file.
Comments like this one are for you; the model never sees them. Write below, briefly. For example:

- Run the tests before you say that something works.
- Write dates as 2026-11-15 and times in 24-hour format.
-->
""",
    USER: """\
<!--
USER.md: about you. Conversations and agents read this file; workflow runs do not.
Comments like this one are for you; the model never sees them. Write below, briefly. For example:

- I am Ada, I live in Zurich, and I write German and English.
-->
""",
    SOUL: """\
<!--
SOUL.md: the assistant's personality. Plain conversations read this file; an agent has its own persona.
Comments like this one are for you; the model never sees them. Write below, briefly. For example:

- Be brief and friendly. Say so when you are not sure.
-->
""",
    MEMORY: """\
<!--
MEMORY.md: a few facts to keep in mind. Conversations and agents read this file; workflow runs do not.
Put everything else into notes in the folder memory, where memory_search finds it.
Comments like this one are for you; the model never sees them. Write below, briefly. For example:

- The project "harbour" lives in ~/code/harbour; its deadline is in May.
-->
""",
}
TEMPLATE_DIRECTORIES = ("agents", "workflows", "memory")


class CreationStatus(StrEnum):
    made = "made"
    there = "there"
    failed = "failed"


@dataclass(frozen=True, slots=True)
class CreationResult:
    """The outcome for one file or directory; `detail` says why it failed."""

    path: Path
    found: CreationStatus
    detail: str = ""


def create_workspace_files(path: Path) -> list[CreationResult]:
    """Create what is missing, accessible to its owner only. One failure does not stop the others."""
    root = _folder(path)
    if root.found is CreationStatus.failed:
        return [root]
    folders = [_folder(path / name) for name in TEMPLATE_DIRECTORIES]
    return [root, *(_file(path / name, text) for name, text in TEMPLATE_FILES.items()), *folders]


def _folder(path: Path) -> CreationResult:
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if path.is_dir():
            return CreationResult(path, CreationStatus.there)
        return CreationResult(path, CreationStatus.failed, "the path exists and is not a folder")
    except OSError as error:
        return CreationResult(path, CreationStatus.failed, error.strerror or type(error).__name__)
    return CreationResult(path, CreationStatus.made)


def _file(path: Path, text: str) -> CreationResult:
    try:
        # With O_EXCL, even a dangling symlink counts as existing.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if stat.S_ISREG(path.lstat().st_mode):
            return CreationResult(path, CreationStatus.there)
        return CreationResult(path, CreationStatus.failed, "the path exists and is not a regular file")
    except OSError as error:
        return CreationResult(path, CreationStatus.failed, error.strerror or type(error).__name__)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)
        return CreationResult(path, CreationStatus.failed, error.strerror or type(error).__name__)
    return CreationResult(path, CreationStatus.made)
