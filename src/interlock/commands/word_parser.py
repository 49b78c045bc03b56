"""Words of bash: quotes, escapes, expansions. The grammar around them is in `parse.py`.

Every character is read once, but for the few constructs that must be tried in two ways; a budget bounds
those, so that no text takes long.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from interlock.commands.syntax_tree import (
    CannotParse,
    CommandSubstitution,
    LiteralText,
    Part,
    ProcessSubstitution,
    Script,
    UnknownText,
    VariableExpansion,
    Word,
)

MAX_DEPTH = 30

# Markers in a word for: text unknown before it runs, the next character as part of a pattern, and
# everything or something below a directory (characters that no text contains).
UNKNOWN = "\0"
PATTERN = "\1"
BELOW = "\ufdd0"
SOME = "\ufdd1"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"([!#]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?=[^A-Za-z0-9_]|$)")
_PREFIXES = {"#": "length", "!": "indirect"}
_OPERATOR = re.compile(r":?[-=+?]|##?|%%?|//?|\^\^?|,,?|[:@~*]")
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LETTERS["v"] = "\v"


@dataclass(frozen=True, slots=True)
class LexerMode:
    """How a word is read: its plain characters, its end, and what a backslash escapes (None: all)."""

    plain: re.Pattern[str]
    ends: str
    is_quoted: bool = False
    has_quotes: bool = False
    escaped: str | None = None


UNQUOTED = LexerMode(re.compile(r"[^ \t\n;&|<>()\\'\"`$]+"), " \t\n;&|<>()", has_quotes=True)
DOUBLE = LexerMode(re.compile(r'[^\\"`$]+'), '"', is_quoted=True, escaped='$`"\\\n')
BRACED = LexerMode(re.compile(r"[^\\'\"`$}]+"), "}", has_quotes=True)
BRACED_DOUBLE = LexerMode(re.compile(r'[^\\"`$}]+'), "}", is_quoted=True, escaped='$`"\\\n}')
INDEX = LexerMode(re.compile(r"[^\\'\"`$\]]+"), "]", has_quotes=True)
DOCUMENT = LexerMode(re.compile(r"[^\\`$]+"), "", is_quoted=True, escaped="$`\\\n")
ARITHMETIC = LexerMode(re.compile(r"[^\\'\"`$()]+"), "()", is_quoted=True, has_quotes=True)


class ParseBudget:
    """The number of characters that may still be read. Text that exceeds it is hostile."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.spent = 0

    def spend(self, count: int) -> None:
        self.spent += count
        if self.spent > self.left:
            raise CannotParse("it takes too long to parse")


