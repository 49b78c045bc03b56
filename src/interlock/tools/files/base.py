"""The base of file tools: they judge their paths first, and work in threads."""

import errno
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import escape_control_characters
from interlock.sandbox.paths import PathResolver
from interlock.tools.paging import page_limits
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread, run_in_thread_abandonable
from interlock.tools.tool import (
    BaseTool,
    Effect,
    PolicySwitch,
    ToolContext,
    ToolGroup,
    ToolLimits,
    ToolMode,
)

Plan = TypeVar("Plan")

READING_MODES = frozenset({ToolMode.chat, ToolMode.plan, ToolMode.coding})
WRITING_MODES = frozenset({ToolMode.coding})

PATH = {"type": "string", "minLength": 1, "maxLength": 4096}
FILE_PATH = {**PATH, "description": "The file, relative to the first opened folder or absolute."}
CURSOR = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "next_page_cursor of the previous page; keep the other arguments unchanged.",
}


class FileTool(BaseTool, Generic[Plan]):
    """A tool that works on files in the opened directories.

    Paths are judged in a thread: they may block.
    """

    @property
    def group(self) -> ToolGroup:
        return ToolGroup.code

    @property
    def switches(self) -> frozenset[PolicySwitch]:
        return frozenset({PolicySwitch.fs})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"roots"})

    @abstractmethod
    def judge(self, arguments: Mapping[str, Any], resolver: PathResolver, context: ToolContext) -> Plan:
        """Judge every path and return the plan, without any effect."""

    @abstractmethod
    def subject(self, plan: Plan, resolver: PathResolver) -> str:
        """What the call is about, for error messages."""

    async def prepare(self, arguments: Mapping[str, Any], context: ToolContext) -> Plan | ToolResult:
        resolver = PathResolver(context.profile)

        def judge() -> Plan:
            with_paths = [str(arguments[name]) for name in ("path", "source") if name in arguments]
            try:
                return self.judge(arguments, resolver, context)
            except OSError as error:
                raise tool_error_from_oserror(error, with_paths[0] if with_paths else ".") from error

        return await run_in_thread_abandonable(context.cancel, judge)


class BlockingFileTool(FileTool[Plan]):
    """A file tool that consists of system calls only."""

    @abstractmethod
    def work(self, plan: Plan, resolver: PathResolver, context: ToolContext) -> ToolResult: ...

    async def execute(self, prepared: Plan, context: ToolContext) -> ToolResult:
        resolver = PathResolver(context.profile)

        def work() -> ToolResult:
            try:
                return self.work(prepared, resolver, context)
            except OSError as error:
                raise tool_error_from_oserror(error, self.subject(prepared, resolver)) from error

        return await run_in_thread(context.cancel, work)


class ReadingTool(BlockingFileTool[Plan]):
    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return READING_MODES

    @property
    def effect(self) -> Effect:
        return Effect.read

    def limits_text(self, limits: ToolLimits) -> str:
        return page_limits(limits)


class WritingTool(BlockingFileTool[Plan]):
    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return WRITING_MODES

    @property
    def effect(self) -> Effect:
        return Effect.write


_SENTENCES = {
    errno.ENOENT: "there is no {shown}",
    errno.ENOTDIR: "{shown}: a part of the path is not a folder",
    errno.EISDIR: "{shown} is a folder",
    errno.EEXIST: "{shown} already exists",
    errno.EACCES: "{shown}: Interlock's account has no permission",
    errno.EPERM: "{shown}: the system does not permit it",
    errno.ENOSPC: "{shown}: the disk is full",
    errno.EDQUOT: "{shown}: the disk quota is exceeded",
    errno.EROFS: "{shown} is on a read-only file system",
    errno.ENAMETOOLONG: "{shown}: a name in it is too long",
    errno.ENXIO: "{shown} is not a regular file (a pipe, a socket or a device)",
    errno.EXDEV: "{shown} is on another file system",
    errno.ENOTEMPTY: "{shown} is not empty",
}

_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT}

_NEXT_STEPS = {
    errno.ENOENT: "Search for it with find_files or list_files.",
    errno.EISDIR: "Use list_files for a folder.",
    errno.ENOSPC: "Tell the user that the disk is full.",
    errno.EXDEV: "Copy it with read_file and write_file, or tell the user.",
}


def tool_error_from_oserror(error: OSError, shown: str) -> ToolError:
    """An OS error as a message for the model, without any path but the one it knows."""
    code = error.errno or 0
    sentence = _SENTENCES.get(code, f"{{shown}}: {os.strerror(code) if code else 'it failed'}")
    return ToolError(
        ErrorCode.EXECUTION_ERROR,
        sentence.format(shown=escape_control_characters(shown)),
        _NEXT_STEPS.get(code, "Try a different approach, or tell the user."),
        is_an_answer=code in _SENTENCES.keys() - _OF_THE_DISK,
    )


def integer_schema(description: str, minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "maximum": maximum, "description": description}
