"""What the words of a parsed command expand to, as far as that is known before it runs.

A word becomes plain text in which `UNKNOWN` represents text that cannot be known, and `PATTERN` precedes
each character that the shell would match against file names.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product

from interlock.commands.brace_expansion import expand_braces
from interlock.commands.syntax_tree import (
    CommandSubstitution,
    FunctionDefinition,
    LiteralText,
    Part,
    ProcessSubstitution,
    Script,
    UnknownText,
    VariableExpansion,
    Word,
)
from interlock.commands.word_parser import PATTERN, UNKNOWN, ParseBudget

MAX_VALUE = 4096
MAX_VARIABLES = 256
MAX_VARIANTS = 64
MAX_TRIMMED = 100

_GLOB = re.compile(rf"(?<!{PATTERN})[*?\[]")
_SPACE = re.compile(r"[ \t\n]+")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_SLICE = re.compile(r" *(-?\d{1,4})(?:: *(\d{1,4}))?", re.ASCII)
_DEFAULTS = frozenset({":-", "-", ":=", "="})


def is_known(text: str) -> bool:
    return UNKNOWN not in text and PATTERN not in text


def unmarked(text: str) -> str:
    """The text as written, with pattern characters as ordinary ones."""
    return text.replace(PATTERN, "")


@dataclass(slots=True)
class ShellScope:
    """The state of a shell at one point of a script."""

    home: str
    folder: str
    arguments: tuple[str, ...] | None = ()
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    functions: dict[str, FunctionDefinition] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    # The directory before the last `cd`, and the stack of `pushd`.
    before: str = UNKNOWN
    left: tuple[str, ...] = ()

    def inner(self) -> "ShellScope":
        """The scope of a subshell: it sees everything, and its changes are its own."""
        return ShellScope(
            self.home,
            self.folder,
            self.arguments,
            dict(self.variables),
            dict(self.choices),
            dict(self.functions),
            dict(self.aliases),
            self.before,
            self.left,
        )

    @property
    def size(self) -> int:
        return len(self.variables) + len(self.choices) + len(self.functions) + len(self.aliases)

    def set(self, name: str, values: tuple[str, ...]) -> None:
        self.choices.pop(name, None)
        if sum(map(len, values)) > MAX_VALUE or len(values) > MAX_VARIABLES:
            values = (UNKNOWN,)
        if name in self.variables or len(self.variables) < MAX_VARIABLES:
            self.variables[name] = values

    def choose(self, name: str, values: tuple[str, ...]) -> None:
        """Set a loop's variable to each of these values in turn."""
        self.set(name, (UNKNOWN,))
        if len(self.choices) < MAX_VARIABLES and sum(map(len, values)) <= MAX_VALUE:
            self.choices[name] = values

    def get(self, name: str) -> tuple[str, ...] | None:
        if name in self.variables:
            return self.variables[name]
        if name in {"@", "*"}:
            return self.arguments
        if name.isdecimal() and name != "0" and self.arguments is not None:
            return self.arguments[int(name[:9]) - 1 : int(name[:9])] or ("",)
        known = {"HOME": self.home, "PWD": self.folder, "IFS": " \t\n"}
        return (known[name],) if name in known else None

    def split(self, text: str, most: int = 0) -> list[str]:
        """Fields of a text, at blanks and at what `IFS` names: a reader of commands may split too often."""
        between = "".join(self.variables.get("IFS", ()))
        if not between or not is_known(between):
            return _SPACE.split(text, most)
        return re.split(rf"[ \t\n{re.escape(between)}]+", text, maxsplit=most)


@dataclass(frozen=True, slots=True)
class ExpansionContext:
    """What expansion needs besides the scope: the output of a script, if known, and a budget."""

    printed: Callable[[Script, ShellScope], str | None]
    budget: ParseBudget


class WordExpander:
    """Expands words in one scope."""

    def __init__(self, scope: ShellScope, means: ExpansionContext) -> None:
        self._scope = scope
        self._means = means

    def fields(self, words: tuple[Word, ...]) -> list[str]:
        """The arguments that the words become."""
        return [
            text
            for word in words
            for variant in expand_braces(word)
            for scope in self._variants(variant)
            for text in _Splitter(scope, self._means).fields(variant)
        ]

    def value(self, word: Word) -> str:
        """One text, as in an assignment or a here-document: nothing is split, no pattern applies."""
        return unmarked(_Splitter(self._scope, self._means).joined(word))

    def _variants(self, word: Word) -> Iterator[ShellScope]:
        """The scope once for every value of the loop variables that the word uses."""
        if not self._scope.choices:
            yield self._scope
            return
        used = {part.name for part in word if isinstance(part, VariableExpansion)} & set(
            self._scope.choices
        )
        total = 1
        for name in used:
            total *= len(self._scope.choices[name])
        if not used or total > MAX_VARIANTS:
            yield self._scope
            return
        names = sorted(used)
        for values in product(*(self._scope.choices[name] for name in names)):
            self._means.budget.spend(len(self._scope.variables))
            scope = self._scope.inner()
            for name, value in zip(names, values, strict=True):
                scope.set(name, (value,))
            yield scope


