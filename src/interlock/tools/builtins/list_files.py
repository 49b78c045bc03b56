"""Lists a directory."""

from dataclasses import dataclass

from pydantic import Field

from interlock.redaction.redactor import Redactor
from interlock.sandbox.directory_walk import MAX_DEPTH
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import MAX_PAGE, READING_MODES, Cursor, FileTool, PathText
from interlock.tools.files.directory_listing import list_page, require_directory
from interlock.tools.paging import page_limits
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolLimits


class ListFilesArguments(ToolArguments):
    path: PathText = Field(default=".", description="The folder. Default: the first opened folder.")
    recursive: bool = Field(default=False, description="Also list the content of subfolders.")
    limit: int | None = Field(
        default=None, ge=1, le=MAX_PAGE, description="Return at most this many entries at a time."
    )
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    asked: ListFilesArguments


class ListFilesTool(FileTool[_Plan]):
    name = "list_files"
    aliases = ("ls", "fs.list")
    description = (
        "List a folder, one path per line, including hidden files. A folder ends with /, a "
        "symlink with @. Names with unusual characters are shown as JSON strings."
    )
    arguments = ListFilesArguments
    allowed_modes = READING_MODES
    effect = Effect.read

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def limits_text(self, limits: ToolLimits) -> str:
        return page_limits(limits)

    def judge(self, arguments: ListFilesArguments, resolver: PathResolver, context: ToolContext) -> _Plan:  # noqa: ARG002
        place = resolver.find(arguments.path)
        require_directory(resolver, place)
        return _Plan(place, arguments)

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        return list_page(
            *(resolver, plan.place, context, self._redactor),
            max_depth=MAX_DEPTH if plan.asked.recursive else 1,
            limit=plan.asked.limit,
            cursor=plan.asked.cursor,
        )
