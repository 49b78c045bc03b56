"""Adds a dated entry to a note in memory."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from pydantic import Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.memory.authorship import NoteAuthor
from interlock.memory.note_writer import NoteEntry, NoteWriter
from interlock.tools.arguments import ToolArguments
from interlock.tools.result import FileTouch, ToolResult
from interlock.tools.threads import run_in_thread, run_in_thread_abandonable
from interlock.tools.tool import Effect, PolicySwitch, ToolContext, ToolGroup, ToolMode, TypedTool


class MemoryAppendArguments(ToolArguments):
    content: str = Field(description="The text to save, in Markdown.")
    title: str = Field(
        default="",
        description="The title of the note; the same title appends to the same note. Default: today.",
    )


class MemoryAppendTool(TypedTool):
    """`author` reads who or what a session and its task act for."""

    name = "memory_append"
    description = (
        "Save something in memory: append a dated entry to the note with this title, or to "
        "today's note if there is no title. Notes are Markdown files that the user reads and "
        "edits."
    )
    arguments = MemoryAppendArguments
    group = ToolGroup.memory
    allowed_modes = frozenset({ToolMode.coding})
    effect = Effect.write
    switches = frozenset({PolicySwitch.memory})

    def __init__(
        self, writer: NoteWriter | None, author: Callable[[str, str | None], NoteAuthor] | None
    ) -> None:
        self._writer = writer
        self._author = author

    async def prepare(self, arguments: MemoryAppendArguments, context: ToolContext) -> NoteEntry:
        writer, read_author = self._writer, self._author
        content, title = arguments.content, arguments.title
        if writer is None or read_author is None:
            raise ToolError(
                ErrorCode.EXECUTION_ERROR,
                "there is no memory here",
                "Continue without it, and tell the user.",
            )
        # Redaction costs with the length of the text: the limit comes before it.
        _refuse_too_much(content, context.limits.max_write_bytes)
        now = datetime.now().astimezone()

        def entry() -> NoteEntry:
            author = replace(read_author(context.session_id, context.scope.task), tool=self.name)
            return writer.entry(content, title, now, author)

        return await run_in_thread_abandonable(context.cancel, entry)

    async def execute(self, prepared: NoteEntry, context: ToolContext) -> ToolResult:
        writer = self._writer
        if writer is None:
            raise AssertionError("prepare rejects this")
        cancel = context.cancel
        done = await run_in_thread(
            cancel, lambda: writer.append(prepared, cancel.begin_effect, cancel.check)
        )
        touch = FileTouch(
            path=done.absolute_path,
            action="created" if done.created else "appended",
            sha256=done.sha256,
            hashed_to=done.size,
            seen_from=done.size - done.bytes_written,
            seen_to=done.size,
        )
        said = "created the note" if done.created else "added to the note"
        masked = "; a secret in it was removed" if prepared.has_masks else ""
        return ToolResult(
            stdout=f"{said} {done.path} at line {done.line}{masked}\n",
            meta={
                "secret_left_out": prepared.has_masks,
                "path": done.path,
                "line": done.line,
                "bytes_written": done.bytes_written,
                "created": done.created,
            },
            touched=(touch,),
            redacted=prepared.has_masks,
        )


def _refuse_too_much(content: str, limit: int) -> None:
    size = len(content.encode("utf-8", "replace"))
    if size > limit:
        raise ToolError(
            ErrorCode.LIMIT_EXCEEDED,
            f"content: {size} bytes exceed the write limit of {limit}",
            "Save less, or split it into several entries.",
        )
