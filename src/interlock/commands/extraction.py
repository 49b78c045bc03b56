"""Extracts every command that a text would run, as far as visible, as a flat list for the rules.

It walks the syntax tree in the order of the text, tracks variables, functions and `cd`, and looks through
shells, wrappers and substitutions. It runs nothing.
"""

import re
import shlex
from dataclasses import dataclass, replace

from interlock.commands.expansion import ExpansionContext, ShellScope, WordExpander, is_known, unmarked
from interlock.commands.fork_bombs import is_fork_bomb
from interlock.commands.option_commands import commands_in_variable
from interlock.commands.parse import parse
from interlock.commands.read_builtin import READ_BUILTINS, apply_read_builtin
from interlock.commands.static_output import static_output
from interlock.commands.syntax_tree import (
    CannotParse,
    CommandSubstitution,
    CompoundCommand,
    ForLoop,
    FunctionDefinition,
    Pipeline,
    ProcessSubstitution,
    Redirection,
    Script,
    ShellAssignment,
    SimpleCommand,
    UnknownText,
    VariableExpansion,
    Word,
)
from interlock.commands.syntax_tree import CommandNode as Node
from interlock.commands.word_parser import UNKNOWN, ParseBudget
from interlock.commands.wrapper_table import WrappedProgram, WrappedScript
from interlock.commands.wrappers import SHELLS, wrapped_commands

MAX_DEPTH = 24
MAX_FUNCTIONS = 256
MAX_ALIASES = 256
MAX_READERS = 4
MAX_LEFT = 64
WORK_PER_CHARACTER = 20
WORK_AT_LEAST = 50_000
COST_OF_CODE = 100

# The program name used for a function that starts itself more than once.
SELF_STARTING = "a function that starts itself"

_DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})
_FORGETTING = frozenset({"unset", "getopts", "let"})
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExtractedCommand:
    """One program with its arguments, or the redirections of a block (then without words)."""

    words: tuple[str, ...]
    redirects: tuple[tuple[str, str], ...]
    folder: str
    source: str
    stdin: str | None = None
    is_recursive: bool = False
    is_function: bool = False

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def name(self) -> str:
        """The program's name without its directory, and without unknown text from a variable."""
        return self.program.rpartition("/")[2].replace(UNKNOWN, "")


@dataclass(frozen=True, slots=True)
class ExtractedCommands:
    """The commands, and the texts that could not be parsed, with the directory they would run in."""

    commands: list[ExtractedCommand]
    unread: list[tuple[str, str]]


def extract_commands(text: str, home: str, folder: str) -> ExtractedCommands:
    walker = _Walker(ParseBudget(WORK_PER_CHARACTER * len(text) + WORK_AT_LEAST))
    try:
        walker.script(parse(text), ShellScope(home, folder))
    except (CannotParse, RecursionError):
        walker.seen.unread.append((text, folder))
    return walker.seen


