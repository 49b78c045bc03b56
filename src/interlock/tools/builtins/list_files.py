"""Lists a folder."""

from collections.abc import Mapping
from typing import Any

from interlock.infra.records import dataclass
from interlock.redaction.redactor import Redactor
from interlock.sandbox.paths import Place, Territory
from interlock.sandbox.tree import MAX_DEPTH
from interlock.tools.base import ToolContext
from interlock.tools.files.base import CURSOR, PATH, ReadingTool, whole_number
from interlock.tools.files.listing import list_page, require_folder
from interlock.tools.result import ToolResult


@dataclass(frozen=True, slots=True)
class _Plan:
    place: Place
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
                "limit": whole_number("Return at most this many entries at a time.", 1, 100_000),
                "cursor": CURSOR,
            },
        }

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:  # noqa: ARG002
        place = territory.find(arguments.get("path", "."))
        require_folder(territory, place)
        return _Plan(
            place, arguments.get("recursive", False), arguments.get("limit"), arguments.get("cursor")
        )

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.place)

    def work(self, plan: _Plan, territory: Territory, context: ToolContext) -> ToolResult:
        return list_page(
            *(territory, plan.place, context, self._redactor),
            max_depth=MAX_DEPTH if plan.recursive else 1,
            limit=plan.limit,
            cursor=plan.cursor,
        )
