"""Finds files and directories by name."""

from dataclasses import dataclass

from pydantic import Field

from interlock.redaction.redactor import Redactor
from interlock.sandbox.directory_walk import MAX_DEPTH
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import MAX_PAGE, READING_MODES, Cursor, FileTool, PathText
from interlock.tools.files.directory_listing import list_page, require_directory
from interlock.tools.files.glob_arguments import Glob, judged_pattern
from interlock.tools.paging import page_limits
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolLimits


class FindFilesArguments(ToolArguments):
    path: PathText = Field(
        default=".", description="The folder to search. Default: the first opened folder."
    )
    name_pattern: str = Field(
        min_length=1, max_length=1000, description="For example *.py, test_*, src/**/*.ts. Case-sensitive."
    )
    max_depth: int = Field(
        default=MAX_DEPTH, ge=1, le=MAX_DEPTH, description="Search at most this many levels deep."
    )
    limit: int | None = Field(
        default=None, ge=1, le=MAX_PAGE, description="Return at most this many results at a time."
    )
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    glob: Glob
    asked: FindFilesArguments


class FindFilesTool(FileTool[_Plan]):
    name = "find_files"
    aliases = ("find",)
    description = (
        "Find files and folders by name, including hidden ones. Patterns: *, ?, [abc], "
        "{a,b}; a pattern with a / is matched against the path below the folder, and ** "
        "matches any number of folders."
    )
    arguments = FindFilesArguments
    allowed_modes = READING_MODES
    effect = Effect.read

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def limits_text(self, limits: ToolLimits) -> str:
        return page_limits(limits)

    def judge(self, arguments: FindFilesArguments, resolver: PathResolver, context: ToolContext) -> _Plan:  # noqa: ARG002
        place = resolver.find(arguments.path)
        require_directory(resolver, place)
        glob = judged_pattern(arguments.name_pattern, "name_pattern", place, resolver)
        return _Plan(place, glob, arguments)

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        return list_page(
            *(resolver, plan.place, context, self._redactor),
            chosen=lambda entry: plan.glob.matches(entry.parts),
            criteria=plan.asked.name_pattern,
            max_depth=plan.asked.max_depth,
            limit=plan.asked.limit,
            cursor=plan.asked.cursor,
        )
