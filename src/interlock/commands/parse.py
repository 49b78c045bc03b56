"""The simple commands in a shell text, read by the bash grammar of tree-sitter.

It reads what is written, not what a shell would compute: variables (except HOME and PWD) and substitutions
are `UNKNOWN`; the commands within substitutions, wrappers and here-documents for shells are read as well.
The grammar takes no deadline: `parse_process.py` bounds the size and the time.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from tree_sitter import Language, Node, Parser
from tree_sitter_bash import language

from interlock.commands.wrappers import InnerProgram, found_files, inner_commands, works_itself
from interlock.sandbox.globs import InvalidGlob, expand_braces

# What a text does not say: a variable's value, a program's output.
UNKNOWN = "\ue000"
# The program of a function that starts itself until no other process can start.
FORK_BOMB = "function-that-starts-itself"

MAX_HERE = 3072
MAX_BYTES = 100_000
MAX_DEPTH = 100
MAX_SCRIPT_DEPTH = 8
MAX_COMMANDS = 5000
MAX_SCRIPT_FACTOR = 4

_PARSER = Parser(Language(language()))

# Quoted, these do not expand.
_HIDE = str.maketrans("{},", "\ue001\ue002\ue003")
_SHOW = str.maketrans("\ue001\ue002\ue003", "{},")

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_IN_QUOTES = re.compile(r"\\([$`\"\\])")
_ESCAPE_IN_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI = dict(zip("ntreEabfv", "\n\t\r\x1b\x1b\a\b\f\v", strict=True))
_CONTINUED = re.compile(r"^([^#\n]*?(?<!\\)|)((?:\\\\)*)\\\n", re.MULTILINE)
# Backquotes that are text for the grammar: nested ones, and those in `${x:-`…`}`.
_HIDING = {"command_substitution": "\\`", "expansion": "`"}
_OLD_SUBSTITUTION = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL)
_TILDE = re.compile(r"~([\w.-]*)(?=/|$)")
_SUBSHELLS = frozenset({"subshell", "command_substitution", "process_substitution"})
# A text that the grammar cannot read is cut into these.
_PIECE = re.compile(
    r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\$'(?:\\.|[^'\\])*'|\(\([^();`\n]*\)\)|\$\{[^}]*\}|\\.|(?<!\S)\#[^\n]*
        |<<<?|[<>]&|&>|>\||[^;&|()\n`'"\\<>]|[<>](?!\())+|.""",
    re.VERBOSE | re.DOTALL,
)
_SEPARATORS = frozenset(";&|()\n`'\"\\<> ")
_EXTENDED_GLOB = re.compile(r"[!@?*+]\([^()]*\)")
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)")
_BEFORE_A_COMMAND = frozenset("if then elif else while until do ! { } function".split())  # noqa: SIM905


Redirects: TypeAlias = tuple[tuple[str, str], ...]


class UnreadableCommand(Exception):
    """The text cannot be read within the limits. The message says why."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program with its words. `directory` is None where it is unknown.

    `is_own`: the program is a function of the text. `is_wrapper`: it only starts another, which was
    found and is a command of its own. `has_assignments`: variables set for it may change what it does.
    """

    words: tuple[str, ...]
    redirects: Redirects = ()
    directory: str | None = None
    source: str = ""
    is_own: bool = False
    is_wrapper: bool = False
    has_assignments: bool = False

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def name(self) -> str:
        return self.program.rpartition("/")[2]


@dataclass(slots=True)
class _Scope:
    """Where a shell is: a subshell has a copy."""

    directory: str | None

    def change(self, arguments: tuple[str, ...]) -> None:
        operands = [word for word in arguments if word == "-" or not word.startswith(("-", "+"))]
        self.directory = _joined(self.directory, operands[0] if operands else None)


def read_commands(text: str, home: str, directory: str) -> list[SimpleCommand]:
    """Every command that is written in a text, in this process. Raises `UnreadableCommand`."""
    # Lone surrogates have no encoding, and the markers are ours.
    text = text.encode("utf-8", "replace").decode()
    reader = _Reader(home, len(text))
    reader.read(_without_continuations(text), _Scope(directory))
    return reader.commands


