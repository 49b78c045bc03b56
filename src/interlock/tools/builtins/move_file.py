"""Moves or renames a file, a link or a folder."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.infra.errors import ErrorCode, ToolError
from interlock.sandbox.changes import refuse_protected_inside
from interlock.sandbox.paths import Access, Place, Territory
from interlock.tools.base import ToolContext
from interlock.tools.builtins.delete_file import existing, refuse_with_roots
from interlock.tools.files.base import PATH, WritingTool
from interlock.tools.files.writing import WritingDesk, exists, origin_of, told_as
from interlock.tools.result import FileTouch, ToolResult


@dataclass(frozen=True, slots=True)
class _Plan:
    source: Place
    destination: Place
    overwrite: bool


class MoveFileTool(WritingTool[_Plan]):
    def __init__(self, desk: WritingDesk) -> None:
        self._desk = desk

    @property
    def name(self) -> str:
        return "move_file"

    @property
    def description(self) -> str:
        return (
            "Move or rename a file or a folder, making the folders above its new place. A file that is "
            "there already is replaced only with overwrite."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "source": {**PATH, "description": "What to move."},
                "destination": {**PATH, "description": "Its new path, with its new name."},
                "overwrite": {"type": "boolean", "description": "Replace a file there. Default: false."},
            },
            "required": ["source", "destination"],
        }

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:
        source = territory.find(arguments["source"], Access.write, follow=False)
        destination = territory.find(arguments["destination"], Access.write, follow=False)
        status = existing(territory, source)
        if stat.S_ISDIR(status.st_mode):
            refuse_with_roots(source, context, territory)
            refuse_protected_inside(territory, source, moved_to=destination)
            if destination.path.is_relative_to(source.path):
                raise _refused("a folder cannot be moved into itself")
        if source.path == destination.path:
            raise _refused("source and destination are the same")
        overwrite = arguments.get("overwrite", False)
        if not overwrite and exists(territory, destination):
            raise ToolError(
                ErrorCode.EXECUTION_ERROR,
                f"{territory.shown(destination)} exists already",
                "Choose another name, or set overwrite.",
            )
        return _Plan(source, destination, overwrite)

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return f"{territory.shown(plan.source)} to {territory.shown(plan.destination)}"

    def work(self, plan: _Plan, territory: Territory, context: ToolContext) -> ToolResult:
        kept = self._desk.changes.move(
            *(territory, plan.source, plan.destination),
            overwrite=plan.overwrite,
            origin=origin_of(context),
            commit=context.cancel.begin_effect,
        )
        shown = territory.shown(plan.destination)
        return told_as(
            f"moved {territory.shown(plan.source)} to {shown}",
            kept=kept,
            touched=tuple(
                FileTouch(path=str(place.path), action="moved") for place in (plan.source, plan.destination)
            ),
            path=shown,
        )


def _refused(reason: str) -> ToolError:
    return ToolError(ErrorCode.INVALID_ARGS, reason, "Choose another destination.")
