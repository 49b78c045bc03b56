"""Deletes a file or a link, or a whole folder when that is said in so many words."""

import stat
from collections.abc import Mapping
from typing import Any

from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.records import dataclass
from interlock.sandbox.folders import refuse_protected_inside
from interlock.sandbox.paths import Access, Place, Territory
from interlock.tools.base import ToolContext
from interlock.tools.files.base import PATH, WritingTool
from interlock.tools.files.writing import WritingDesk, origin_of, refuse_with_roots, standing_at, told_as
from interlock.tools.result import FileTouch, ToolResult


@dataclass(frozen=True, slots=True)
class _Plan:
    place: Place
    is_folder: bool


class DeleteFileTool(WritingTool[_Plan]):
    def __init__(self, desk: WritingDesk) -> None:
        self._desk = desk

    @property
    def name(self) -> str:
        return "delete_file"

    @property
    def description(self) -> str:
        return (
            "Delete a file or a symlink (not its target); with recursive, delete a folder and "
            "everything in it."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "The path to delete."},
                "recursive": {
                    "type": "boolean",
                    "description": "Required to delete a folder. Default: false.",
                },
            },
            "required": ["path"],
        }

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:
        place = territory.find(arguments["path"], Access.write, follow=False)
        status = standing_at(territory, place)
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder:
            refuse_with_roots(place, context, territory)
            if not arguments.get("recursive", False):
                raise ToolError(
                    ErrorCode.INVALID_ARGS,
                    f"{territory.shown(place)} is a folder",
                    "Set recursive to true to delete it with everything in it.",
                )
            refuse_protected_inside(territory, place)
        return _Plan(place, is_folder)

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.place)

    def work(self, plan: _Plan, territory: Territory, context: ToolContext) -> ToolResult:
        shown = territory.shown(plan.place)
        if stat.S_ISDIR(standing_at(territory, plan.place).st_mode) is not plan.is_folder:
            raise ToolError(
                ErrorCode.STALE_READ, f"{shown} was replaced in the meantime", "Check it again first."
            )
        kept = self._desk.changes.delete(
            territory, plan.place, origin_of(context), context.cancel.begin_effect
        )
        what = f"the folder {shown} and everything in it" if plan.is_folder else shown
        return told_as(
            f"deleted {what}",
            kept=kept,
            touched=(FileTouch(path=str(plan.place.path), action="deleted"),),
            path=shown,
        )