@dataclass(frozen=True, slots=True)
class _Given:
    """What a command gets from outside itself: its input, and redirects and words of an outer node."""

    stdin: str = UNKNOWN
    redirects: Redirects = ()
    words: tuple[str, ...] = ()


_NOTHING = _Given()


class _Reader:
    """Collects the commands of a text and of the scripts within it."""

    def __init__(self, home: str, length: int) -> None:
        self.home = home
        self.commands: list[SimpleCommand] = []
        self._functions: set[str] = set()
        self._left = MAX_SCRIPT_FACTOR * (length + 256)
        self._scripts = 0
        self._depth = 0

    def read(self, text: str, scope: _Scope, given: _Given = _NOTHING) -> str:
        """Read a script. Returns what it prints, as far as that is written in it."""
        self._left -= len(text)
        if self._scripts >= MAX_SCRIPT_DEPTH or self._left < 0:
            raise UnreadableCommand("it has too many scripts within scripts")
        self._scripts += 1
        try:
            root = _PARSER.parse(text.encode()).root_node
            if not root.has_error:
                return self._visit(root, scope, given)
            self._read_pieces(text, scope)
            # The reading is a guess, which a policy that allows only known commands must not follow.
            self._add(SimpleCommand((UNKNOWN,), source=text))
            return UNKNOWN
        finally:
            self._scripts -= 1

    def _read_pieces(self, text: str, scope: _Scope) -> None:
        """Read a text that the grammar cannot, which may hide commands: piece by piece between separators.

        The grammar has gaps (`N<>`, `!(…)`, two here-documents, braces for a program), and most errors are
        not bash's either. A quote without its partner separates as well.
        """
        self._read_old_substitutions(text, scope)
        text = _OLD_SUBSTITUTION.sub(UNKNOWN, text)
        text = _EXTENDED_GLOB.sub("*", text).replace("<>", ">")
        awaiting: list[tuple[str, str]] = []
        at = 0
        while found := _PIECE.match(text, at):
            at, piece = found.end(), found[0]
            if piece == "\n" and awaiting:
                at = self._read_heredocs(text, at, awaiting, scope)
                awaiting = []
            while (first := re.match(r"\s*([^\s;&|()]+)\s*", piece)) and first[1] in _BEFORE_A_COMMAND:
                piece = piece[first.end() :]
            if found[0] in _SEPARATORS or piece.startswith("(("):
                continue
            marks = _HEREDOC.findall(piece)
            piece = _HEREDOC.sub("", piece).replace("<<<", "<")
            if marks:
                awaiting += [(mark, piece) for mark in marks]
            else:
                self._read_piece(piece, scope, _NOTHING)
        for _mark, piece in awaiting:
            self._read_piece(piece, scope, _NOTHING)

    def _read_piece(self, piece: str, scope: _Scope, given: _Given) -> None:
        if piece.startswith("{"):
            # Braces make no program for the grammar, but words.
            piece = f"env {piece}"
        root = _PARSER.parse(piece.encode()).root_node
        if root.has_error:
            words = tuple(re.sub(r"[\"'\\]", "", piece).split())
            self._found(words, scope, given, piece)
        else:
            self._visit(root, scope, given)

    def _read_heredocs(self, text: str, at: int, awaiting: list[tuple[str, str]], scope: _Scope) -> int:
        """Read the pieces of a line with their here-documents. Returns where these end."""
        for mark, piece in awaiting:
            plain = re.escape(re.sub(r"['\"\\]", "", mark))
            end = re.compile(rf"^\t*{plain}$", re.MULTILINE).search(text, at)
            body = text[at : end.start() if end else len(text)]
            if not set(mark) & set("'\"\\"):
                for found in re.finditer(r"\$\(([^()]*)\)", body):
                    self.read(found[1], replace(scope))
            self._read_piece(piece, scope, _Given(body))
            at = end.end() if end else len(text)
        return at

    def _read_old_substitutions(self, text: str, scope: _Scope) -> None:
        for found in _OLD_SUBSTITUTION.finditer(text):
            self.read(re.sub(r"\\([`\\$])", r"\1", found[1]), replace(scope))

    def _add(self, command: SimpleCommand) -> None:
        if len(self.commands) >= MAX_COMMANDS:
            raise UnreadableCommand(f"it has more than {MAX_COMMANDS} commands")
        self.commands.append(command)

    # -- the tree --

    def _visit(self, node: Node, scope: _Scope, given: _Given = _NOTHING) -> str:
        """Find the commands below a node. Returns what they print; redirects go to the last of them."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableCommand(f"it is nested more than {MAX_DEPTH} deep")
        try:
            match node.type:
                case "command":
                    return self._command(node, scope, given)
                case "redirected_statement":
                    return self._redirected(node, scope, given)
                case "pipeline" | "list":
                    return self._sequence(node, scope, given)
                case "function_definition":
                    self._function(node)
                case "file_redirect":
                    # Of a function: each call of it writes there.
                    self._found((), scope, self._redirect(node, scope, _NOTHING), _source(node))
                    return ""
            mark = _HIDING.get(node.type)
            if mark is not None and mark in _source(node):
                self._read_old_substitutions(_source(node), scope)
            if given.redirects or given.words:
                self._found(given.words, scope, replace(given, stdin=UNKNOWN), _source(node))
            if node.type in _SUBSHELLS:
                scope = replace(scope)
            inner = _Given(given.stdin)
            return "\n".join(
                filter(None, [self._visit(child, scope, inner) for child in node.named_children])
            )
        finally:
            self._depth -= 1

    def _sequence(self, node: Node, scope: _Scope, given: _Given) -> str:
        """Commands after each other. In a pipeline each is a subshell that reads the one before."""
        is_pipeline, printed, children = node.type == "pipeline", [given.stdin], node.named_children
        for child in children:
            mine = given if child == children[-1] else _Given(given.stdin)
            if is_pipeline and len(printed) > 1:
                mine = replace(mine, stdin=printed[-1])
            printed.append(self._visit(child, replace(scope) if is_pipeline else scope, mine))
        return printed[-1] if is_pipeline else "\n".join(filter(None, printed[1:]))

    def _redirected(self, node: Node, scope: _Scope, given: _Given) -> str:
        following: list[Node] = []
        body = node.child_by_field_name("body")
        for child in node.named_children:
            if child == body:
                continue
            given = self._redirect(child, scope, given)
            if child.type == "heredoc_redirect":
                # What follows the mark on its line is below it.
                for each in child.named_children:
                    if each.type == "file_redirect":
                        given = self._redirect(each, scope, given)
                    elif each.type in {"pipeline", "list", "command", "redirected_statement"}:
                        following.append(each)
                    elif not each.type.startswith("heredoc_") and each.type != "file_descriptor":
                        given = replace(given, words=given.words + self._values(each, scope))
        if body is None:
            printed = self._found(given.words, scope, given, _source(node))
        else:
            printed = self._visit(body, scope, given)
        for each in following:
            printed = self._visit(each, scope, _Given(printed))
        return printed

    def _redirect(self, node: Node, scope: _Scope, given: _Given) -> _Given:
        if node.type == "heredoc_redirect":
            return replace(given, stdin=self._heredoc(node, scope))
        for child in node.named_children:
            self._visit(child, scope)
        if node.type == "herestring_redirect":
            return replace(given, stdin="".join(self._text(child, scope) for child in node.named_children))
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        # The grammar takes the words after a target for further targets.
        if operator == "<" and targets and targets[0].type == "process_substitution":
            return replace(given, stdin=self._visit(targets[0], scope))
        words = tuple(word for child in targets[1:] for word in self._values(child, scope))
        written = tuple((operator, word) for child in targets[:1] for word in self._values(child, scope))
        return replace(given, redirects=given.redirects + written, words=given.words + words)

    def _heredoc(self, node: Node, scope: _Scope) -> str:
        parts = {child.type: child for child in node.named_children}
        body, start = parts.get("heredoc_body"), parts.get("heredoc_start")
        if body is None:
            return ""
        if start is not None and set(_source(start)) & set("\"'\\"):
            return _source(body)
        self._visit(body, scope)
        # The grammar reads only `$(…)` there.
        self._read_old_substitutions(_source(body), scope)
        return self._text(body, scope)

    def _function(self, node: Node) -> None:
        """Remember its name. It is a fork bomb if it starts itself twice, or in the background."""
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return
        self._functions.add(_source(name))
        for child in body.children:
            calls = child.named_children if child.type == "pipeline" else [child]
            own = sum(_source(each) == _source(name) for each in calls)
            if own > 1 or (own and (after := child.next_sibling) is not None and after.type == "&"):
                self._add(SimpleCommand((FORK_BOMB,), source=_source(node)))

    def _command(self, node: Node, scope: _Scope, given: _Given) -> str:
        words: tuple[str, ...] = ()
        has_assignments = False
        after, given = given.words, replace(given, words=())
        for child in node.named_children:
            match child.type:
                case "file_redirect" | "herestring_redirect":
                    given = self._redirect(child, scope, given)
                    words, given = words + given.words, replace(given, words=())
                case "process_substitution" if _source(child).startswith("<"):
                    # `bash <(echo reboot)` reads a script as from its input.
                    given = replace(given, stdin=self._visit(child, scope))
                    words = (*words, "/dev/stdin")
                case "variable_assignment":
                    has_assignments = True
                    self._visit(child, scope)
                case _:
                    self._visit(child, scope)
                    words += self._values(child, scope)
        return self._found((*words, *after), scope, given, _source(node), has_assignments=has_assignments)

    # -- words --

    def _values(self, node: Node, scope: _Scope) -> tuple[str, ...]:
        """The words that a word expands to: with braces, more than one."""
        text = self._text(node, scope)
        if "{" in text:
            with suppress(InvalidGlob):
                return tuple(each.translate(_SHOW) for each in expand_braces(text))
        return (text.translate(_SHOW),)

    def _text(self, node: Node, scope: _Scope) -> str:
        text = _source(node)
        match node.type:
            case "raw_string":
                found = text[1:-1].translate(_HIDE)
            case "ansi_c_string":
                found = decode_escapes(text[2:-1]).translate(_HIDE)
            case "string":
                inner = self._pieces(node, scope)[1:-1]
                found = _ESCAPE_IN_QUOTES.sub(lambda each: each[1], inner).translate(_HIDE)
            case "simple_expansion" | "expansion":
                found = self._variable(text, scope)
            case "command_substitution" | "process_substitution" | "arithmetic_expansion":
                found = UNKNOWN
            case "translated_string":
                found = self._text(node.named_children[0], scope)
            case _ if node.named_child_count:
                found = self._pieces(node, scope)
            case "string_content" | "heredoc_content" | "heredoc_body":
                found = text
            case _:
                found = self._bare(text)
        return found

    def _pieces(self, node: Node, scope: _Scope) -> str:
        """The text of the parts of a node, and what stands between them."""
        whole, base, done, found = node.text or b"", node.start_byte, 0, ""
        for child in node.named_children:
            found += whole[done : child.start_byte - base].decode("utf-8", "replace")
            found += self._text(child, scope)
            done = child.end_byte - base
        return found + whole[done:].decode("utf-8", "replace")

    def _bare(self, text: str) -> str:
        if found := _TILDE.match(text):
            named = "/root" if found[1] == "root" else f"/home/{found[1]}"
            text = (named if found[1] else self.home) + text[found.end() :]
        return _ESCAPE.sub(lambda each: each[1].translate(_HIDE), text)

    def _variable(self, text: str, scope: _Scope) -> str:
        """`$HOME`, `${HOME}` and `${HOME:-x}`: it is always set."""
        found = re.fullmatch(r"\$(?:\{(HOME|PWD)(?::?[-=?].*)?\}|(HOME|PWD))", text, re.DOTALL)
        if found is None:
            return UNKNOWN
        return self.home if "HOME" in found.groups() else scope.directory or UNKNOWN

    # -- commands --

    def _found(
        self,
        words: tuple[str, ...],
        scope: _Scope,
        given: _Given,
        source: str,
        *,
        has_assignments: bool = False,
    ) -> str:
        """Add a command and what it starts. Returns what it prints, as far as that is written."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableCommand(f"it is nested more than {MAX_DEPTH} deep")
        while words and (not words[0] or words[0] in _BEFORE_A_COMMAND):
            # The grammar takes `time { rm x; }` for one command.
            words = words[1:]
        name = words[0].rpartition("/")[2] if words else ""
        inner = list(inner_commands(name, words, given.stdin)) if words else []
        self._add(
            SimpleCommand(
                *(words, given.redirects, scope.directory, source),
                is_own=bool(words) and words[0] in self._functions,
                is_wrapper=bool(inner) and not works_itself(name),
                has_assignments=has_assignments,
            )
        )
        printed = _printed(name, words, given.stdin)
        for each in inner:
            match each:
                case str(text):
                    # `eval` changes the shell itself.
                    printed = self.read(text, scope if name == "eval" else replace(scope))
                case InnerProgram(program, directory):
                    there = replace(scope)
                    if directory is not None:
                        there.directory = _joined(scope.directory, directory)
                    printed = self._found(program, there, _Given(given.stdin), source)
        match name:
            case "cd" | "pushd":
                scope.change(words[1:] or (self.home,))
            case "popd":
                scope.directory = None
        self._depth -= 1
        return printed


