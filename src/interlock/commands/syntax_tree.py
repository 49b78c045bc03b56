"""A shell command as a tree: what the parser gives, and what the judge of commands walks over."""

from dataclasses import dataclass, field
from typing import TypeAlias


class CannotParse(Exception):
    """The text is no shell command this parser understands; the sentence says why."""


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
    """What a command prints: `$(…)` or its old spelling with backquotes."""

    script: "Script"
    quoted: bool


@dataclass(frozen=True, slots=True)
class ProcessSubstitution:
    """`<(…)` or `>(…)`: a command as a file."""

    script: "Script"


@dataclass(frozen=True, slots=True)
class UnknownText:
    """Text nobody knows before it runs, such as arithmetic, and the parts that run to make it.

    `unread` is what stands in backquotes and is no script: bash says so when it comes there, and goes on.
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