class _Walker:
    """Walks a script. With `is_judged` false it only computes the output of a script walked before."""

    def __init__(self, budget: ParseBudget, depth: int = 0, *, is_judged: bool = True) -> None:
        self.seen = ExtractedCommands([], [])
        self._budget = budget
        self._means = ExpansionContext(self._printed, budget)
        self._depth = depth
        self._is_judged = is_judged

    def script(self, script: Script, scope: ShellScope, stdin: str | None = None) -> str | None:
        """Walk a script; returns its output, if known.

        The input goes to each of the first commands: which of them reads it is not known.
        """
        if self._depth >= MAX_DEPTH:
            raise CannotParse(f"its commands are nested more than {MAX_DEPTH} deep")
        self._depth += 1
        printed: list[str | None] = [
            self._item(item, scope, stdin if number < MAX_READERS else None)
            for number, item in enumerate(script)
        ]
        self._depth -= 1
        return None if None in printed else "".join(filter(None, printed))

    def _item(self, item: Pipeline, scope: ShellScope, stdin: str | None) -> str | None:
        if len(item.commands) == 1 and not item.is_background:
            return self._node(item.commands[0], scope, stdin)
        for node in item.commands:
            stdin = self._node(node, self._subshell(scope), stdin)
        return stdin

    def _subshell(self, scope: ShellScope) -> ShellScope:
        self._budget.spend(scope.size)
        return scope.inner()

    def _node(self, node: Node, scope: ShellScope, stdin: str | None) -> str | None:
        match node:
            case SimpleCommand():
                return self._simple(node, scope, stdin)
            case CompoundCommand():
                return self._block(node, scope, stdin)
            case ForLoop():
                self._loop(node, scope, stdin)
            case FunctionDefinition():
                self._function(node, scope)
        return None

    def _block(self, node: CompoundCommand, scope: ShellScope, stdin: str | None) -> str | None:
        self._nested(node.words, scope)
        redirects, given = self._redirects(node.redirects, scope)
        self._emit(ExtractedCommand((), redirects, scope.folder, node.source))
        inner = self._subshell(scope) if node.is_subshell else scope
        printed = [self.script(script, inner, given or stdin) for script in node.scripts]
        return printed[0] if len(printed) == 1 else None

    def _loop(self, node: ForLoop, scope: ShellScope, stdin: str | None) -> None:
        self._nested(node.words, scope)
        redirects, given = self._redirects(node.redirects, scope)
        self._emit(ExtractedCommand((), redirects, scope.folder, node.source))
        if node.name:
            values = self._expander(scope).fields(node.words) if node.words else scope.arguments or ()
            scope.choose(node.name, tuple(values))
        self.script(node.body, scope, given or stdin)

    def _function(self, node: FunctionDefinition, scope: ShellScope) -> None:
        if len(scope.functions) < MAX_FUNCTIONS:
            scope.functions[node.name] = node
        if not self._is_judged:
            return
        inner = self._subshell(scope)
        inner.arguments = None
        # It is judged here, and again where it is called with arguments.
        inner.functions.pop(node.name, None)
        if is_fork_bomb(node):
            self._emit(ExtractedCommand((SELF_STARTING,), (), scope.folder, node.source))
        self.script((Pipeline((node.body,), is_background=False),), inner)

    def _simple(self, node: SimpleCommand, scope: ShellScope, stdin: str | None) -> str | None:
        self._nested(node.words, scope)
        for assignment in node.assignments:
            self._assign(assignment, scope)
        redirects, given = self._redirects(node.redirects, scope)
        words = tuple(self._expander(scope).fields(node.words))
        if given is None:
            given = stdin
        self._budget.spend(len(given or "") // 4)
        is_function = "".join(words[:1]) in scope.functions
        command = ExtractedCommand(
            words, redirects, scope.folder, node.source, given, is_function=is_function
        )
        self._emit(command)
        if not words:
            return ""
        self._builtin(command, scope)
        printed = None
        if self._is_judged:
            printed = self._run(command, scope)
            self._streams(node, words, scope)
        if any(operator in {">", ">>", ">|", "&>", "&>>"} for operator, _ in redirects):
            return None
        if command.name == "pwd":
            return f"{scope.folder}\n"
        return static_output(words, given) if printed is None else printed

    def _run(self, command: ExtractedCommand, scope: ShellScope) -> str | None:
        """Walk what the command runs in turn; returns its output, if known."""
        printed: list[str | None] = []
        name = unmarked(command.name)
        function = scope.functions.get(command.program)
        if function is not None:
            inner = self._subshell(scope)
            inner.arguments = command.words[1:]
            inner.functions.pop(command.program)
            self._budget.spend(len(command.source) + 100)
            body = (Pipeline((function.body,), is_background=False),)
            printed.append(self.script(body, inner, command.stdin))
        if command.program in scope.aliases:
            inner = self._subshell(scope)
            text = inner.aliases.pop(command.program)
            code = WrappedScript(f"{text} {shlex.join(map(unmarked, command.words[1:]))}")
            printed.append(self._code(code, command, inner))
        if name == "env":
            scope = self._subshell(scope)
            self._declare(command.words[1:], scope)
        for found in wrapped_commands((name, *command.words[1:]), command.stdin):
            if isinstance(found, WrappedProgram):
                printed.append(self._words(found, command, scope))
            else:
                printed.append(self._code(found, command, scope))
        return printed[0] if len(printed) == 1 else None

    def _words(self, found: WrappedProgram, outer: ExtractedCommand, scope: ShellScope) -> str | None:
        if not found.words:
            return None
        inner = replace(
            outer,
            words=found.words,
            redirects=(),
            folder=outer.folder if found.folder is None else _changed_folder((found.folder,), scope),
            is_recursive=found.is_recursive or outer.is_recursive,
            is_function=False,
        )
        self._depth += 1
        if self._depth >= MAX_DEPTH:
            raise CannotParse(f"its commands are nested more than {MAX_DEPTH} deep")
        self._emit(inner)
        printed = self._run(inner, scope)
        self._depth -= 1
        return static_output(inner.words, inner.stdin) if printed is None else printed

    def _code(self, found: WrappedScript, outer: ExtractedCommand, scope: ShellScope) -> str | None:
        self._budget.spend(len(found.text) + COST_OF_CODE)
        inner = scope if outer.name == "eval" else self._subshell(scope)
        if found.arguments or outer.name in SHELLS:
            inner.arguments = found.arguments
        if found.called is not None:
            inner.set("0", (found.called,))
        depth = self._depth
        try:
            return self.script(parse(found.text, may_have_unknown_text=True), inner)
        except CannotParse:
            self._depth = depth
            self.seen.unread.append((found.text, scope.folder))
            return None

    def _streams(self, node: SimpleCommand, words: tuple[str, ...], scope: ShellScope) -> None:
        """`bash <(…)` and `source <(…)` run what the inner command prints."""
        if words[0].rpartition("/")[2] not in SHELLS | {"source", "."}:
            return
        for word in node.words[1:]:
            if len(word) == 1 and isinstance(word[0], ProcessSubstitution):
                printed = self._printed(word[0].script, scope)
                if printed is not None:
                    self._code(
                        WrappedScript(unmarked(printed)),
                        ExtractedCommand(words, (), scope.folder, node.source),
                        scope,
                    )

    # -- effects on the shell's state --

    def _assign(self, assignment: ShellAssignment, scope: ShellScope) -> None:
        expander = self._expander(scope)
        self._nested((assignment.index,), scope)
        if assignment.items is not None:
            self._nested(assignment.items, scope)
            values = tuple(map(unmarked, expander.fields(assignment.items)))
        else:
            self._nested((assignment.value,), scope)
            values = (expander.value(assignment.value),)
        if assignment.is_appended:
            before = scope.get(assignment.name) or ()
            glued = assignment.items is None and len(before) == 1
            values = (before[0] + values[0],) if glued else (*before, *values)
        scope.set(assignment.name, values if not assignment.index else (UNKNOWN,))
        self._judge_variable(assignment.name, "".join(values[:1]), scope)

    def _judge_variable(self, variable: str, value: str, scope: ShellScope) -> None:
        for found in commands_in_variable(variable, value) if self._is_judged else ():
            if isinstance(found, WrappedScript):
                self._code(found, ExtractedCommand((), (), scope.folder, value), scope)

    def _builtin(self, command: ExtractedCommand, scope: ShellScope) -> None:
        name, arguments = command.name, command.words[1:]
        if name in {"cd", "pushd", "popd"}:
            _change_folder(name, arguments, scope)
        elif name in _DECLARING:
            self._declare(arguments, scope)
        elif name in READ_BUILTINS:
            apply_read_builtin(command.words, command.stdin, scope)
        elif name == "alias":
            _name_aliases(arguments, scope)
        elif name == "printf" and arguments[:1] == ("-v",):
            scope.set("".join(arguments[1:2]), (static_output((name, *arguments[2:]), None) or UNKNOWN,))
        elif name in _FORGETTING or arguments[:1] == ("-v",):
            for word in arguments:
                if word.isidentifier():
                    scope.set(word, (UNKNOWN,))
        elif name == "set" and "--" in arguments:
            scope.arguments = arguments[arguments.index("--") + 1 :]

    def _declare(self, arguments: tuple[str, ...], scope: ShellScope) -> None:
        for word in arguments:
            if found := _ASSIGNED.fullmatch(word):
                before = "".join(scope.get(found[1]) or ()) if found[2] else ""
                scope.set(found[1], (before + unmarked(found[3]),))
                self._judge_variable(found[1], found[3], scope)

    # -- commands within words --

    def _nested(self, words: tuple[Word, ...], scope: ShellScope) -> None:
        """Walk the commands that are substituted into these words."""
        for word in words if self._is_judged else ():
            for part in word:
                match part:
                    case CommandSubstitution() | ProcessSubstitution():
                        self.script(part.script, self._subshell(scope))
                    case VariableExpansion():
                        self._nested((part.argument, part.index or ()), scope)
                    case UnknownText():
                        self._nested((part.inside,), scope)
                        self.seen.unread.extend((text, scope.folder) for text in part.unread)
                    case _:
                        pass

    def _redirects(
        self, redirects: tuple[Redirection, ...], scope: ShellScope
    ) -> tuple[tuple[tuple[str, str], ...], str | None]:
        """The files, and the literal input text, if any."""
        found: list[tuple[str, str]] = []
        given: str | None = None
        for redirect in redirects:
            document = tuple(redirect.document)
            self._nested((redirect.target, document), scope)
            expander = self._expander(scope)
            if redirect.operator in {"<<", "<<-"}:
                given = expander.value(document)
            elif redirect.operator == "<<<":
                given = expander.value(redirect.target) + "\n"
            elif redirect.operator == "<" and isinstance(redirect.target[0], ProcessSubstitution):
                given = self._printed(redirect.target[0].script, scope)
            else:
                found.extend((redirect.operator, text) for text in expander.fields((redirect.target,)))
        return tuple(found), given

    def _expander(self, scope: ShellScope) -> WordExpander:
        return WordExpander(scope, self._means)

    def _printed(self, script: Script, scope: ShellScope) -> str | None:
        """The output of a script. It was walked before, so its commands are not judged twice."""
        quiet = _Walker(self._budget)
        quiet._depth = self._depth
        printed = quiet.script(script, self._subshell(scope))
        return printed if printed is not None and UNKNOWN not in printed else None

    def _emit(self, command: ExtractedCommand) -> None:
        if self._is_judged and (command.words or command.redirects):
            self._budget.spend(10 + sum(map(len, command.words)))
            self.seen.commands.append(command)


def _change_folder(name: str, arguments: tuple[str, ...], scope: ShellScope) -> None:
    here = scope.folder
    if name == "popd":
        scope.folder, scope.left = (scope.left[-1], scope.left[:-1]) if scope.left else (here, ())
    else:
        scope.folder = _changed_folder(arguments, scope)
        if name == "pushd" and len(scope.left) < MAX_LEFT:
            scope.left = (*scope.left, here)
    scope.before = here


def _changed_folder(arguments: tuple[str, ...], scope: ShellScope) -> str:
    operands = [word for word in arguments if not re.fullmatch("-[LPe@n]+|--", word)]
    if not operands:
        return scope.home
    target = operands[0]
    if target == "-":
        return scope.before
    if not is_known(target):
        return UNKNOWN
    return target if target.startswith("/") else f"{scope.folder}/{target}"


def _name_aliases(arguments: tuple[str, ...], scope: ShellScope) -> None:
    for word in arguments:
        name, sign, text = word.partition("=")
        if sign and len(scope.aliases) < MAX_ALIASES:
            scope.aliases[name] = unmarked(text)
