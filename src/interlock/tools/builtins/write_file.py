"""Creates a file, replaces its content, or adds to its end."""

import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.records import dataclass
from interlock.redaction.redactor import MARK
from interlock.sandbox.changes import NewContent
from interlock.sandbox.files import OpenFile
from interlock.sandbox.kept import MAX_ENTRY_BYTES
from interlock.sandbox.paths import Access, Place, Territory
from interlock.tools.base import ToolContext, ToolLimits
from interlock.tools.files.base import FILE_PATH, WritingTool
from interlock.tools.files.seen import require_seen
from interlock.tools.files.text import TextForm
from interlock.tools.files.writing import (
    Replacement,
    WritingDesk,
    carry_out,
    count_marks,
    encoded,
    existing_file,
    exists,
    form_of,
    new_content,
    origin_of,
    refuse_masks,
    refuse_too_much,
    told_as,
    touch_of,
    written,
)
from interlock.tools.result import ToolResult


@dataclass(frozen=True, slots=True)
class _Create:
    place: Place
    new: NewContent


@dataclass(frozen=True, slots=True)
class _Append:
    place: Place
    text: str


# How often an addition is tried where others add to the same file.
_TRIES = 100

_Plan = _Create | _Append | Replacement


class WriteFileTool(WritingTool[_Plan]):
    def __init__(self, desk: WritingDesk) -> None:
        self._desk = desk

    @property
    def name(self) -> str:
        return "write_file"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("write", "fs.write")

    @property
    def description(self) -> str:
        return (
            "Create a text file and its parent folders, or replace the whole content of a file "
            "that you have read; with mode append, append to it. Prefer edit_file for small "
            "changes."
        )

    def limits_text(self, limits: ToolLimits) -> str:
        return f"One call can write at most {limits.max_write_bytes} bytes."

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": FILE_PATH,
                "content": {"type": "string", "description": "The exact text to write."},
                "mode": {
                    "type": "string",
                    "enum": ["overwrite", "append"],
                    "description": "overwrite (the default) replaces the whole content.",
                },
            },
            "required": ["path", "content"],
        }

    def judge(self, arguments: Mapping[str, Any], territory: Territory, context: ToolContext) -> _Plan:
        place, text = territory.find(arguments["path"], Access.write), arguments["content"]
        shown = territory.shown(place)
        data = encoded(text, TextForm(), "content")
        refuse_too_much(len(data), context.limits, "content")
        if not exists(territory, place):
            refuse_masks(text.count(MARK), 0, shown)
            return _Create(place, new_content(data))
        with existing_file(territory, place) as (_, file):
            form = form_of(file, shown, context.limits)
            if arguments.get("mode") == "append":
                refuse_masks(text.count(MARK), 0, shown)
                refuse_too_much(len(_adapted(text, form)), context.limits, "content")
                return _Append(place, text)
            return self._replacement(place, file, form, text, shown, context)

    def _replacement(
        self, place: Place, file: OpenFile, form: TextForm, text: str, shown: str, context: ToolContext
    ) -> Replacement:
        check = context.cancel.check
        if context.session_id:
            known = self._desk.seen.current(context.session_id, str(place.path), file, shown, check)
            require_seen(known, [(0, file.size)], shown)
        if MARK in text:
            refuse_masks(text.count(MARK), count_marks(file.chunks(check), form), shown)
        new = new_content(form.mark + _adapted(text.removeprefix("\ufeff"), form))
        refuse_too_much(len(new.data), context.limits, "content")
        return Replacement(
            place=place,
            version=file.version,
            before_sha256=file.sha256(check),
            new=new,
            known=((0, len(new.data)),),
        )

    def subject(self, plan: _Plan, territory: Territory) -> str:
        return territory.shown(plan.place)

    def work(self, plan: _Plan, territory: Territory, context: ToolContext) -> ToolResult:
        shown = territory.shown(plan.place)
        if isinstance(plan, Replacement):
            kept = carry_out(plan, self._desk, territory, context)
            size = len(plan.new.data)
            return told_as(
                f"replaced {shown}: {size} bytes",
                kept=kept,
                touched=written(plan),
                path=shown,
                bytes_written=size,
                created=False,
            )
        if isinstance(plan, _Append):
            return self._append(plan, territory, shown, context)
        new = plan.new
        kept = self._desk.changes.create(
            territory, plan.place, new, origin_of(context), context.cancel.begin_effect
        )
        size = len(new.data)
        return told_as(
            f"created {shown}: {size} bytes",
            kept=kept,
            touched=(touch_of(str(plan.place.path), "created", new.sha256, size, (0, size)),),
            path=shown,
            bytes_written=size,
            created=True,
        )

    def _append(self, plan: _Append, territory: Territory, shown: str, context: ToolContext) -> ToolResult:
        """Nothing that somebody else adds at the same time is lost: then it is done again, behind it."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._append_once(plan, territory, shown, context)
            except ToolError as error:
                if error.error_code is not ErrorCode.STALE_READ or not tries_left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _append_once(
        self, plan: _Append, territory: Territory, shown: str, context: ToolContext
    ) -> ToolResult:
        with existing_file(territory, plan.place) as (parent, file):
            _refuse_too_large(file, shown)
            data = _adapted(plan.text, form_of(file, shown, context.limits))
            before = hashlib.sha256()
            for piece in file.chunks(context.cancel.check):
                before.update(piece)
            after = before.copy()
            after.update(data)
            kept = self._desk.changes.replace(
                *(parent, plan.place, file),
                itertools.chain(file.chunks(context.cancel.check, 0, file.size), (data,)),
                before_sha256=before.hexdigest(),
                after_sha256=after.hexdigest(),
                origin=origin_of(context),
                commit=context.cancel.begin_effect,
            )
            size = file.size + len(data)
            touch = touch_of(
                *(str(plan.place.path), "appended", after.hexdigest(), size),
                (file.size, size),
            )
        return told_as(
            f"appended {len(data)} bytes to {shown}, which now has {size}",
            kept=kept,
            touched=(touch,),
            path=shown,
            bytes_written=len(data),
            created=False,
        )


def _refuse_too_large(file: OpenFile, shown: str) -> None:
    """To add to a file, all of it is written anew: only so it is whole at any moment, and can be undone."""
    if file.size > MAX_ENTRY_BYTES:
        raise ToolError(
            ErrorCode.LIMIT_EXCEEDED,
            (
                f"{shown} has {file.size} bytes; text can be appended only to files of up to "
                f"{MAX_ENTRY_BYTES}"
            ),
            "Write to another file, or tell the user.",
        )


def _adapted(text: str, form: TextForm) -> bytes:
    return encoded(form.with_own_endings(text), form, "content")
