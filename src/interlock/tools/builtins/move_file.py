"""Moves or renames a file, symlink or directory."""

import os
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
    source: ResolvedPath
    destination: ResolvedPath
    overwrite: bool

    @property
    def place(self) -> ResolvedPath:
        return self.source


class MoveFileArguments(ToolArguments):
    source: PathText = Field(description="The path to move.")
    destination: PathText = Field(description="The new path, including the name.")
    overwrite: bool = Field(default=False, description="Replace an existing file. Default: false.")


class MoveFileTool(FileTool[_Plan]):
    name = "move_file"
    description = (
        "Move or rename a file or a folder and create missing parent folders. An existing "
        "file is replaced only with overwrite."
    )
    arguments = MoveFileArguments
    allowed_modes = WRITING_MODES
    effect = Effect.write

    def __init__(self, write_services: WriteServices) -> None:
        self._write_services = write_services

    def judge(self, arguments: MoveFileArguments, resolver: PathResolver, context: ToolContext) -> _Plan:
        source = resolver.find(arguments.source, PathAccess.write, follow=False)
        destination = resolver.find(arguments.destination, PathAccess.write, follow=False)
        if source.path == destination.path:
            raise _refused("source and destination are the same")
        status = lstat_path(resolver, source)
        if stat.S_ISDIR(status.st_mode):
            refuse_with_roots(source, context, resolver)
            if destination.path.is_relative_to(source.path):
                raise _refused("a folder cannot be moved into itself")
            refuse_protected_inside(resolver, source, moved_to=destination)
        overwrite = arguments.overwrite
        target = _at(resolver, destination)
        if target is not None:
            _refuse_target(status, target, resolver.shown(destination), source.name, overwrite=overwrite)
        return _Plan(source, destination, overwrite)

    def subject(self, plan: _Plan, resolver: PathResolver) -> str:
        return f"{resolver.shown(plan.source)} to {resolver.shown(plan.destination)}"

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        kept = self._write_services.changes.move(
            *(resolver, plan.source, plan.destination),
            overwrite=plan.overwrite,
            origin=change_origin(context),
            commit=context.cancel.begin_effect,
        )
        shown = resolver.shown(plan.destination)
        return write_result(
            f"moved {resolver.shown(plan.source)} to {shown}",
            kept=kept,
            touched=tuple(
                FileTouch(path=str(place.path), action="moved") for place in (plan.source, plan.destination)
            ),
            path=shown,
        )


def _at(resolver: PathResolver, place: ResolvedPath) -> os.stat_result | None:
    try:
        return lstat_path(resolver, place)
    except FileNotFoundError:
        return None


def _refuse_target(
    source: os.stat_result, target: os.stat_result, shown: str, name: str, *, overwrite: bool
) -> None:
    """An existing destination may be replaced only if both are files, and only on request."""
    if stat.S_ISDIR(target.st_mode):
        raise _in_the_way(
            f"{shown} is a folder", f"To move it into that folder, add its name: {shown}/{name}"
        )
    if not stat.S_ISREG(target.st_mode):
        raise _in_the_way(f"{shown} exists and is not a file", "Choose another destination.")
    if stat.S_ISDIR(source.st_mode):
        raise _in_the_way(
            f"{shown} is a file, and a folder cannot replace it", "Choose another destination."
        )
    if (source.st_dev, source.st_ino) == (target.st_dev, target.st_ino):
        # The kernel would keep both names and report success.
        raise _in_the_way(f"{shown} is a hard link to the same file", "Delete one of the names.")
    if not overwrite:
        raise _in_the_way(f"{shown} already exists", "Choose another name, or set overwrite.")
    if not stat.S_IMODE(target.st_mode) & 0o222:
        raise _in_the_way(
            f"{shown} is marked as read-only",
            "Leave it unchanged, or tell the user that it should be changed.",
        )


def _in_the_way(message: str, next_action: str) -> ToolError:
    return ToolError(ErrorCode.EXECUTION_ERROR, message, next_action, is_an_answer=True)


def _refused(reason: str) -> ToolError:
    return ToolError(ErrorCode.INVALID_ARGS, reason, "Choose another destination.")
