"""The grammar of bash, as far as judging a command needs it.

`parse` gives a tree or raises `CannotParse`, and nothing else. It takes time in proportion to the text and
never runs, opens or looks up anything.
"""

import re

from interlock.commands.line_parser import LineParser
from interlock.commands.syntax_tree import (
    CannotParse,
    CommandNode,
    CompoundCommand,
    ForLoop,
    FunctionDefinition,
    LiteralText,
    Pipeline,
    Redirection,
    Script,
    ShellAssignment,
    SimpleCommand,
    Word,
)
from interlock.commands.word_parser import PATTERN, UNKNOWN, ParseBudget

MAX_LENGTH = 200_000
SOURCE_LENGTH = 300
READS_PER_CHARACTER = 6

_KEYWORD = re.compile(r"(?:[a-z]+|\[\[|\]\]|[{}!])(?=[ \t\n;&|<>()]|$)")
_LOOP_NAME = re.compile(r"[^ \t\n;&|<>()]+")
_CASE_END = re.compile(r";;&|;;|;&")
_COPROCESS = re.compile(
    r"[A-Za-z_]\w*[ \t]+(?=[{(]|(?:if|for|while|until|case|select)(?=[ \t\n]))", re.ASCII
)
# After these words a list of values may be assigned.
_DECLARING = tuple(
    (LiteralText(name, quoted=False),) for name in ("declare", "local", "readonly", "export", "typeset")
)
_LIST = re.compile(r"[A-Za-z_]\w*(?:\[[^\]\n]*\])?\+?=\(", re.ASCII)
_CLOSERS = frozenset({"then", "do", "done", "fi", "esac", "elif", "else", "}", "]]"})


def parse(text: str, *, may_have_unknown_text: bool = False) -> Script:
    """The tree of a command. Text that another command put together may hold `UNKNOWN` already."""
    return read(text, may_have_unknown_text=may_have_unknown_text)[0]


def read(text: str, *, may_have_unknown_text: bool = False) -> tuple[Script, int]:
    """The tree, and how many characters were read to get it."""
    if len(text) > MAX_LENGTH:
        raise CannotParse(f"it is longer than {MAX_LENGTH} characters")
    if not may_have_unknown_text:
        text = text.replace(UNKNOWN, "\ufffd")
    budget = ParseBudget(READS_PER_CHARACTER * len(text) + 100)
    try:
        return ShellParser(text.replace(PATTERN, "\ufffd"), budget).whole_script(), budget.spent
    except RecursionError:
        raise CannotParse("it is nested too deeply") from None


