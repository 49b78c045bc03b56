"""Parses what is between the words of a line: blanks, comments, redirections, assignments."""

import re
from abc import ABC
from dataclasses import dataclass

from interlock.commands.syntax_tree import (
    CannotParse,
    LiteralText,
    Part,
    Redirection,
    ShellAssignment,
    Word,
)
from interlock.commands.word_parser import INDEX, ParseBudget, WordParser

_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_REDIRECT = re.compile(
    r"(?:[0-9]+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\())|(&>>|&>)", re.ASCII
)
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
_SET = re.compile(r"\+?=")


@dataclass(frozen=True, slots=True)
class _PendingHereDocument:
    """A here-document whose text comes after the end of the line."""

    delimiter: str
    is_literal: bool
    strips_tabs: bool
    document: list[Part]


class LineParser(WordParser, ABC):
    def __init__(self, text: str, budget: ParseBudget, depth: int = 0) -> None:
        super().__init__(text, budget, depth)
        self._awaited: list[_PendingHereDocument] = []

    def blanks(self) -> None:
        if blank := _BLANK.match(self.text, self.position):
            self.advance(len(blank[0]))
        if comment := _COMMENT.match(self.text, self.position):
            self.advance(len(comment[0]))

    def lines(self) -> None:
        """Blanks, comments and ends of lines, with the here-documents that follow them."""
        self.blanks()
        while self.peek() == "\n":
            self.advance()
            self._read_documents()
            self.blanks()

    def words_of_line(self) -> list[Word]:
        words: list[Word] = []
        while True:
            self.blanks()
            word = self.word()
            if not word:
                return words
            words.append(word)

    # -- redirections --

    def redirects(self) -> tuple[Redirection, ...]:
        found: list[Redirection] = []
        self.blanks()
        while redirect := self.redirect():
            found.append(redirect)
            self.blanks()
        return tuple(found)

    def redirect(self) -> Redirection | None:
        found = _REDIRECT.match(self.text, self.position)
        if found is None:
            return None
        operator = found[1] or found[2]
        self.advance(len(found[0]))
        self.blanks()
        target = self.word()
        if not target:
            raise CannotParse(f"nothing after {operator}")
        redirect = Redirection(operator, target)
        if operator in {"<<", "<<-"}:
            self._awaited.append(
                _PendingHereDocument(
                    delimiter="".join(part.text for part in target if isinstance(part, LiteralText)),
                    is_literal=any(isinstance(part, LiteralText) and part.quoted for part in target),
                    strips_tabs=operator == "<<-",
                    document=redirect.document,
                )
            )
        return redirect

    def _read_documents(self) -> None:
        awaited, self._awaited = self._awaited, []
        for each in awaited:
            body = self._body(each)
            each.document.extend(
                [LiteralText(body, quoted=True)] if each.is_literal else self.document(body)
            )

    def _body(self, awaited: _PendingHereDocument) -> str:
        """The lines up to the delimiter, or to the end of the text if it is missing."""
        lines: list[str] = []
        while self.position < len(self.text):
            end = self.text.find("\n", self.position)
            line = self.text[self.position : end + 1 if end >= 0 else None]
            self.advance(len(line))
            if awaited.strips_tabs:
                line = line.lstrip("\t")
            if line.removesuffix("\n") == awaited.delimiter:
                break
            lines.append(line)
        return "".join(lines)

    # -- assignments --

    def assignment(self) -> ShellAssignment | None:
        found = _ASSIGNED.match(self.text, self.position)
        if found is None:
            return None
        start, sign = self.position, found[2]
        index: Word = ()
        self.advance(len(found[0]))
        if sign == "[":
            index = tuple(self.parts(INDEX))
            after = _SET.match(self.text, self.position + 1)
            if self.peek() != "]" or after is None:
                self.position = start
                return None
            sign = after[0]
            self.advance(1 + len(sign))
        if self.peek() == "(":
            return ShellAssignment(found[1], (), self._array(), sign == "+=", index)
        return ShellAssignment(found[1], self.word(), None, sign == "+=", index)

    def _array(self) -> tuple[Word, ...]:
        self.advance()
        items: list[Word] = []
        while True:
            self.lines()
            if self.peek() == ")":
                self.advance()
                return tuple(items)
            word = self.word()
            if not word:
                raise CannotParse("an array is not closed")
            items.append(word)
