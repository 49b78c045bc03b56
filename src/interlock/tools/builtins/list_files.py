"""Lists a directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.redaction.redactor import Redactor
from interlock.sandbox.directory_walk import MAX_DEPTH
from interlock.sandbox.paths import PathResolver, ResolvedPath
from interlock.tools.files.base import CURSOR, PATH, ReadingTool, integer_schema
from interlock.tools.files.directory_listing import list_page, require_directory
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext


@dataclass(frozen=True, slots=True)
class _Plan:
    place: ResolvedPath
    recursive: bool
    limit: int | None
    cursor: str | None


class ListFilesTool(ReadingTool[_Plan]):
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @property
    def name(self) -> str:
        return "list_files"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("ls", "fs.list")

    @property
    def description(self) -> str:
        return (
            "List a folder, one path per line, including hidden files. A folder ends with /, a "
            "symlink with @. Names with unusual characters are shown as JSON strings."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "The folder. Default: the first opened folder."},
                "recursive": {"type": "boolean", "description": ("Also list the content of subfolders.")},
                "limit": integer_schema("Return at most this many entries at a time.", 1, 100_000),
                "cursor": CURSOR,
            },
        }

    def judge(self, arguments: Mapping[str, Any], resolver: PathResolver, context: ToolContext) -> _Plan:  # noqa: ARG002
        place = resolver.find(arguments.get("path", "."))
        require_directory(resolver, place)
        return _Plan(
            place, arguments.get("recursive", False), arguments.get("limit"), arguments.get("cursor")
        )

    def subject(self, plan: _Plan, resolver: PathResolver) -> str:
        return resolver.shown(plan.place)

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        return list_page(
            *(resolver, plan.place, context, self._redactor),
            max_depth=MAX_DEPTH if plan.recursive else 1,
            limit=plan.limit,
            cursor=plan.cursor,
        )
