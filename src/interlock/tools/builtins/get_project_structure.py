"""Draws the tree of a project, so that a model knows its way around before it reads."""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import Field

from interlock.core.files import open_beneath
from interlock.redaction.redactor import Redactor
from interlock.sandbox.directory_walk import EntryKind, entries
from interlock.sandbox.paths import PathResolver, ResolvedPath, quote_path
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import MAX_PAGE, READING_MODES, FileTool, PathText
from interlock.tools.files.directory_listing import KIND_SUFFIXES, require_directory
from interlock.tools.paging import LinePage, page_limits
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolLimits

DEFAULT_DEPTH = 3
DEFAULT_LIMIT = 400

# A directory with more entries is shown in part, so that it cannot hide the rest.
MAX_IN_FOLDER = 50

# Generated directories: listed, but not descended into.
_NOT_OPENED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"}
    | {".ruff_cache", ".pytest_cache", ".idea", ".gradle", "target", "dist", "build", ".next", ".cache"}
    | {".hypothesis", ".eggs", ".terraform"}
)


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    max_depth: int
    limit: int


class GetProjectStructureArguments(ToolArguments):
    path: PathText = Field(default=".", description="The folder. Default: the first opened folder.")
    max_depth: int = Field(
        default=DEFAULT_DEPTH,
        ge=1,
        le=20,
        description=f"The number of levels to show. Default: {DEFAULT_DEPTH}.",
    )
    limit: int = Field(
        default=DEFAULT_LIMIT,
        ge=1,
        le=MAX_PAGE,
        description=f"The maximum number of lines. Default: {DEFAULT_LIMIT}.",
    )


class GetProjectStructureTool(FileTool[_Plan]):
    name = "get_project_structure"
    description = (
        "Show the folders and files of a project as an indented tree; large folders are "
        "shown in part. Folders such as .git and node_modules are listed but not expanded; "
        "use list_files to see everything."
    )
    arguments = GetProjectStructureArguments
    allowed_modes = READING_MODES
    effect = Effect.read

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def limits_text(self, limits: ToolLimits) -> str:
        return page_limits(limits)

    def judge(
        self,
        arguments: GetProjectStructureArguments,
        resolver: PathResolver,
        context: ToolContext,  # noqa: ARG002
    ) -> _Plan:
        place = resolver.find(arguments.path)
        require_directory(resolver, place)
        return _Plan(place, arguments.max_depth, arguments.limit)

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        with resolver.folder(plan.place) as folder:
            top = _chosen(folder, plan, context)
        page = LinePage(context.limits, self._redactor, max_lines=plan.limit)
        page.add(f"{_printable(plan.place.name)}/")
        for line in _drawn(top, 1):
            if not page.add(line):
                break
        return ToolResult(
            stdout=page.text,
            stderr="" if top.is_whole and not page.is_full else _CUT,
            truncated_lines=page.truncated_lines or not top.is_whole,
            truncated_bytes=page.truncated_bytes,
            meta={"path": resolver.shown(plan.place), "lines": len(page)},
            redacted=page.redacted,
        )


_CUT = "output truncated: view one of the folders, or choose a smaller max_depth\n"


@dataclass(slots=True)
class _Folder:
    """What is shown of a directory: `note` on its own line, then some entries and the number of others."""

    parts: tuple[str, ...]
    note: str = ""
    entries: "list[tuple[str, EntryKind, _Folder | None]]" = field(default_factory=list)
    more: int = 0
    is_whole: bool = True


def _chosen(top_folder: int, plan: _Plan, context: ToolContext) -> _Folder:
    """Choose entries level by level: a large directory takes no room from its siblings."""
    top = _Folder(())
    waiting, room = deque([top]), plan.limit - 1
    while waiting:
        context.cancel.check()
        folder = waiting.popleft()
        listed = _listed(top_folder, folder)
        if _is_closed(folder, plan.max_depth) or not listed:
            continue
        # One line is reserved for the number of omitted entries.
        count = min(len(listed), MAX_IN_FOLDER, max(room, 0))
        count -= count == room < len(listed)
        if count <= 0:
            folder.note, top.is_whole = f" ({_entries(len(listed))})", False
            continue
        folder.more = len(listed) - count
        top.is_whole &= count == min(len(listed), MAX_IN_FOLDER)
        for name, kind in listed[:count]:
            below = _Folder((*folder.parts, name)) if kind is EntryKind.folder else None
            folder.entries.append((name, kind, below))
            waiting.extend([below] if below else [])
        room -= count + (folder.more > 0)
    return top


def _listed(top: int, folder: _Folder) -> list[tuple[str, EntryKind]]:
    """The entries, directories first. A directory that is not drawn shows its number of entries."""
    try:
        descriptor = open_beneath(top, "/".join(folder.parts) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            found = entries(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        folder.note = " (cannot be opened)"
        return []
    folder.note = f" ({_entries(len(found))})" if found else " (empty)"
    return sorted(found, key=lambda entry: (entry[1] is not EntryKind.folder, entry[0]))


def _drawn(folder: _Folder, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, kind, below in folder.entries:
        note = below.note if below is not None and not below.entries else ""
        yield f"{indent}{_printable(name)}{KIND_SUFFIXES[kind]}{note}"
        if below is not None:
            yield from _drawn(below, depth + 1)
    if folder.more:
        yield f"{indent}… and {folder.more} more"


def _is_closed(folder: _Folder, max_depth: int) -> bool:
    return len(folder.parts) >= max_depth or (bool(folder.parts) and folder.parts[-1] in _NOT_OPENED)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _printable(name: str) -> str:
    return name if name.isprintable() else quote_path(name)
