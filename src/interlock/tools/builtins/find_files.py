"""Finds files and directories by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.redaction.redactor import Redactor
from interlock.sandbox.directory_walk import MAX_DEPTH
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.files.base import CURSOR, PATH, ReadingTool, integer_schema
from interlock.tools.files.directory_listing import list_page, require_directory
from interlock.tools.files.glob_arguments import Glob, judged_pattern
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    pattern: str
    glob: Glob
    max_depth: int
    limit: int | None
    cursor: str | None


class FindFilesTool(ReadingTool[_Plan]):
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @property
    def name(self) -> str:
        return "find_files"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("find",)

    @property
    def description(self) -> str:
        return (
            "Find files and folders by name, including hidden ones. Patterns: *, ?, [abc], "
            "{a,b}; a pattern with a / is matched against the path below the folder, and ** "
            "matches any number of folders."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {
                    **PATH,
                    "description": "The folder to search. Default: the first opened folder.",
                },
                "name_pattern": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "For example *.py, test_*, src/**/*.ts. Case-sensitive.",
                },
                "max_depth": integer_schema("Search at most this many levels deep.", 1, MAX_DEPTH),
                "limit": integer_schema("Return at most this many results at a time.", 1, 100_000),
                "cursor": CURSOR,
            },
            "required": ["name_pattern"],
        }

    def judge(self, arguments: Mapping[str, Any], resolver: PathResolver, context: ToolContext) -> _Plan:  # noqa: ARG002
        place = resolver.find(arguments.get("path", "."))
        require_directory(resolver, place)
        pattern = arguments["name_pattern"]
        return _Plan(
            *(place, pattern, judged_pattern(pattern, "name_pattern", place, resolver)),
            arguments.get("max_depth", MAX_DEPTH),
            arguments.get("limit"),
            arguments.get("cursor"),
        )

    def subject(self, plan: _Plan, resolver: PathResolver) -> str:
        return resolver.shown(plan.place)

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        return list_page(
            *(resolver, plan.place, context, self._redactor),
            chosen=lambda entry: plan.glob.matches(entry.parts),
            criteria=plan.pattern,
            max_depth=plan.max_depth,
            limit=plan.limit,
            cursor=plan.cursor,
        )