def _without_continuations(text: str) -> str:
    """Join lines that end in a backslash: the grammar splits a word there. A comment does not continue."""
    return _CONTINUED.sub(r"\1\2", text) if "\\\n" in text else text


def _source(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _joined(directory: str | None, target: str | None) -> str | None:
    """The directory that a path leads to, or None."""
    if target is None or target == "-" or target.startswith(UNKNOWN):
        return None
    if target.startswith("/"):
        return target
    return None if directory is None else f"{directory}/{target}"


def decode_escapes(text: str) -> str:
    """`\\x72\\155` as `$'…'`, `echo -e` and `printf` read it."""

    def character(found: re.Match[str]) -> str:
        *numbers, octal, plain = found.groups()
        code = next((int(each, 16) for each in numbers if each), int(octal, 8) if octal else None)
        if code is None:
            return _ANSI.get(plain, plain)
        return chr(code) if 0 < code < 0xD800 else "\n"

    return _ESCAPE_IN_ANSI.sub(character, text)


def _printed(name: str, words: tuple[str, ...], stdin: str) -> str:
    """What a command prints, where its words say so: for `… | sh` and `… | xargs`."""
    operands = [word for word in words[1:] if not word.startswith("-")]
    match name:
        case "echo" | "yes":
            options = words[1:2] if re.fullmatch("-[neE]+", "".join(words[1:2])) else ()
            text = " ".join(words[1 + len(options) :])
            return decode_escapes(text) if any("e" in each for each in options) else text
        case "printf" if len(words) > 1:
            values = iter(words[2:])
            text = re.sub(r"%[-0-9.]*[sbdq]", lambda _found: next(values, ""), decode_escapes(words[1]))
            return "\n".join((text, *values))
        case "cat" | "sort" | "uniq" | "head" | "tail" | "shuf" if not operands:
            return stdin
        case "tee":
            return stdin
        case "grep" | "rg" if len(operands) < 2 and stdin != UNKNOWN:
            # Of all files, some.
            return re.sub(r"(?<=.)/\*$", f"/*{UNKNOWN}", stdin, flags=re.MULTILINE)
        case "find" | "fd" | "fdfind":
            return "\n".join(found_files(name, words))
        case "ls" | "grep" | "rg":
            paths = operands if name == "ls" or "--files" in words else operands[1:]
            is_itself = "-d" in words
            return "\n".join(
                path if is_itself or path[-1:] == "*" else f"{path}/*" for path in paths or ["."]
            )
    return UNKNOWN
