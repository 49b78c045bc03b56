"""Converts a model's Markdown to text and Telegram entities.

Entities are offsets, not markup: no text can be mistaken for markup, and nothing needs escaping.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from interlock.channels.telegram.message_splitter import utf16_length
from interlock.core.text import replace_hidden_characters
from interlock.redaction.redactor import MARK

# Telegram ignores entities beyond this number.
MAX_ENTITIES = 100
MAX_LANGUAGE = 40

# Replaces the redaction mark meanwhile: it looks like Markdown but is not.
_PLACEHOLDER = "\ue1a7"

# Bidirectional controls could show one address or name as another.
_BIDI_CONTROLS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
# Link text that itself names an address.
_ADDRESS = re.compile(r"://|www\.|\b(?:[^\W_]|-){1,63}\.[^\W\d_]{2,}", re.IGNORECASE)

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^`\n]*)$")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*$")
_BULLET = re.compile(r"^(\s*)[-*+][ \t]+(?=\S)")
_QUOTE = re.compile(r"^ {0,3}>[ ]?")
# Searches are bounded, so that no text takes long: a growing answer is rendered again each time.
_INLINE = re.compile(
    r"(?P<code>`+)(?P<coded>[^`\n]+?)(?P=code)(?!`)"
    r"|\*\*(?P<bold>(?=\S)[^\n]{1,400}?(?<=\S))\*\*(?!\*)"
    r"|__(?P<strong>(?=\S)[^\n]{1,400}?(?<=\S))__(?!\w)"
    r"|~~(?P<strike>(?=\S)[^\n]{1,400}?(?<=\S))~~"
    r"|(?<![\w*])\*(?P<italic>(?=[^\s*])[^*\n]+?(?<=\S))\*(?![\w*])"
    r"|(?<!\w)_(?P<slanted>(?=[^\s_])[^_\n]+?(?<=\S))_(?!\w)"
    r"|\[(?P<label>[^\[\]\n]{1,400})\]\((?P<url>https?://[^\s()]+|mailto:[^\s()]+)\)"
)


@dataclass(frozen=True, slots=True)
class TextEntity:
    """A range of a text, in UTF-16 code units, and its format."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class FormattedText:
    text: str
    entities: tuple[TextEntity, ...] = ()


@lru_cache(maxsize=256)
def render_markdown(markdown: str) -> FormattedText:
    """Render Markdown. The text is never longer than the Markdown."""
    page = _TextBuilder()
    markdown = (
        replace_hidden_characters(markdown)
        .translate(_BIDI_CONTROLS)
        .replace(_PLACEHOLDER, "\ufffd")
        .replace(MARK, _PLACEHOLDER)
    )
    lines = markdown.strip("\n").rstrip().split("\n")
    place = 0
    while place < len(lines):
        if (opened := _FENCE.match(lines[place])) is not None:
            place = page.code_block(lines, place, opened)
        else:
            page.line(lines[place], is_first=place == 0)
            place += 1
    return page.finished()


class _TextBuilder:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._units = 0
        self._entities: list[TextEntity] = []
        self._quote_begin: int | None = None
        self._quote_end = 0

    def code_block(self, lines: list[str], place: int, opened: re.Match[str]) -> int:
        """Add a code block; returns the number of the line after it."""
        end = place + 1
        while end < len(lines) and not _closes(lines[end], opened[1]):
            end += 1
        self._end_quote()
        self._break(is_first=place == 0)
        begin = self._units
        code, language = lines[place + 1 : end], opened[2].strip()
        if not code or " " in language or len(language) > MAX_LANGUAGE:
            # Telegram would not show it: a person who approves a text must see all of it.
            code, language = [language, *code], ""
        self._add("\n".join(code))
        self._mark("pre", begin, language=language or None)
        return end + 1

    def line(self, line: str, *, is_first: bool) -> None:
        quoted = _QUOTE.match(line)
        if quoted is None:
            self._end_quote()
        self._break(is_first=is_first)
        begin = self._units
        if quoted is not None:
            line = line[quoted.end() :]
            self._quote_begin = begin if self._quote_begin is None else self._quote_begin
        if (heading := _HEADING.match(line)) is not None:
            self._inline(heading[1])
            self._mark("bold", begin)
        else:
            self._inline(_BULLET.sub(r"\1• ", line))
        if quoted is not None:
            self._quote_end = self._units

    def finished(self) -> FormattedText:
        self._end_quote()
        text = "".join(self._texts)
        kept = sorted(self._entities, key=lambda entity: (entity.offset, -entity.length))
        return FormattedText(text, tuple(kept[:MAX_ENTITIES]))

    def _inline(self, text: str) -> None:
        place = 0
        for found in _INLINE.finditer(text):
            self._add(text[place : found.start()])
            self._span(found)
            place = found.end()
        self._add(text[place:])

    def _span(self, found: re.Match[str]) -> None:
        begin = self._units
        if found["label"] is not None and _ADDRESS.search(found["label"]):
            # The text names one address and links to another: keep the source, which shows both.
            self._add(found[0])
            return
        if found["coded"] is not None:
            self._add(found["coded"])
            self._mark("code", begin)
            return
        for group, shown in _STYLES.items():
            if found[group] is not None:
                self._inline(found[group])
                self._mark(shown, begin, url=found["url"])
                return

    def _break(self, *, is_first: bool) -> None:
        if not is_first:
            self._add("\n")

    def _end_quote(self) -> None:
        if self._quote_begin is not None:
            length = self._quote_end - self._quote_begin
            if length > 0:
                self._entities.append(TextEntity("blockquote", self._quote_begin, length))
            self._quote_begin = None

    def _add(self, text: str) -> None:
        text = text.replace(_PLACEHOLDER, MARK)
        self._texts.append(text)
        self._units += utf16_length(text)

    def _mark(self, kind: str, begin: int, *, url: str | None = None, language: str | None = None) -> None:
        if self._units > begin:
            self._entities.append(TextEntity(kind, begin, self._units - begin, url, language))


_STYLES = {
    "bold": "bold",
    "strong": "bold",
    "strike": "strikethrough",
    "italic": "italic",
    "slanted": "italic",
    "label": "text_link",
}


def _closes(line: str, mark: str) -> bool:
    found = _FENCE.match(line)
    return (
        found is not None and found[1][0] == mark[0] and len(found[1]) >= len(mark) and not found[2].strip()
    )
