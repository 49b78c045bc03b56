"""Searches the notes that people and agents wrote down."""

from dataclasses import asdict
from typing import Any

from pydantic import Field

from interlock.config.modes import ALL_MODES
from interlock.core.errors import ErrorCode, StoreError, ToolError
from interlock.core.text import escape_control_characters
from interlock.memory.search import MemorySearch, MemorySearchResult, SearchHit
from interlock.redaction.redactor import MARK
from interlock.tools.arguments import ToolArguments
from interlock.tools.result import ToolResult
from interlock.tools.threads import run_in_thread_abandonable
from interlock.tools.tool import Effect, PolicySwitch, ToolContext, ToolGroup, TypedTool

DEFAULT_LIMIT, MAX_LIMIT = 5, 50


class MemorySearchArguments(ToolArguments):
    query: str = Field(description="The search: a few words or a question.")
    limit: int = Field(
        default=DEFAULT_LIMIT,
        ge=1,
        le=MAX_LIMIT,
        description=f"The maximum number of notes. Default: {DEFAULT_LIMIT}.",
    )


class MemorySearchTool(TypedTool):
    name = "memory_search"
    description = (
        "Search the notes in memory: what the user said, decided or asked to remember. Use "
        "plain words in the user's language; identifiers and small typos are matched too."
    )
    arguments = MemorySearchArguments
    group = ToolGroup.memory
    allowed_modes = ALL_MODES
    effect = Effect.read
    switches = frozenset({PolicySwitch.memory})

    def __init__(self, search: MemorySearch | None) -> None:
        self._search = search

    async def execute(self, prepared: MemorySearchArguments, context: ToolContext) -> ToolResult:
        search = self._search
        if search is None:
            raise _unavailable("there is no memory here")
        check = context.cancel.check
        try:
            found = await run_in_thread_abandonable(
                context.cancel, lambda: search.search(prepared.query, prepared.limit, check)
            )
        except OSError as error:
            raise _unavailable(f"the memory folder cannot be read: {error.strerror}") from error
        except StoreError as error:
            raise _unavailable(f"the index of the notes cannot be used: {error}") from error
        return ToolResult(
            stdout=_describe(found), stderr=_complaint(found), meta=_meta(found), redacted=_has_masks(found)
        )


def _has_masks(found: MemorySearchResult) -> bool:
    """Whether a result contains masks: secrets are masked when a note is written or indexed."""
    return any(MARK in text for hit in found.hits for text in (hit.title, hit.heading, hit.snippet))


def _unavailable(message: str) -> ToolError:
    return ToolError(ErrorCode.EXECUTION_ERROR, message, "Continue without memory, and tell the user.")


def _describe(found: MemorySearchResult) -> str:
    if not found.had_words:
        return "The query has no searchable word. Use a few words that the note may contain.\n"
    if not found.notes:
        return "There are no notes in memory yet.\n"
    if not found.hits:
        return f"No match in {_counted(found.notes)}. Try other words, or fewer.\n"
    return "\n".join(_entry(number, hit) for number, hit in enumerate(found.hits, start=1))


def _entry(number: int, hit: SearchHit) -> str:
    facts = [f"{escape_control_characters(hit.path)}:{hit.line}"]
    if hit.heading:
        facts.append(escape_control_characters(hit.heading))
    if hit.day and hit.day not in f"{hit.path} {hit.heading}":
        facts.append(hit.day)
    also = f"   also at line {', '.join(map(str, hit.also_lines))}\n" if hit.also_lines else ""
    # On a line of its own, which no heading and no text of a note can imitate.
    written = f"   {_written(hit)}\n"
    return f"{number}. {' | '.join(facts)}\n{written}   {escape_control_characters(hit.snippet)}\n{also}"


def _written(hit: SearchHit) -> str:
    if hit.author is None:
        return f"author unknown (written or edited by hand); the file is of {hit.written_at}"
    return f"written {hit.written_at} by {hit.author}"


def _counted(notes: int) -> str:
    return "1 note" if notes == 1 else f"{notes} notes"


def _complaint(found: MemorySearchResult) -> str:
    return f"the latest changes to the notes may be missing: {found.problem}\n" if found.problem else ""


def _hit_json(hit: SearchHit) -> dict[str, Any]:
    author = hit.author and {name: given for name, given in asdict(hit.author).items() if given}
    return asdict(hit) | {"author": author}


def _meta(found: MemorySearchResult) -> dict[str, Any]:
    meta: dict[str, Any] = {"hits": [_hit_json(hit) for hit in found.hits], "notes": found.notes}
    if found.corrected:
        meta["corrected"] = found.corrected
    return meta
