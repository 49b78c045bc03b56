"""Deletes a file or symlink, or a whole directory if explicitly requested."""

import stat
from dataclasses import dataclass

from pydantic import Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.sandbox.directories import refuse_protected_inside
from interlock.sandbox.paths import PathAccess, PathResolver, ResolvedPath
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import WRITING_MODES, FileTool, PathText
from interlock.tools.files.write_checks import (
    WriteServices,
    change_origin,
    lstat_path,
    refuse_with_roots,
    write_result,
)
from interlock.tools.result import FileTouch, ToolResult
from interlock.tools.tool import Effect, ToolContext


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    is_folder: bool


class DeleteFileArguments(ToolArguments):
    path: PathText = Field(description="The path to delete.")
    recursive: bool = Field(default=False, description="Required to delete a folder. Default: false.")


class DeleteFileTool(FileTool[_Plan]):
    name = "delete_file"
    description = (
        "Delete a file or a symlink (not its target); with recursive, delete a folder and everything in it."
    )
    arguments = DeleteFileArguments
    allowed_modes = WRITING_MODES
    effect = Effect.write

    def __init__(self, write_services: WriteServices) -> None:
        self._write_services = write_services

    def judge(self, arguments: DeleteFileArguments, resolver: PathResolver, context: ToolContext) -> _Plan:
        place = resolver.find(arguments.path, PathAccess.write, follow=False)
        status = lstat_path(resolver, place)
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder:
            refuse_with_roots(place, context, resolver)
            if not arguments.recursive:
                raise ToolError(
                    ErrorCode.INVALID_ARGS,
                    f"{resolver.shown(place)} is a folder",
                    "Set recursive to true to delete it with everything in it.",
                )
            refuse_protected_inside(resolver, place)
        return _Plan(place, is_folder)

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
