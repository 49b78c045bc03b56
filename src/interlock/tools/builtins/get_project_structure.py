"""Draws the tree of a project, so that a model knows its way around before it reads."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.redaction.redactor import Redactor
from interlock.sandbox.kernel import open_beneath
from interlock.sandbox.paths import Place, Territory, quoted
from interlock.sandbox.tree import Kind, entries
from interlock.tools.base import ToolContext
from interlock.tools.files.base import PATH, ReadingTool, whole_number
from interlock.tools.files.listing import require_folder
from interlock.tools.output import LinePage
from interlock.tools.result import ToolResult

DEFAULT_DEPTH = 3
DEFAULT_LIMIT = 400

# A folder with more entries than this is shown in part, so that one of them cannot hide the rest.
MAX_IN_FOLDER = 50

# What tools make and people do not write; named, but not looked into.
_NOT_OPENED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"}
    | {".ruff_cache", ".pytest_cache", ".idea", ".gradle", "target", "dist", "build", ".next", ".cache"}
)


@dataclass(frozen=True, slots=True)
class _Plan:
    place: Place
    max_depth: int
    limit: int


class GetProjectStructureTool(ReadingTool[_Plan]):
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @property
    def name(self) -> str:
        return "get_project_structure"

    @property
    def description(self) -> str:
        return (
            "Show the folders and files of a project as an indented tree. Folders such as .git and "
            "node_modules are named but not opened; use list_files for everything."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "The folder. Default: the first opened folder."},
                "max_depth": whole_number(f"How many levels to show. Default: {DEFAULT_DEPTH}.", 1, 20),
                "limit": whole_number(
                    f"Show at most this many lines. Default: {DEFAULT_LIMIT}.", 1, 100_000
                ),
            },
        }

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:  # noqa: ARG002
        place = territory.find(arguments.get("path", "."))
        require_folder(territory, place)
        return _Plan(
            place, arguments.get("max_depth", DEFAULT_DEPTH), arguments.get("limit", DEFAULT_LIMIT)
        )

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.place)

    def work(self, plan: _Plan, territory: Territory, context: ToolContext) -> ToolResult:
        page = LinePage(context.limits, self._redactor, max_lines=plan.limit)
        with territory.folder(plan.place) as folder:
            page.add(f"{_shown(plan.place.name)}/")
            for line in _tree(folder, 1, plan.max_depth, context):
                if not page.add(line):
                    break
        return ToolResult(
            stdout=page.text,
            truncated_lines=page.truncated_lines,
            truncated_bytes=page.truncated_bytes,
            meta={"path": territory.shown(plan.place), "lines": len(page)},
        )


def _tree(folder: int, depth: int, max_depth: int, context: ToolContext) -> Iterator[str]:
    context.cancel.check()
    indent = "  " * depth
    found = sorted(entries(folder), key=lambda entry: (entry[1] is not Kind.folder, entry[0]))
    for name, kind in found[:MAX_IN_FOLDER]:
        if kind is not Kind.folder:
            yield f"{indent}{_shown(name)}{'@' if kind is Kind.link else ''}"
            continue
        try:
            below = open_beneath(folder, name, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            yield f"{indent}{_shown(name)}/ (cannot be opened)"
            continue
        try:
            if name in _NOT_OPENED or depth >= max_depth:
                yield f"{indent}{_shown(name)}/ ({len(entries(below))} entries)"
            else:
                yield f"{indent}{_shown(name)}/"
                yield from _tree(below, depth + 1, max_depth, context)
        finally:
            os.close(below)
    if len(found) > MAX_IN_FOLDER:
        yield f"{indent}… and {len(found) - MAX_IN_FOLDER} more"


def _shown(name: str) -> str:
    return name if name.isprintable() else quoted(name)