class ShellParser(LineParser):
    def whole_script(self) -> Script:
        script = self._script(frozenset())
        if self.position < len(self.text):
            raise CannotParse(f"unexpected {self.peek()!r}")
        return script

    def script_until(self, closer: str) -> Script:
        script = self._script(frozenset({closer}))
        self.expect(closer)
        return script

    # -- lists and pipelines --

    def _script(self, closers: frozenset[str]) -> Script:
        items: list[Pipeline] = []
        with self.deeper():
            while self._at_command(closers):
                commands = self._pipeline()
                self.blanks()
                items.append(Pipeline(commands, self._separator()))
        return tuple(items)

    def _at_command(self, closers: frozenset[str]) -> bool:
        self.lines()
        if not self.peek() or self.peek() == ")" or _CASE_END.match(self.text, self.position):
            return False
        keyword = self._keyword()
        if keyword in _CLOSERS and keyword not in closers:
            raise CannotParse(f"unexpected {keyword!r}")
        return keyword not in closers or not keyword

    def _separator(self) -> bool:
        """Read the separator of two pipelines; returns whether the first runs in the background."""
        for operator in ("&&", "||"):
            if self.text.startswith(operator, self.position):
                self.advance(2)
                self.lines()
                if not self.peek() or self.peek() in ";&|)":
                    raise CannotParse(f"nothing after {operator}")
                return False
        if self.peek() in {"&", ";"} and not _CASE_END.match(self.text, self.position):
            is_background = self.peek() == "&"
            self.advance()
            return is_background
        if self.peek() and self.peek() not in "\n;)" and self._keyword() not in _CLOSERS:
            raise CannotParse(f"unexpected {self.peek()!r}")
        return False

    def _pipeline(self) -> tuple[CommandNode, ...]:
        self._prefixes()
        commands = [self._command()]
        self.blanks()
        while self.peek() == "|" and self.peek(1) != "|":
            self.advance(2 if self.peek(1) == "&" else 1)
            self.lines()
            commands.append(self._command())
            self.blanks()
        return tuple(commands)

    def _prefixes(self) -> None:
        while (keyword := self._keyword()) in {"!", "time", "coproc"}:
            self.advance(len(keyword))
            self.blanks()
            if keyword == "coproc" and (name := _COPROCESS.match(self.text, self.position)):
                self.advance(len(name[0]))
            if keyword == "time" and (option := re.compile("-p(?=[ \t])").match(self.text, self.position)):
                self.advance(len(option[0]))
                self.blanks()

    def _keyword(self) -> str:
        found = _KEYWORD.match(self.text, self.position)
        return found[0] if found else ""

    def _take(self, *keywords: str) -> str:
        """One of these keywords, which must come next."""
        self.lines()
        found = self._keyword()
        if found not in keywords:
            raise CannotParse(f"{keywords[0]!r} is missing")
        self.advance(len(found))
        return found

    # -- commands --

    def _command(self) -> CommandNode:
        self.blanks()
        start = self.position
        if self.peek() == "(":
            return self._parenthesis(start)
        keyword = self._keyword()
        if keyword in {"if", "while", "until"}:
            return self._conditional(start, keyword)
        if keyword in {"for", "select"}:
            return self._loop(start, keyword)
        if keyword == "case":
            return self._case(start)
        if keyword == "{":
            self.advance()
            return self._block(start, (self._script_to("}"),))
        if keyword == "[[":
            return self._test(start)
        if keyword == "function":
            return self._named_function(start)
        return self._simple(start)

    def _source(self, start: int) -> str:
        return self.text[start : min(self.position, start + SOURCE_LENGTH)].strip()

    def _block(
        self,
        start: int,
        scripts: tuple[Script, ...],
        words: tuple[Word, ...] = (),
        *,
        is_subshell: bool = False,
    ) -> CompoundCommand:
        redirects = self.redirects()
        return CompoundCommand(words, scripts, redirects, is_subshell, self._source(start))

    def _script_to(self, *closers: str) -> Script:
        script = self._script(frozenset(closers))
        if len(closers) == 1:
            self._take(closers[0])
        return script

    def _parenthesis(self, start: int) -> CommandNode:
        if self.peek(1) == "(":
            self.advance(2)
            inside = self.arithmetic()
            if inside is not None:
                return self._block(start, (), (inside,))
            self.advance(-1)
        else:
            self.advance()
        return self._block(start, (self.script_until(")"),), is_subshell=True)

    def _conditional(self, start: int, keyword: str) -> CommandNode:
        self.advance(len(keyword))
        if keyword != "if":
            return self._block(start, (self._script_to("do"), self._script_to("done")))
        scripts = [self._script_to("then")]
        while True:
            scripts.append(self._script_to("elif", "else", "fi"))
            found = self._take("fi", "elif", "else")
            if found == "fi":
                return self._block(start, tuple(scripts))
            if found == "elif":
                scripts.append(self._script_to("then"))

    def _loop(self, start: int, keyword: str) -> CommandNode:
        self.advance(len(keyword))
        self.blanks()
        name, words = "", []
        if self.text.startswith("((", self.position):
            self.advance(2)
            inside = self.arithmetic()
            if inside is None:
                raise CannotParse("a for (( … )) is not closed")
            words.append(inside)
        else:
            name = self._loop_name()
            self.lines()
            if self._keyword() == "in":
                self.advance(2)
                words = self.words_of_line()
        self.blanks()
        if self.peek() == ";":
            self.advance()
        closer = "done" if self._take("do", "{") == "do" else "}"
        body = self._script_to(closer)
        redirects = self.redirects()
        return ForLoop(name, tuple(words), body, redirects, self._source(start))

    def _loop_name(self) -> str:
        found = _LOOP_NAME.match(self.text, self.position)
        if found is None:
            raise CannotParse("a loop has no variable")
        self.advance(len(found[0]))
        return found[0]

    def _case(self, start: int) -> CommandNode:
        self.advance(len("case"))
        self.blanks()
        words: list[Word] = [self.word()]
        scripts: list[Script] = []
        self._take("in")
        while True:
            self.lines()
            if self._keyword() == "esac":
                self.advance(len("esac"))
                return self._block(start, tuple(scripts), tuple(words))
            if self.peek() == "(":
                self.advance()
            words.extend(self._case_patterns())
            scripts.append(self._script(frozenset({"esac"})))
            if end := _CASE_END.match(self.text, self.position):
                self.advance(len(end[0]))
            elif self._keyword() != "esac":
                raise CannotParse("a case is not closed")

    def _case_patterns(self) -> list[Word]:
        patterns: list[Word] = []
        while True:
            self.blanks()
            patterns.append(self.word())
            self.blanks()
            closer = self.peek()
            if closer not in {"|", ")"}:
                raise CannotParse("a pattern of a case is not closed")
            self.advance()
            if closer == ")":
                return patterns

    def _test(self, start: int) -> CommandNode:
        self.advance(2)
        words: list[Word] = []
        while True:
            self.lines()
            if self._keyword() == "]]":
                self.advance(2)
                return self._block(start, (), tuple(words))
            word = self.word()
            if word:
                words.append(word)
            elif not self.peek():
                raise CannotParse("a [[ is not closed")
            elif self.peek() != "\n":
                self.advance()

    def _named_function(self, start: int) -> CommandNode:
        self.advance(len("function"))
        self.blanks()
        name = self._loop_name()
        self.blanks()
        if re.compile(r"\([ \t]*\)").match(self.text, self.position):
            self.up_to(")")
        return self._function(start, name)

    def _function(self, start: int, name: str) -> CommandNode:
        self.lines()
        with self.deeper():
            body = self._command()
        return FunctionDefinition(name, body, self._source(start))

    def _simple(self, start: int) -> CommandNode:
        assignments: list[ShellAssignment] = []
        words: list[Word] = []
        redirects: list[Redirection] = []
        while True:
            self.blanks()
            if redirect := self.redirect():
                redirects.append(redirect)
            elif self._may_assign(words) and (assignment := self.assignment()):
                assignments.append(assignment)
            elif word := self.word():
                words.append(word)
            elif self.peek() == "(" and len(words) == 1 and not assignments and not redirects:
                return self._function_after(start, words[0])
            else:
                break
        if not (words or assignments or redirects):
            raise CannotParse(f"a command is missing before {self.peek()!r}")
        if self.peek() == "(":
            raise CannotParse("unexpected '('")
        return SimpleCommand(tuple(assignments), tuple(words), tuple(redirects), self._source(start))

    def _may_assign(self, words: list[Word]) -> bool:
        """Before the first word; after `declare` and the like, lists alone are not words of it."""
        if not words:
            return True
        return words[0] in _DECLARING and _LIST.match(self.text, self.position) is not None

    def _function_after(self, start: int, word: Word) -> CommandNode:
        self.advance()
        self.blanks()
        self.expect(")")
        return self._function(start, "".join(part.text for part in word if isinstance(part, LiteralText)))
