"""Deletes a file or symlink, or a whole directory if explicitly requested."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.directories import refuse_protected_inside
from interlock.sandbox.paths import PathAccess, PathResolver, ResolvedPath
from interlock.tools.files.base import PATH, WritingTool
from interlock.tools.files.write_checks import (
    WriteServices,
    change_origin,
    lstat_path,
    refuse_with_roots,
    write_result,
)
from interlock.tools.result import FileTouch, ToolResult
from interlock.tools.tool import ToolContext


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    is_folder: bool


class DeleteFileTool(WritingTool[_Plan]):
    def __init__(self, write_services: WriteServices) -> None:
        self._write_services = write_services

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

    def judge(self, arguments: Mapping[str, Any], resolver: PathResolver, context: ToolContext) -> _Plan:
        place = resolver.find(arguments["path"], PathAccess.write, follow=False)
        status = lstat_path(resolver, place)
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder:
            refuse_with_roots(place, context, resolver)
            if not arguments.get("recursive", False):
                raise ToolError(
                    ErrorCode.INVALID_ARGS,
                    f"{resolver.shown(place)} is a folder",
                    "Set recursive to true to delete it with everything in it.",
                )
            refuse_protected_inside(resolver, place)
        return _Plan(place, is_folder)

    def subject(self, plan: _Plan, resolver: PathResolver) -> str:
        return resolver.shown(plan.place)

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        shown = resolver.shown(plan.place)
        if stat.S_ISDIR(lstat_path(resolver, plan.place).st_mode) is not plan.is_folder:
            raise ToolError(
                ErrorCode.STALE_READ, f"{shown} was replaced in the meantime", "Check it again first."
            )
        kept = self._write_services.changes.delete(
            resolver, plan.place, change_origin(context), context.cancel.begin_effect
        )
        what = f"the folder {shown} and everything in it" if plan.is_folder else shown
        return write_result(
            f"deleted {what}",
            kept=kept,
            touched=(FileTouch(path=str(plan.place.path), action="deleted"),),
            path=shown,
        )
