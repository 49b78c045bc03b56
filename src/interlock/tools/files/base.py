"""The base of file tools: they judge their paths first, and work in threads."""

import errno
import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import escape_control_characters
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread, run_in_thread_abandonable
from interlock.tools.tool import PolicySwitch, ToolContext, ToolGroup, ToolMode, TypedTool

Arguments = TypeVar("Arguments")
Judged = TypeVar("Judged")

READING_MODES = frozenset({ToolMode.chat, ToolMode.plan, ToolMode.coding})
WRITING_MODES = frozenset({ToolMode.coding})

# A path, which each tool describes.
PathText = Annotated[str, Field(min_length=1, max_length=4096)]
FilePath = Annotated[
    PathText, Field(description="The file, relative to the first opened folder or absolute.")
]
Cursor = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4096,
        description="next_page_cursor of the previous page; keep the other arguments unchanged.",
    ),
]
MAX_PAGE = 100_000


class _HasPlace(Protocol):
    @property
    def place(self) -> ResolvedPath: ...


Plan = TypeVar("Plan", bound=_HasPlace)


class FileTool(TypedTool, Generic[Plan]):
    """A tool that consists of system calls on files in the opened directories.

    They may block, so both steps run in threads.
    """

    group = ToolGroup.code
    switches = frozenset({PolicySwitch.fs})
    needs = frozenset({"roots"})

    @abstractmethod
    def judge(self, arguments: Any, resolver: PathResolver, context: ToolContext) -> Plan:
        """Judge every path and return the plan, without any effect."""

    @abstractmethod
    def work(self, plan: Plan, resolver: PathResolver, context: ToolContext) -> ToolResult: ...

    def subject(self, plan: Plan, resolver: PathResolver) -> str:
        """What the call is about, for error messages."""
        return resolver.shown(plan.place)

    async def prepare(self, arguments: Any, context: ToolContext) -> Plan | ToolResult:
        return await judge_paths(arguments, context, self.judge)

    async def execute(self, prepared: Plan, context: ToolContext) -> ToolResult:
        resolver = PathResolver(context.profile)

        def work() -> ToolResult:
            try:
                return self.work(prepared, resolver, context)
            except OSError as error:
                raise tool_error_from_oserror(error, self.subject(prepared, resolver)) from error

        return await run_in_thread(context.cancel, work)


async def judge_paths(
    arguments: Arguments,
    context: ToolContext,
    judge: Callable[[Arguments, PathResolver, ToolContext], Judged],
) -> Judged:
    """Judge in a thread: looking a path up may block."""
    resolver = PathResolver(context.profile)

    def judged() -> Judged:
        try:
            return judge(arguments, resolver, context)
        except OSError as error:
            asked = getattr(arguments, "path", None) or getattr(arguments, "source", ".")
            raise tool_error_from_oserror(error, str(asked)) from error

    return await run_in_thread_abandonable(context.cancel, judged)


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
