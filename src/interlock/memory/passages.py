"""Splits a note into passages: at its headings, and in a long section between paragraphs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from interlock.memory.authorship import is_author_line
from interlock.memory.tokenizer import tokenize

MAX_PASSAGE_CHARS = 1200
MAX_PASSAGES = 2000
_MAX_TITLE_CHARS = 200
_MAX_LEVELS = 6

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_DAY = re.compile(r"(?<!\d)(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))(?!\d)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a note: its first line, the headings above it, its words, and its author line."""

    line: int
    heading: str
    day: str | None
    text: str
    head_words: tuple[str, ...]
    words: tuple[str, ...]
    author: str = ""


@dataclass(frozen=True, slots=True)
class SplitNote:
    title: str
    passages: tuple[Passage, ...]


@dataclass(slots=True)
class _Section:
    """Lines under one heading, while they are gathered. Each heading has what says who wrote it."""

    line: int
    headings: tuple[tuple[str, str], ...]
    lines: list[str]

    def heading(self, author: str) -> str:
        """The headings above a text of this author: unsigned ones, and the author's own.

        Another author's heading would be shown as a part of this author's text.
        """
        return " > ".join(text for text, writer in self.headings if writer in {"", author})

    def is_only_above(self, following: "_Section") -> bool:
        """Whether it has no text of its own, and its headings apply to the next section as well."""
        depth = len(self.headings)
        if any(author for _, author in self.headings):
            # The next section may be of another author, and is then shown without them.
            return False
        return following.headings[:depth] == self.headings and not any(map(str.strip, self.lines))


def split_note(path: str, text: str, authors: Mapping[int, str] | None = None) -> SplitNote:
    """The passages of a note; each has one author. An empty note has one, with the words of its name.

    `authors` has what the author line above a line says, by line number.
    """
    authors = authors or {}
    sections = list(_sections(text, authors))
    name = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    tops = (section.headings[0] for section in sections if section.headings)
    title = next((heading for heading, author in tops if not author), name)
    path_words = tokenize(path.rsplit(".", 1)[0])
    file_day = _day_in(path)
    passages: list[Passage] = []
    for section, following in zip_longest(sections, sections[1:]):
        if following is not None and section.is_only_above(following):
            continue
        for line, piece in _pieces(section, authors):
            author = authors.get(line, "")
            heading = section.heading(author)
            head = (*path_words, *tokenize(title), *(tokenize(heading) if heading != title else ()))
            day, words = _day_in(heading) or file_day, tuple(tokenize(piece))
            passages.append(Passage(line, heading, day, piece, head, words, author))
            if len(passages) == MAX_PASSAGES:
                return SplitNote(title, tuple(passages))
    if not passages:
        passages.append(Passage(1, "", file_day, "", tuple(path_words), ()))
    return SplitNote(title, tuple(passages))


def _sections(text: str, authors: Mapping[int, str]) -> Iterator[_Section]:
    headings: list[tuple[str, str]] = []
    current = _Section(1, (), [])
    fence = ""
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        found = None if fence else _HEADING.match(line)
        if found is None:
            current.lines.append("" if is_author_line(line) else line)
            continue
        if current.headings or any(map(str.strip, current.lines)):
            yield current
        level = len(found[1])
        missing = max(0, level - 1 - len(headings))
        headings[level - 1 :] = [("", "")] * missing + [
            (found[2][:_MAX_TITLE_CHARS], authors.get(number, ""))
        ]
        shown = tuple(each for each in headings[:_MAX_LEVELS] if each[0])
        current = _Section(number, shown, [])
    if current.headings or any(map(str.strip, current.lines)):
        yield current


def _pieces(section: _Section, authors: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """The section in passages of bounded size and one author, each with its first line."""
    gathered: list[str] = []
    size = begins = 0
    for number, line in enumerate(section.lines, start=section.line + bool(section.headings)):
        for part in _cut_line(line):
            is_blank = not part.strip()
            too_long = size + len(part) > MAX_PASSAGE_CHARS or (is_blank and size > MAX_PASSAGE_CHARS // 2)
            if gathered and (too_long or authors.get(number) != authors.get(begins)):
                yield begins, "\n".join(gathered).rstrip()
                gathered, size = [], 0
            if not gathered:
                if is_blank:
                    continue
                begins = number
            gathered.append(part)
            size += len(part) + 1
    if gathered:
        yield begins, "\n".join(gathered).rstrip()
    elif not begins:
        yield section.line, ""


def _cut_line(line: str) -> Iterator[str]:
    """A line longer than a passage, in parts; split between words where possible."""
    while len(line) > MAX_PASSAGE_CHARS:
        cut = line.rfind(" ", MAX_PASSAGE_CHARS // 2, MAX_PASSAGE_CHARS)
        cut = MAX_PASSAGE_CHARS if cut < 0 else cut
        yield line[:cut]
        line = line[cut:]
    yield line


def _day_in(text: str) -> str | None:
    found = _DAY.search(text)
    return found[1] if found else None
