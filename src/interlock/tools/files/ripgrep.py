"""Where a pattern matches, as rg reports it. `line_excerpts.py` reads the text of the lines."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from interlock.core.errors import ErrorCode, ToolError
from interlock.core.text import safe_excerpt
from interlock.sandbox.helper_program import ProgramProcess
from interlock.sandbox.programs import RG
from interlock.tools.files.cursor import stale_cursor
from interlock.tools.files.glob_arguments import Glob
from interlock.tools.files.line_excerpts import LineMatch

_FIXED = (
    "--no-config",
    "--no-messages",
    "--no-ignore-global",
    # Files that only rg knows, `.ignore` and `.rgignore`, here or in a parent that is not opened.
    "--no-ignore-dot",
    "--hidden",
    "--crlf",
    # A file that is truncated meanwhile must not crash rg, and binary files are reported uniformly.
    "--no-mmap",
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--line-number",
    "--column",
    "--byte-offset",
    "--null",
    "--max-columns=1",
    "--glob=!.git",
)

# Exit codes of rg: matches, no matches, and an error or something unreadable.
_MATCHES, _NONE, _TROUBLE = 0, 1, 2

# rg reports this among the matches, on a line of its own; file names may contain newlines, too.
_BINARY = re.compile(
    rb"(\./.*): (?:WARNING: stopped searching binary file after match|binary file matches)"
    rb' \(found "\\0" byte around offset \d+\)\r?',
)


StartProgram = Callable[[Path, Sequence[str], int], AbstractAsyncContextManager[ProgramProcess]]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    pattern: str
    glob: Glob | None


@dataclass(slots=True)
class SearchMatches:
    """Matches in the order of their paths; `has_more` when there was no room for others.

    `binary` are files that match, at least in part, and have no lines to show.
    """

    matches: list[LineMatch] = field(default_factory=list)
    has_more: bool = False
    binary: list[str] = field(default_factory=list)
    could_read_all: bool = True


@dataclass(frozen=True, slots=True)
class EarlierMatches:
    """How many matches earlier pages showed, and their digest."""

    count: int = 0
    digest: str = ""

    def and_then(self, match: LineMatch) -> "EarlierMatches":
        known = f"{self.digest} {match.line} {match.column} {match.offset} ".encode()
        return EarlierMatches(self.count + 1, sha256(known + os.fsencode(match.file)).hexdigest()[:16])


_NOTHING_PASSED = EarlierMatches()


async def find_matches(
    start: StartProgram,
    program: Path | None,
    folder: int,
    target: str,
    query: SearchQuery,
    *,
    limit: int,
    passed: EarlierMatches,
) -> SearchMatches:
    """At most `limit` matches after those that were passed.

    rg is fastest in any order. It has to sort only if there are more matches than fit on a page, or for a
    later page.
    """
    if program is None:
        raise _not_available("it is missing")
    search = _Search(start, program, folder, target, query)
    if not passed.count:
        found = await search.run(limit)
        if not found.has_more:
            found.matches.sort(key=lambda match: (os.fsencode(match.file).split(b"/"), match.line))
            return found
    return await search.run(limit, passed, "--sort=path")


@dataclass(frozen=True, slots=True)
class _Search:
    start: StartProgram
    program: Path
    folder: int
    target: str
    query: SearchQuery

    async def run(
        self, limit: int, passed: EarlierMatches = _NOTHING_PASSED, *options: str
    ) -> SearchMatches:
        output = _Output(limit, passed, None if self.target else self.query.glob)
        arguments = (*_FIXED, *options, *_types(self.query.glob), "--", self.query.pattern)
        try:
            async with self.start(self.program, (*arguments, f"./{self.target}"), self.folder) as child:
                async with aclosing(child.lines()) as batches:
                    async for lines in batches:
                        output.take(lines)
                        if output.found.has_more:
                            break
                code, complaint = (_MATCHES, "") if output.found.has_more else await child.finish()
        except OSError as error:
            raise _not_available(f"it could not be started ({error.strerror})") from error
        _judge_end(code, complaint)
        if not output.has_passed:
            raise stale_cursor("the result")
        output.found.could_read_all = code != _TROUBLE
        return output.found


class _Output:
    """Parses rg's output by line: `./path NUL line:column:offset:text`. A path may contain newlines."""

    def __init__(self, limit: int, passed: EarlierMatches, glob: Glob | None) -> None:
        self._limit, self._passed, self._glob = limit, passed, glob
        self._seen = _NOTHING_PASSED
        self._begun = b""
        self.found = SearchMatches()

    @property
    def has_passed(self) -> bool:
        """Whether the matches of earlier pages are still the first ones."""
        return self._seen == self._passed

    def take(self, lines: list[bytes]) -> None:
        for line in lines:
            path, separator, rest = line.partition(b"\0")
            if separator:
                numbers = rest.split(b":", 3)
                file, self._begun = os.fsdecode(self._begun + path).removeprefix("./"), b""
                if len(numbers) == 4 and all(number.isdigit() for number in numbers[:3]):
                    self._add(LineMatch(file, *map(int, numbers[:3])))
            elif not self._begun and (message := _BINARY.fullmatch(line)):
                self.found.binary.append(os.fsdecode(message[1]).removeprefix("./"))
            else:
                self._begun += line + b"\n"
            if self.found.has_more:
                return

    def _add(self, match: LineMatch) -> None:
        if self._glob is not None and not self._glob.matches(match.file.split("/")):
            return
        if self._seen.count < self._passed.count:
            self._seen = self._seen.and_then(match)
        elif not self.has_passed or len(self.found.matches) == self._limit:
            self.found.has_more = True
        else:
            self.found.matches.append(match)


def _types(glob: Glob | None) -> list[str]:
    """Options by which rg leaves out files that cannot fit; which ones do is decided by the pattern itself.

    Not rg's own `--glob`: that would bring back what `.gitignore` excludes.
    """
    names = [parts[-1] for parts in glob.alternatives] if glob is not None else ["**"]
    if any(name.endswith("**") for name in names):
        return []
    # What may mean something else to rg becomes something that fits more.
    loose = {re.sub(r"\[.*\]|[^\w. -]", "*", name) for name in names}
    return [*(f"--type-add=wanted:{name}" for name in sorted(loose)), "--type=wanted"]


def _judge_end(code: int, complaint: str) -> None:
    if code == _TROUBLE and complaint:
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"pattern: {_reason(complaint)}",
            "Correct the pattern; escape characters that are meant literally.",
        )
    if code not in {_MATCHES, _NONE, _TROUBLE}:
        raise ToolError(
            ErrorCode.EXECUTION_ERROR,
            f"the search program ended unexpectedly ({code})",
            "Try another pattern, or search a smaller folder.",
        )


def _reason(complaint: str) -> str:
    """The error of rg, without the options it recommends, which are not available here."""
    said = complaint.strip().removeprefix("rg: ").split("\n\nConsider ")[0]
    _, marker, error = said.partition("\nerror: ")
    return safe_excerpt(" ".join((error if marker else said).split()), 300)


def _not_available(reason: str) -> ToolError:
    return ToolError(
        ErrorCode.TOOL_NOT_AVAILABLE,
        f"the program {RG.names[0]} is needed, but {reason}",
        f"Tell the user: {RG.hint}.",
    )