class _Splitter:
    def __init__(self, scope: ShellScope, means: ExpansionContext) -> None:
        self._scope, self._means = scope, means
        self._done: list[str] = []
        self._open: list[str] | None = None
        self._length = 0

    def fields(self, word: Word) -> list[str]:
        for index, part in enumerate(word):
            self._add(self._home(part) if index == 0 else part)
        self._end_field()
        return self._done

    def joined(self, word: Word) -> str:
        found = [
            " ".join(self._values(self._home(part) if index == 0 else part))
            for index, part in enumerate(word)
        ]
        self._means.budget.spend(sum(map(len, found)))
        return "".join(found)

    def _home(self, part: Part) -> Part:
        """A tilde at the start of a word."""
        if not isinstance(part, LiteralText) or part.quoted or not part.text.startswith("~"):
            return part
        who, slash, rest = part.text[1:].partition("/")
        known = {"": self._scope.home, "+": self._scope.folder, "-": UNKNOWN, "root": "/root"}
        if who not in known and not _USER.fullmatch(who):
            return part
        folder = known.get(who, f"/home/{who}")
        return LiteralText(folder + slash + rest, quoted=False)

    def _add(self, part: Part) -> None:
        if isinstance(part, VariableExpansion) and not part.quoted and self._uses_default(part):
            # Quotes inside it hold: `${x:-'a b'}` is one word.
            self._values(part)
            for inner in part.argument:
                if isinstance(inner, LiteralText) and not inner.quoted:
                    self._split(inner.text)
                else:
                    self._add(inner)
            return
        values = self._values(part)
        if isinstance(part, LiteralText):
            self._append(values[0] if part.quoted else _marked(values[0]))
        elif isinstance(part, ProcessSubstitution):
            self._append(values[0])
        elif part.quoted:
            for index, value in enumerate(values):
                if index:
                    self._end_field()
                self._append(value)
        else:
            self._split(" ".join(values))

    def _split(self, text: str) -> None:
        pieces = self._scope.split(text)
        for index, piece in enumerate(pieces):
            if index:
                self._end_field()
            if piece:
                self._append(_marked(piece))

    def _append(self, text: str) -> None:
        self._means.budget.spend(len(text))
        self._open = self._open or []
        self._length += len(text)
        self._open.append(text if self._length <= 4 * MAX_VALUE else UNKNOWN)

    def _end_field(self) -> None:
        if self._open is not None:
            self._done.append("".join(self._open))
        self._open = None

    def _values(self, part: Part) -> tuple[str, ...]:
        """The texts a part expands to: more than one only for `$@` and arrays."""
        match part:
            case LiteralText():
                return (part.text,)
            case VariableExpansion():
                return self._variable(part)
            case CommandSubstitution():
                printed = self._means.printed(part.script, self._scope)
                return (UNKNOWN if printed is None else printed.rstrip("\n"),)
            case ProcessSubstitution():
                return (f"/dev/fd/{UNKNOWN}",)
            case UnknownText():
                return (UNKNOWN,)

    def _uses_default(self, part: VariableExpansion) -> bool:
        if part.operator not in _DEFAULTS:
            return False
        values = self._scope.get(part.name)
        return values is None or (":" in part.operator and not any(values))

    def _variable(self, part: VariableExpansion) -> tuple[str, ...]:
        if part.name == "IFS" and part.operator not in {"length", "indirect"}:
            return (" ",)
        values = self._scope.get(part.name)
        if part.operator == "indirect" and values and is_known(values[0]):
            values = self._scope.get(values[0])
        elif self._uses_default(part):
            default = self.joined(part.argument)
            if "=" in part.operator:
                self._scope.set(part.name, (unmarked(default),))
            return (default,)
        elif part.operator in {"+", ":+"} and values:
            return (self.joined(part.argument),) if any(values) else ("",)
        elif part.operator not in {"", ":?", "?", *_DEFAULTS}:
            return (_changed(part.operator, values, self.joined(part.argument)),)
        if values is None:
            return (UNKNOWN,)
        return self._indexed(values, part)

    def _indexed(self, values: tuple[str, ...], part: VariableExpansion) -> tuple[str, ...]:
        if part.index is None:
            return values if part.name in {"@", "*"} else values[:1] or ("",)
        index = self.joined(part.index)
        if index in {"@", "*"}:
            return values
        return (
            values[int(index) : int(index) + 1] or ("",) if re.fullmatch(r"\d{1,4}", index) else (UNKNOWN,)
        )


def _changed(operator: str, values: tuple[str, ...] | None, argument: str) -> str:
    """A part of a known value, or its letters made large or small; the rest stays unknown."""
    if not values or not all(map(is_known, values)):
        return UNKNOWN
    value = values[0]
    if operator == ":" and (found := _SLICE.fullmatch(argument)):
        start = int(found[1])
        rest = value[start:] if start >= 0 else value[start:] or value
        return rest[: int(found[2])] if found[2] else rest
    if operator in {"^^", ",,"} and not argument:
        return value.upper() if operator == "^^" else value.lower()
    if operator in {"/", "//"} and is_known(argument) and not _GLOB.search(argument):
        old, _, new = argument.partition("/")
        return value.replace(old, new, 1 if operator == "/" else -1) if old else value
    if operator in {"#", "##", "%", "%%"} and max(len(value), len(argument)) <= MAX_TRIMMED:
        return _trimmed(value, operator, argument) if is_known(argument) else UNKNOWN
    return UNKNOWN


def _trimmed(value: str, operator: str, pattern: str) -> str:
    """Without the shortest or, if the sign is doubled, the longest beginning or end that fits."""
    lengths = range(len(value) + 1)
    for length in reversed(lengths) if len(operator) == 2 else lengths:
        cut = length if operator[0] == "#" else len(value) - length
        taken, rest = (value[:cut], value[cut:]) if operator[0] == "#" else (value[cut:], value[:cut])
        if fnmatchcase(taken, pattern):
            return rest
    return value


def _marked(text: str) -> str:
    return _GLOB.sub(lambda found: PATTERN + found[0], text)
