"""The syntax tree of a shell command: built by the parser, walked by the judge."""

from dataclasses import dataclass, field
from typing import TypeAlias


class CannotParse(Exception):
    """The text is not a shell command that this parser understands; the message says why."""


@dataclass(frozen=True, slots=True)
class LiteralText:
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class VariableExpansion:
    """`$name`, or `${name…}` with its operator and the word after it."""

    name: str
    quoted: bool
    operator: str = ""
    argument: "Word" = ()
    index: "Word | None" = None


@dataclass(frozen=True, slots=True)
class CommandSubstitution:
    """The output of a command: `$(…)` or backquotes."""

    script: "Script"
    quoted: bool


@dataclass(frozen=True, slots=True)
class ProcessSubstitution:
    """`<(…)` or `>(…)`: a command as a file."""

    script: "Script"


@dataclass(frozen=True, slots=True)
class UnknownText:
    """Text unknown before it runs, such as arithmetic, and the parts that run to produce it.

    `unread` is text in backquotes that is not a script: bash reports it when it runs, and continues.
    """

    inside: "Word"
    quoted: bool
    unread: tuple[str, ...] = ()


Part: TypeAlias = LiteralText | VariableExpansion | CommandSubstitution | ProcessSubstitution | UnknownText
Word: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ShellAssignment:
    name: str
    value: Word
    items: tuple[Word, ...] | None
    is_appended: bool
    index: Word = ()


@dataclass(frozen=True, slots=True)
class Redirection:
    """`target` is a file, a descriptor, or the text after `<<<`; a here-document is put into `document`."""

    operator: str
    target: Word
    document: list[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    assignments: tuple[ShellAssignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirection, ...]
    source: str


@dataclass(frozen=True, slots=True)
class CompoundCommand:
    """A group, a subshell, `if`, `while`, `case`, `[[ … ]]`, `(( … ))`: what runs in it, in order."""

    words: tuple[Word, ...]
    scripts: tuple["Script", ...]
    redirects: tuple[Redirection, ...]
    is_subshell: bool
    source: str


@dataclass(frozen=True, slots=True)
class ForLoop:
    """`for` and `select`: the body runs once for each word."""

    name: str
    words: tuple[Word, ...]
    body: "Script"
    redirects: tuple[Redirection, ...]
    source: str


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    name: str
    body: "CommandNode"
    source: str


CommandNode: TypeAlias = SimpleCommand | CompoundCommand | ForLoop | FunctionDefinition


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One pipeline of a list."""

    commands: tuple[CommandNode, ...]
    is_background: bool


Script: TypeAlias = tuple[Pipeline, ...]
