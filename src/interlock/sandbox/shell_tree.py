"""A shell command as a tree: what the parser gives, and what the judge of commands walks over."""

from dataclasses import field
from typing import TypeAlias

from interlock.infra.records import dataclass


class CannotParse(Exception):
    """The text is no shell command this parser understands; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, or `${name…}` with its operator and the word after it."""

    name: str
    quoted: bool
    operator: str = ""
    argument: "Word" = ()
    index: "Word | None" = None


@dataclass(frozen=True, slots=True)
class Output:
    """What a command prints: `$(…)` or its old spelling with backquotes."""

    script: "Script"
    quoted: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """`<(…)` or `>(…)`: a command as a file."""

    script: "Script"


@dataclass(frozen=True, slots=True)
class Hidden:
    """Text nobody knows before it runs, such as arithmetic, and the parts that run to make it.

    `unread` is what stands in backquotes and is no script: bash says so when it comes there, and goes on.
    """

    inside: "Word"
    quoted: bool
    unread: tuple[str, ...] = ()


Part: TypeAlias = Text | Variable | Output | Stream | Hidden
Word: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: Word
    items: tuple[Word, ...] | None
    is_appended: bool
    index: Word = ()


@dataclass(frozen=True, slots=True)
class Redirect:
    """`target` is a file, a descriptor, or the text after `<<<`; a here-document is put into `document`."""

    operator: str
    target: Word
    document: list[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Simple:
    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Block:
    """A group, a subshell, `if`, `while`, `case`, `[[ … ]]`, `(( … ))`: what runs in it, in order."""

    words: tuple[Word, ...]
    scripts: tuple["Script", ...]
    redirects: tuple[Redirect, ...]
    is_subshell: bool
    source: str


@dataclass(frozen=True, slots=True)
class Loop:
    """`for` and `select`: the body runs once for each word."""

    name: str
    words: tuple[Word, ...]
    body: "Script"
    redirects: tuple[Redirect, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    body: "Command"
    source: str


Command: TypeAlias = Simple | Block | Loop | Function


@dataclass(frozen=True, slots=True)
class Item:
    """One pipeline of a list."""

    commands: tuple[Command, ...]
    is_background: bool


Script: TypeAlias = tuple[Item, ...]