class WordParser(ABC):
    """Reads one text from `position` on."""

    def __init__(self, text: str, budget: ParseBudget, depth: int = 0) -> None:
        self.text = text
        self.position = 0
        self.budget = budget
        self._depth = depth
        self._may_extend_patterns = "extglob" in text

    @abstractmethod
    def script_until(self, closer: str) -> Script:
        """The script up to a closing character, which is read too."""

    @abstractmethod
    def whole_script(self) -> Script: ...

    @contextmanager
    def deeper(self) -> Iterator[None]:
        if self._depth >= MAX_DEPTH:
            raise CannotParse(f"it is nested more than {MAX_DEPTH} deep")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def peek(self, offset: int = 0) -> str:
        at = self.position + offset
        return self.text[at] if at < len(self.text) else ""

    def advance(self, count: int = 1) -> None:
        self.position += count
        self.budget.spend(count)

    def word(self) -> Word:
        return tuple(self.parts(UNQUOTED))

    def parts(self, mode: LexerMode) -> list[Part]:
        """Up to the character that ends the mode, which is not read."""
        found: list[Part] = []
        while self.position < len(self.text):
            run = mode.plain.match(self.text, self.position)
            if run is not None:
                found.append(LiteralText(run[0], mode.is_quoted))
                self.advance(len(run[0]))
                continue
            character = self.peek()
            if character in "<>" and mode is UNQUOTED and self.peek(1) == "(":
                self.advance(2)
                found.append(ProcessSubstitution(self._nested_script(")")))
            elif character == "(" and mode is UNQUOTED and self._has_extended_pattern(found):
                self._extended_pattern(found)
            elif character in mode.ends:
                break
            else:
                self._special(character, mode, found)
        return found

    def _has_extended_pattern(self, found: list[Part]) -> bool:
        """`!(…)` and the like are patterns once they are switched on, which a text must do itself."""
        last = found[-1] if found else None
        return (
            isinstance(last, LiteralText)
            and not last.quoted
            and last.text[-1:] in tuple("?*+@!")
            and self._may_extend_patterns
        )

    def _extended_pattern(self, found: list[Part]) -> None:
        """Taken for a pattern that fits every name: which ones it leaves out is not looked at."""
        last = found.pop()
        if isinstance(last, LiteralText):
            found += [LiteralText(last.text[:-1], quoted=False), LiteralText("*", quoted=False)]
        self.advance()
        inside: list[Part] = []
        with self.deeper():
            while self.peek() != ")":
                before = self.position
                inside += self.parts(UNQUOTED)
                if self.peek() in {"|", " ", "\t", "<", ">", "&", ";"}:
                    self.advance()
                elif self.position == before:
                    raise CannotParse("a pattern is not closed")
        self.expect(")")
        if not all(isinstance(part, LiteralText) for part in inside):
            found.append(UnknownText(tuple(inside), quoted=False))

    def _special(self, character: str, mode: LexerMode, found: list[Part]) -> None:
        if character == "\\":
            found.extend(self._escape(mode))
        elif character == "'" and mode.has_quotes:
            self.advance()
            found.append(LiteralText(self.up_to("'"), quoted=True))
        elif character == '"' and mode is not DOCUMENT:
            self._double_quotes(found)
        elif character == "`":
            found.append(self._backquotes(mode))
        elif character == "$":
            self._dollar(mode, found)
        else:
            found.append(LiteralText(character, mode.is_quoted))
            self.advance()

    def up_to(self, closer: str) -> str:
        end = self.text.find(closer, self.position)
        if end < 0:
            raise CannotParse(f"a {closer} is not closed")
        inside = self.text[self.position : end]
        self.advance(len(inside) + len(closer))
        return inside

    def _escape(self, mode: LexerMode) -> list[Part]:
        following = self.peek(1)
        self.advance(1 + len(following))
        if following == "\n":
            return []
        if not following or (mode.escaped is not None and following not in mode.escaped):
            return [LiteralText(f"\\{following}", quoted=True)]
        return [LiteralText(following, quoted=True)]

    def _double_quotes(self, found: list[Part]) -> None:
        self.advance()
        # Even with nothing in it, it is a word.
        found.append(LiteralText("", quoted=True))
        with self.deeper():
            found.extend(self.parts(DOUBLE))
        self.expect('"')

    def expect(self, closer: str) -> None:
        if not self.text.startswith(closer, self.position):
            raise CannotParse(f"a {closer} is missing")
        self.advance(len(closer))

    def _backquotes(self, mode: LexerMode) -> Part:
        self.advance()
        start = self.position
        while (character := self.peek()) != "`":
            if not character:
                raise CannotParse("a ` is not closed")
            self.advance(2 if character == "\\" else 1)
        inside = self.text[start : self.position]
        self.advance()
        special = '[$`\\\\"]' if mode.is_quoted else "[$`\\\\]"
        text = re.sub(rf"\\({special})", r"\1", inside)
        try:
            return CommandSubstitution(self._apart(text).whole_script(), mode.is_quoted)
        except CannotParse:
            return UnknownText((), mode.is_quoted, (text,))

    def _apart(self, text: str) -> "WordParser":
        """A reader for a text that was taken out of this one."""
        if self._depth >= MAX_DEPTH:
            raise CannotParse(f"it is nested more than {MAX_DEPTH} deep")
        return type(self)(text, self.budget, self._depth + 1)

    def document(self, body: str) -> Word:
        return tuple(self._apart(body).parts(DOCUMENT))

    def _nested_script(self, closer: str) -> Script:
        with self.deeper():
            return self.script_until(closer)

    # -- expansions with a dollar --

    def _dollar(self, mode: LexerMode, found: list[Part]) -> None:
        following = self.peek(1)
        name = _NAME.match(self.text, self.position + 1)
        if following == "(":
            found.append(self._substitution(mode))
        elif following == "{":
            found.append(self._parameter(mode))
        elif following == "'" and mode.has_quotes:
            self.advance(2)
            found.append(LiteralText(self._ansi_text(), quoted=True))
        elif following == '"' and mode.has_quotes:
            self.advance()
        elif following == "[":
            self.advance(2)
            found.append(UnknownText(tuple(self.parts(INDEX)), mode.is_quoted))
            self.expect("]")
        elif name is not None:
            self.advance(1 + len(name[0]))
            found.append(VariableExpansion(name[0], mode.is_quoted))
        elif following and following in "0123456789@*#?-$!":
            self.advance(2)
            found.append(VariableExpansion(following, mode.is_quoted))
        else:
            self.advance()
            found.append(LiteralText("$", mode.is_quoted))

    def _substitution(self, mode: LexerMode) -> Part:
        if self.peek(2) == "(":
            self.advance(3)
            inside = self.arithmetic()
            if inside is not None:
                return UnknownText(inside, mode.is_quoted)
            self.advance(-1)
        else:
            self.advance(2)
        return CommandSubstitution(self._nested_script(")"), mode.is_quoted)

    def arithmetic(self) -> Word | None:
        """The expression before `))`; None, with nothing read, if it is two subshells instead."""
        start, open_parentheses = self.position, 0
        found: list[Part] = []
        with self.deeper():
            while True:
                found.extend(self.parts(ARITHMETIC))
                character = self.peek()
                if character == "(":
                    open_parentheses += 1
                elif character == ")" and open_parentheses:
                    open_parentheses -= 1
                elif self.peek(1) == ")" and character:
                    self.advance(2)
                    return tuple(found)
                else:
                    self.position = start
                    return None
                self.advance()

    def _parameter(self, mode: LexerMode) -> Part:
        self.advance(2)
        if self.peek() in {" ", "\t", "\n", "|"}:
            # `${ command; }` runs it here and now.
            self.advance()
            return CommandSubstitution(self._nested_script("}"), mode.is_quoted)
        named = _PARAMETER.match(self.text, self.position)
        if named is None:
            raise CannotParse("a ${…} has no name")
        self.advance(len(named[0]))
        inner = BRACED_DOUBLE if mode.is_quoted else BRACED
        with self.deeper():
            index = self._index()
            operator = _OPERATOR.match(self.text, self.position)
            self.advance(len(operator[0]) if operator else 0)
            argument = tuple(self.parts(inner))
        self.expect("}")
        sign = operator[0] if operator else ""
        if not sign and argument:
            return UnknownText(argument, mode.is_quoted)
        return VariableExpansion(named[2], mode.is_quoted, _PREFIXES.get(named[1], sign), argument, index)

    def _index(self) -> Word | None:
        if self.peek() != "[":
            return None
        self.advance()
        index = tuple(self.parts(INDEX))
        self.expect("]")
        return index

    def _ansi_text(self) -> str:
        start = self.position
        while (character := self.peek()) != "'":
            if not character:
                raise CannotParse("a $' is not closed")
            self.advance(2 if character == "\\" else 1)
        inside = self.text[start : self.position]
        self.advance()
        return decode_ansi_escapes(inside)


def decode_ansi_escapes(text: str) -> str:
    """Backslash escapes of `$'…'`; a text ends at a null character, as in bash."""
    plain = _ANSI.sub(_character, text)
    return plain.split("\ufffe", 1)[0]


def _character(found: re.Match[str]) -> str:
    hexadecimal, short, long, octal, control, letter = found.groups()
    digits = hexadecimal or short or long
    if digits or octal:
        code = int(digits, 16) if digits else int(octal, 8) & 0xFF
        return _safe(code)
    if control:
        return _safe(ord(control) & 0x1F)
    return _LETTERS.get(letter, letter if letter in "\\'\"?" else f"\\{letter}")


def _safe(code: int) -> str:
    if code == 0:
        return "\ufffe"
    if code > 0x10FFFF or chr(code) == PATTERN:
        return "\ufffd"
    return chr(code)
