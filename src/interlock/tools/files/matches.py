"""Where a pattern matches, as rg tells it, and the matching lines, as they are read by ourselves."""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from interlock.infra.errors import ErrorCode, ToolError
from interlock.infra.text import visible
from interlock.sandbox.files import OpenFile, opened_in
from interlock.sandbox.process import running
from interlock.tools.files.cursor import stale_cursor
from interlock.tools.files.text import text_form

MAX_LINE_CHARS = 500
_BEFORE_MATCH = 120
_UTF16_BYTES = 1024 * 1024

# The text is left out on purpose: it is read anew, see `line_at`.
_FIXED = (
    "--no-config",
    "--no-messages",
    "--no-ignore-global",
    "--hidden",
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--line-number",
    "--column",
    "--byte-offset",
    "--null",
    "--max-columns=1",
)


@dataclass(frozen=True, slots=True)
class Query:
    pattern: str
    glob: str | None


@dataclass(frozen=True, slots=True)
class Match:
    """`offset` is where its line begins, `column` where in the line the match does, from 1, in bytes."""

    file: str
    line: int
    column: int
    offset: int


async def find_matches(
    program: Path | None,
    folder: int,
    target: str,
    query: Query,
    *,
    limit: int,
    after: tuple[str, int] | None,
) -> list[Match]:
    """One more than `limit`, if there are as many, in the order of their paths.

    rg is fastest when it may answer in any order. Only where there are more matches than fit on a page,
    or a page has gone before, does it have to keep to one.
    """
    if program is None:
        raise ToolError(ErrorCode.TOOL_NOT_AVAILABLE, "rg is not installed", "Tell the person.")
    arguments = _arguments(target, query)
    if after is None:
        found = await _collect(program, arguments, folder, limit + 1)
        if len(found) <= limit:
            return sorted(found, key=lambda match: (match.file.split("/"), match.line))
    return await _collect(program, ["--sort=path", *arguments], folder, limit + 1, after)


def _arguments(target: str, query: Query) -> list[str]:
    globs = ["--glob=!.git"]
    if query.glob is not None:
        # A leading exclamation mark is a character of the name, not a command to exclude.
        plain = f"\\{query.glob}" if query.glob.startswith("!") else query.glob
        globs.insert(0, f"--glob={plain}")
    return [*_FIXED, *globs, "--", query.pattern, f"./{target}"]


async def _collect(
    program: Path, arguments: list[str], folder: int, count: int, after: tuple[str, int] | None = None
) -> list[Match]:
    found: list[Match] = []
    async with running(program, arguments, folder) as child:
        async with aclosing(_parsed(child.lines())) as matches:
            async for match in matches:
                if after is not None:
                    after = None if (match.file, match.line) == after else after
                    continue
                found.append(match)
                if len(found) >= count:
                    return found
        code, complaint = await child.finish()
    if code not in {0, 1} and complaint:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"pattern or glob: {_first_lines(complaint)}",
            "Correct the pattern; escape characters that are meant literally.",
        )
    if after is not None:
        raise stale_cursor("what was found")
    return found


async def _parsed(lines: AsyncIterator[bytes]) -> AsyncGenerator[Match, None]:
    """`./path NUL line:column:offset:text`. A path may have line ends of its own."""
    begun = b""
    async for line in lines:
        path, separator, rest = line.partition(b"\0")
        if not separator:
            begun += line + b"\n"
            continue
        numbers = rest.split(b":", 3)
        file = os.fsdecode(begun + path).removeprefix("./")
        begun = b""
        if len(numbers) == 4 and all(number.isdigit() for number in numbers[:3]):
            yield Match(file, *map(int, numbers[:3]))


def line_at(folder: int, match: Match) -> str | None:
    """The text of a match's line; None where the file is gone or not what it was."""
    try:
        with opened_in(folder, match.file, match.file) as file:
            text, column = _read_line(file, match)
    except (OSError, ToolError):
        return None
    return _around(text, column)


def _read_line(file: OpenFile, match: Match) -> tuple[str, int]:
    head = file.read(0, 4)
    form = text_form(head[:3], is_whole=False)
    if form is not None and form.encoding.startswith("utf-16"):
        # rg counts in its own decoded form of such a file.
        lines = form.decode(file.read(len(form.mark), _UTF16_BYTES)).split("\n")
        return (lines[match.line - 1] if match.line <= len(lines) else ""), match.column - 1
    start = match.offset + max(0, match.column - 1 - _BEFORE_MATCH * 4)
    data = file.read(start, MAX_LINE_CHARS * 8).split(b"\n", 1)[0]
    column = len(data[: match.offset + match.column - 1 - start].decode("utf-8", "replace"))
    prefix = "" if start == match.offset else "…"
    return prefix + data.decode("utf-8", "replace"), column + len(prefix)


def _around(text: str, column: int) -> str:
    """A line as it is, or as much of it around the match as makes a readable line."""
    text = text.rstrip("\r")
    if len(text) <= MAX_LINE_CHARS:
        return text
    start = max(0, min(column - _BEFORE_MATCH, len(text) - MAX_LINE_CHARS))
    shown = text[start : start + MAX_LINE_CHARS]
    cut_before = "…" if start and not shown.startswith("…") else ""
    return f"{cut_before}{shown}{'…' if start + MAX_LINE_CHARS < len(text) else ''}"


def _first_lines(complaint: str) -> str:
    lines = [line.removeprefix("rg: ").strip() for line in complaint.strip().splitlines()]
    return visible(" ".join(line for line in lines if line and set(line) != {"^"})[:300])
