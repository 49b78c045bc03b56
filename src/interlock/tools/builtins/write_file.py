"""Creates a file, replaces its content, or appends to it."""

import hashlib
import itertools
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from interlock.core.errors import ErrorCode, ToolError
from interlock.redaction.redactor import MARK
from interlock.sandbox.file_changer import NewContent
from interlock.sandbox.file_io import OpenFile
from interlock.sandbox.paths import PathAccess, PathResolver, ResolvedPath
from interlock.sandbox.undo_store import MAX_ENTRY_BYTES
from interlock.tools.arguments import ToolArguments
from interlock.tools.files.base import WRITING_MODES, FilePath, FileTool
from interlock.tools.files.read_history import require_read
from interlock.tools.files.text_format import TextFormat
from interlock.tools.files.write_checks import (
    Replacement,
    WriteServices,
    apply_replacement,
    change_origin,
    count_redaction_marks,
    encode_text,
    existing_file,
    existing_text_format,
    exists,
    make_content,
    make_touch,
    refuse_oversized,
    refuse_redaction_marks,
    replacement_touches,
    write_result,
)
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolLimits


@dataclass(frozen=True, slots=True)
class _Create:
    place: ResolvedPath
    new: NewContent


@dataclass(frozen=True, slots=True)
class _Append:
    place: ResolvedPath
    text: str


# How often an append is retried when others append to the same file.
_TRIES = 100

_Plan = _Create | _Append | Replacement


class WriteFileArguments(ToolArguments):
    path: FilePath
    content: str = Field(description="The exact text to write.")
    mode: Literal["overwrite", "append"] = Field(
        default="overwrite", description="overwrite (the default) replaces the whole content."
    )


class WriteFileTool(FileTool[_Plan]):
    name = "write_file"
    aliases = ("write", "fs.write")
    description = (
        "Create a text file and its parent folders, or replace the whole content of a file "
        "that you have read; with mode append, append to it. Prefer edit_file for small "
        "changes."
    )
    arguments = WriteFileArguments
    allowed_modes = WRITING_MODES
    effect = Effect.write

    def __init__(self, write_services: WriteServices) -> None:
        self._write_services = write_services

    def limits_text(self, limits: ToolLimits) -> str:
        return f"One call can write at most {limits.max_write_bytes} bytes."

    def judge(self, arguments: WriteFileArguments, resolver: PathResolver, context: ToolContext) -> _Plan:
        place, text = resolver.find(arguments.path, PathAccess.write), arguments.content
        shown = resolver.shown(place)
        data = encode_text(text, TextFormat(), "content")
        refuse_oversized(len(data), context.limits, "content")
        if not exists(resolver, place):
            refuse_redaction_marks(text.count(MARK), 0, shown)
            return _Create(place, make_content(data))
        with existing_file(resolver, place) as (_, file):
            form = existing_text_format(file, shown, context.limits)
            if arguments.mode == "append":
                refuse_redaction_marks(text.count(MARK), 0, shown)
                refuse_oversized(len(_adapted(text, form)), context.limits, "content")
                return _Append(place, text)
            return self._replacement(place, file, form, text, shown, context)

    def _replacement(
        self,
        place: ResolvedPath,
        file: OpenFile,
        form: TextFormat,
        text: str,
        shown: str,
        context: ToolContext,
    ) -> Replacement:
        check = context.cancel.check
        if context.session_id:
            known = self._write_services.seen.current(
                context.session_id, str(place.path), file, shown, check
            )
            require_read(known, [(0, file.size)], shown)
        if MARK in text:
            refuse_redaction_marks(text.count(MARK), count_redaction_marks(file.chunks(check), form), shown)
        new = make_content(form.mark + _adapted(text.removeprefix("\ufeff"), form))
        refuse_oversized(len(new.data), context.limits, "content")
        return Replacement(
            place=place,
            version=file.version,
            before_sha256=file.sha256(check),
            new=new,
            known=((0, len(new.data)),),
        )

    def work(self, plan: _Plan, resolver: PathResolver, context: ToolContext) -> ToolResult:
        shown = resolver.shown(plan.place)
        if isinstance(plan, Replacement):
            kept = apply_replacement(plan, self._write_services, resolver, context)
            size = len(plan.new.data)
            return write_result(
                f"replaced {shown}: {size} bytes",
                kept=kept,
                touched=replacement_touches(plan),
                path=shown,
                bytes_written=size,
                created=False,
            )
        if isinstance(plan, _Append):
            return self._append(plan, resolver, shown, context)
        new = plan.new
        kept = self._write_services.changes.create(
            resolver, plan.place, new, change_origin(context), context.cancel.begin_effect
        )
        size = len(new.data)
        return write_result(
            f"created {shown}: {size} bytes",
            kept=kept,
            touched=(make_touch(str(plan.place.path), "created", new.sha256, size, (0, size)),),
            path=shown,
            bytes_written=size,
            created=True,
        )

    def _append(
        self, plan: _Append, resolver: PathResolver, shown: str, context: ToolContext
    ) -> ToolResult:
        """Append.

        Nothing that another process appends meanwhile is lost: the append is repeated after it.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._append_once(plan, resolver, shown, context)
            except ToolError as error:
                if error.error_code is not ErrorCode.STALE_READ or not tries_left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _append_once(
        self, plan: _Append, resolver: PathResolver, shown: str, context: ToolContext
    ) -> ToolResult:
        with existing_file(resolver, plan.place) as (parent, file):
            _refuse_too_large(file, shown)
            data = _adapted(plan.text, existing_text_format(file, shown, context.limits))
            before = hashlib.sha256()
            for piece in file.chunks(context.cancel.check):
                before.update(piece)
            after = before.copy()
            after.update(data)
            kept = self._write_services.changes.replace(
                *(parent, plan.place, file),
                itertools.chain(file.chunks(context.cancel.check, 0, file.size), (data,)),
                before_sha256=before.hexdigest(),
                after_sha256=after.hexdigest(),
                origin=change_origin(context),
                commit=context.cancel.begin_effect,
            )
            size = file.size + len(data)
            touch = make_touch(
                *(str(plan.place.path), "appended", after.hexdigest(), size),
                (file.size, size),
            )
        return write_result(
            f"appended {len(data)} bytes to {shown}, which now has {size}",
            kept=kept,
            touched=(touch,),
            path=shown,
            bytes_written=len(data),
            created=False,
        )


def _refuse_too_large(file: OpenFile, shown: str) -> None:
    """Appending rewrites the whole file: only so it is consistent at any moment, and can be undone."""
    if file.size > MAX_ENTRY_BYTES:
        raise ToolError(
            ErrorCode.LIMIT_EXCEEDED,
            (
                f"{shown} has {file.size} bytes; text can be appended only to files of up to "
                f"{MAX_ENTRY_BYTES}"
            ),
            "Write to another file, or tell the user.",
        )


def _adapted(text: str, form: TextFormat) -> bytes:
    return encode_text(form.with_own_endings(text), form, "content")
