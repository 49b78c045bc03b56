"""Searches the content of files, with ripgrep.

rg says where the matches are. The lines themselves are read here, from the root's descriptor: whatever
another process does to the tree meanwhile, no text from outside is shown.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.redaction.redactor import Redactor
from interlock.sandbox.paths import Place, Territory
from interlock.tools.base import Effect, ToolContext, ToolMode
from interlock.tools.blocking import beside_the_loop
from interlock.tools.files.base import CURSOR, PATH, READING_MODES, FileTool, told, whole_number
from interlock.tools.files.cursor import make_cursor, number_in, read_cursor, subject_of
from interlock.tools.files.matches import Match, Query, find_matches, line_at
from interlock.tools.files.patterns import judged_pattern
from interlock.tools.output import LinePage
from interlock.tools.result import ToolResult

DEFAULT_LIMIT = 500


@dataclass(frozen=True, slots=True)
class _Plan:
    place: Place
    query: Query
    limit: int
    after: tuple[str, int] | None
    subject: str


class SearchFilesTool(FileTool[_Plan]):
    def __init__(self, redactor: Redactor, program: Path | None) -> None:
        self._redactor = redactor
        self._program = program

    @property
    def name(self) -> str:
        return "search_files"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("grep", "fs.search")

    @property
    def description(self) -> str:
        return (
            "Search the content of files for a regular expression and show each matching line as "
            "file:line:text. Files that .gitignore excludes, and .git itself, are not searched."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "A folder or a file. Default: the first opened folder."},
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 10_000,
                    "description": "A regular expression (Rust syntax); case matters, (?i) turns that off.",
                },
                "glob": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "Search only files with such a name: *.py, src/**/*.ts.",
                },
                "limit": whole_number(
                    f"Show at most this many lines. Default: {DEFAULT_LIMIT}.", 1, 100_000
                ),
                "cursor": CURSOR,
            },
            "required": ["pattern"],
        }

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return READING_MODES

    @property
    def effect(self) -> Effect:
        return Effect.read

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {"program:rg"}

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:
        place = territory.find(arguments.get("path", "."))
        pattern, glob = arguments["pattern"], arguments.get("glob")
        if glob is not None:
            judged_pattern(glob, "glob", place, territory)
        limit = min(arguments.get("limit", DEFAULT_LIMIT), context.limits.max_output_lines)
        subject = subject_of("search", place.path, pattern, glob, limit)
        after = None
        if cursor := arguments.get("cursor"):
            _, position = read_cursor(cursor, subject)
            after = (str(position.get("file")), number_in(position, "line"))
        # Existing, and something that can be searched: told before anything is intended.
        os.close(territory.open(place, os.O_PATH))
        return _Plan(place, Query(pattern, glob), limit, after, subject)

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.place)

    async def execute(self, prepared: _Plan, context: ToolContext) -> ToolResult:
        territory, plan = Territory(context.profile), prepared
        try:
            folder, target = await beside_the_loop(context.cancel, lambda: _opened(territory, plan.place))
        except OSError as error:
            raise told(error, territory.shown(plan.place)) from error
        try:
            found = await find_matches(
                *(self._program, folder, target, plan.query),
                limit=plan.limit,
                after=plan.after,
            )
            return await beside_the_loop(
                context.cancel, lambda: self._page(folder, target, found, plan, territory, context)
            )
        finally:
            os.close(folder)

    def _page(
        self,
        folder: int,
        target: str,
        found: list[Match],
        plan: _Plan,
        territory: Territory,
        context: ToolContext,
    ) -> ToolResult:
        page = LinePage(context.limits, self._redactor, max_lines=plan.limit)
        last: Match | None = None
        for match in found:
            context.cancel.check()
            parts = () if target else tuple(match.file.split("/"))
            text = line_at(folder, match)
            if text is not None and not page.add(
                f"{territory.shown(plan.place, parts)}:{match.line}:{text}"
            ):
                break
            last = match
        cursor = None
        if last is not None and (page.truncated_lines or page.truncated_bytes):
            cursor = make_cursor(plan.subject, "", {"file": last.file, "line": last.line})
        return ToolResult(
            stdout=page.text,
            truncated_lines=page.truncated_lines,
            truncated_bytes=page.truncated_bytes,
            next_page_cursor=cursor,
            meta={"path": territory.shown(plan.place), "matches": len(page)},
        )


def _opened(territory: Territory, place: Place) -> tuple[int, str]:
    """The folder to search, or the folder of the one file to search and that file's name."""
    try:
        return territory.open(place, os.O_RDONLY | os.O_DIRECTORY), ""
    except NotADirectoryError:
        with territory.parent(place) as parent:
            return os.dup(parent.descriptor), parent.name
