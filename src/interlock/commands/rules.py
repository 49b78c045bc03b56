"""Rules about commands: data in TOML files, with examples that are checked when a file is loaded.

A rule matches a simple command by its program and first words (`prefix`), by the paths that it names or
writes, and by a pattern over its words; everything that is given must hold. `rules.toml` explains the
fields. `judge.py` asks all rules.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal, Self, TypeAlias

import re2
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from interlock.commands.parse import MAX_HERE, UNKNOWN, SimpleCommand, UnreadableCommand, read_commands
from interlock.commands.wrappers import read_programs
from interlock.config.modes import ToolMode
from interlock.core.errors import ConfigurationError
from interlock.sandbox.globs import Glob, InvalidGlob

BUILTIN_FILE = "rules.toml"
MAX_WORD = 4096
MAX_SOURCES = 100

_EXAMPLE_HOME, _EXAMPLE_DIRECTORY = "/home/ann", "/home/ann/ws"
_EVERYTHING = frozenset({"*", ".*", "?*", "*.*", ".[!.]*", "..?*", ".??*", "**"})
_GLOB_CHARACTERS = frozenset("*?[")
_PROGRAM_DIRECTORIES = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_SEEN_THROUGH = re.compile(r"/proc/(?:self|thread-self|1|\d+)/(?:root|task/\d+/root)(?=/|$)")
_NEVER = re.compile(r"[;&|<>()`\"'\\$\n]")
_KEYWORDS = frozenset(
    "if then elif else fi for while until do done case esac select function in { } ! [[ ]] time".split()  # noqa: SIM905
)
_RULE_HEADING = re.compile(r"\s*\[\[\s*rule\s*\]\]")
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})


class Decision(StrEnum):
    """What a rule decides, from the mildest to the strictest."""

    allow = "allow"
    ask = "ask"
    deny = "deny"

    @property
    def rank(self) -> int:
        return list(Decision).index(self)


# -- paths --


def normalize_path(word: str, directory: str | None) -> tuple[str, ...] | None:
    """The parts of a path, without `.`, `..` and repeated slashes; None if its start is unknown."""
    text = word if word.startswith("/") else f"{directory}/{word}" if directory is not None else ""
    if not word or word.startswith(UNKNOWN) or not text.startswith("/") or len(text) > MAX_WORD:
        return None
    parts: list[str] = []
    for part in _SEEN_THROUGH.sub("", text, count=1).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class _PathPattern:
    """One line of a class of paths: `!` excepts, `~` is the home, `.` the working directory."""

    is_excepted: bool
    anchor: str
    glob: Glob | None

    def matches(self, path: tuple[str, ...], anchors: Mapping[str, tuple[str, ...]]) -> bool:
        above = anchors[self.anchor]
        if not _is_like(path[: len(above)], above):
            return False
        rest = path[len(above) :]
        if self.glob is None or not rest:
            return self.glob is None and not rest
        return self.glob.matches_whole(rest) or any(
            _is_like(rest, parts) for parts in self.glob.alternatives
        )


def _is_like(path: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path is this one. Both may be patterns: `/e?c`."""
    return len(path) == len(parts) and all(
        a == b or (bool(_GLOB_CHARACTERS & set(a)) and (fnmatchcase(b, a) or fnmatchcase(a, b)))
        for a, b in zip(path, parts, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PathSet:
    """A class of paths: the first pattern that matches decides."""

    patterns: tuple[_PathPattern, ...]

    def holds(self, word: str, situation: "Situation", *, globbed: bool = False) -> bool:
        """Whether a word, as a path, is in the class. `globbed`: only if it stands for many files."""
        path = normalize_path(word, situation.directory)
        if path is None or (globbed and not (path and _GLOB_CHARACTERS & set(path[-1]))):
            return False
        while path and path[-1] in _EVERYTHING:
            # Everything in a directory counts as the directory.
            path = path[:-1]
        anchors = {"/": (), "~": _parts(situation.home), ".": _parts(situation.work)}
        for pattern in self.patterns:
            if pattern.matches(path, anchors):
                return not pattern.is_excepted
        return False


KnownPaths: TypeAlias = Mapping[str, tuple[_PathPattern, ...]]


def _path_patterns(lines: Sequence[str], known: KnownPaths) -> Iterator[_PathPattern]:
    for line in lines:
        if line.startswith("@"):
            if line[1:] not in known:
                raise ValueError(f"no class of paths is named {line[1:]!r}")
            yield from known[line[1:]]
            continue
        text = line.removeprefix("!")
        anchor = text[:1]
        if anchor not in {"/", "~", "."} or (anchor != "/" and text[1:2] not in {"", "/"}):
            raise ValueError(f"the path {line!r} must start with /, ~ or . (or @ and a class)")
        rest = text[1:].strip("/")
        try:
            yield _PathPattern(line.startswith("!"), anchor, Glob(rest) if rest else None)
        except InvalidGlob as error:
            raise ValueError(f"the path {line!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a command would run, and for whom."""

    home: str
    work: str
    directory: str | None
    mode: str = ""
    agent: str = ""


@lru_cache(maxsize=64)
def _parts(path: str) -> tuple[str, ...]:
    return normalize_path(path, "/") or ()


# -- arguments --


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments of a program: its options in one spelling each, and the other words."""

    letters: frozenset[str]
    longs: tuple[str, ...]
    operands: tuple[str, ...]

    def has(self, option: str) -> bool:
        """Whether an option is given. A long one may be cut short, as GNU programs allow."""
        if option.startswith("--"):
            return any(option[2:].startswith(each) for each in self.longs)
        return set(option[1:]) <= self.letters


@lru_cache(maxsize=256)
def parse_arguments(words: tuple[str, ...]) -> ParsedArguments:
    letters: set[str] = set()
    longs: list[str] = []
    operands: list[str] = []
    for index, word in enumerate(words[1:], 1):
        if word == "--":
            operands.extend(words[index + 1 :])
            break
        if word.startswith("--"):
            longs.append(word[2:].partition("=")[0] or word)
        elif word.startswith("-") and len(word) > 1:
            letters.update(word[1:])
        else:
            operands.append(word)
    return ParsedArguments(frozenset(letters), tuple(longs), tuple(operands))


def option_value(words: tuple[str, ...], options: Sequence[str]) -> str:
    """The value of one of these options in any of its spellings, or nothing."""
    for index, word in enumerate(words[1:], 1):
        following = words[index + 1] if index + 1 < len(words) else ""
        for option in options:
            if word == option:
                return following
            if option.startswith("--") and word.startswith(f"{option}="):
                return word.partition("=")[2]
            if len(option) == 2 and re.match(r"-[^-]", word) and option[1] in word:
                return word.partition(option[1])[2] or following
    return ""


# -- what is written --


@dataclass(frozen=True, slots=True)
class FileWrite:
    """A file that a command would visibly write, or remove."""

    path: str
    is_removal: bool = False


class _Writer(BaseModel):
    """An entry of `[[writer]]` in `programs.toml`, which explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    programs: tuple[str, ...]
    operands: Literal["all", "last", "first", "second", "none"] = "none"
    removes: bool = False
    when: str = ""
    unless: str = ""
    options: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def writes(self, words: tuple[str, ...], directory: str | None, home: str) -> Iterator[FileWrite]:
        line = " ".join(words[1:])[:MAX_WORD]
        if not re.search(self.when, line) or (self.unless and re.search(self.unless, line)):
            return
        operands = parse_arguments(words).operands
        into = option_value(words, self.directories) if self.directories else ""
        match self.operands:
            case "all":
                yield from (FileWrite(each, self.removes) for each in operands)
            case "last" if into or len(operands) > 1:
                yield from _copied(words[0].rpartition("/")[2], operands, into, (directory or "", home))
            case "first" | "second":
                at = 0 if self.operands == "first" else 1
                yield from map(FileWrite, operands[at : at + 1])
            case _ if into:
                yield FileWrite(f"{into}/{UNKNOWN}")
        if self.options and (path := option_value(words, self.options)):
            yield FileWrite(path)
        for word in words[1:]:
            yield from (FileWrite(word[len(key) :]) for key in self.keys if word.startswith(key))


def _copied(name: str, operands: tuple[str, ...], into: str, known: tuple[str, str]) -> Iterator[FileWrite]:
    sources, target = (operands, into) if into else (operands[:-1], operands[-1])
    if name in {"rsync", "scp"} and ":" in target:
        return
    yield FileWrite(target)
    is_directory = (
        bool(into) or len(sources) > 1 or re.search(r"(?:^|/)\.{0,2}$", target) or target in known
    )
    for source in sources[:MAX_SOURCES]:
        if is_directory:
            yield FileWrite(f"{target}/{source.rstrip('/').rpartition('/')[2]}")
        if name == "mv" and source != target:
            yield FileWrite(source, is_removal=True)


def find_writes(command: SimpleCommand, home: str) -> Iterator[FileWrite]:
    for operator, target in command.redirects:
        if operator in _WRITING and not (operator == ">&" and (target.isdecimal() or target == "-")):
            yield FileWrite(target)
    for writer in _writers().get(command.name, ()):
        yield from writer.writes(command.words, command.directory, home)


@lru_cache(maxsize=1)
def _writers() -> Mapping[str, Sequence[_Writer]]:
    found: dict[str, list[_Writer]] = {}
    for writer in map(_Writer.model_validate, read_programs()["writer"]):
        for name in writer.programs:
            found.setdefault(name, []).append(writer)
    return found


@lru_cache(maxsize=1)
def _subcommand_options() -> Mapping[str, Sequence[str]]:
    """Options before a subcommand that take a value."""
    return {name: options for name, *options in map(str.split, read_programs()["subcommand_options"])}


# -- rules --


@dataclass(frozen=True, slots=True)
class CommandPrefix:
    """A program, the options it must have, and its first other words: `git push --force`, `npm pub*`."""

    text: str
    program: str
    words: tuple[str, ...]
    options: tuple[str, ...]

    @property
    def fault(self) -> str:
        """Why it can never match, or nothing."""
        program = self.program
        if not program:
            return "it names no program"
        if found := _NEVER.search(self.text):
            return (
                f"it contains {found[0]!r}; an entry is compared with one command at a time, without quotes"
            )
        if program in _KEYWORDS:
            return f"{program!r} is a shell keyword, not a program"
        if "=" in program:
            return "it starts with an assignment, not with a program"
        if program.startswith("-"):
            return "it starts with an option, not with a program"
        if "/" in program and not program.startswith(("/", "./", "../", "*")):
            return "give a program path as it is called, starting with / or ./"
        return ""

    def matches(self, command: SimpleCommand) -> bool:
        given = command.program if "/" in self.program else command.name
        if len(given) > MAX_WORD or set(given) <= _GLOB_CHARACTERS:
            return False
        # `/sbin/re?oot`: without a directory, a pattern is not looked for where programs are.
        is_pattern = "/" in command.program and bool(_GLOB_CHARACTERS & set(given))
        if not fnmatchcase(given, self.program) and not (is_pattern and fnmatchcase(self.program, given)):
            return False
        line = parse_arguments(command.words)
        if not all(option in command.words or line.has(option) for option in self.options):
            return False
        operands = _subcommand_operands(command) if self.words else []
        return len(operands) >= len(self.words) and all(
            fnmatchcase(operand[:MAX_WORD], word)
            for operand, word in zip(operands, self.words, strict=False)
        )


def parse_prefix(text: str) -> CommandPrefix:
    program, *rest = text.split() or [""]
    options = tuple(word for word in rest if word.startswith("-") and len(word) > 1)
    return CommandPrefix(text, program, tuple(word for word in rest if word not in options), options)


def _subcommand_operands(command: SimpleCommand) -> list[str]:
    """The words that are not options, without the values of options before a subcommand."""
    taking = _subcommand_options().get(command.name, ())
    found: list[str] = []
    is_value = False
    for word in command.words[1:]:
        if is_value:
            is_value = False
        elif word in taking:
            is_value = True
        elif not word.startswith("-") or word == "-":
            found.append(word)
    return found


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("give a list of texts")
    return value


def _parse_prefixes(value: object) -> tuple[CommandPrefix, ...]:
    prefixes = tuple(map(parse_prefix, _texts(value)))
    for prefix in prefixes:
        if prefix.fault:
            raise ValueError(f"the prefix {prefix.text!r} can never match: {prefix.fault}")
    return prefixes


def _compile_pattern(pattern: object) -> Any:
    if not isinstance(pattern, str):
        raise ValueError("give a text")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"the pattern {pattern!r} is wrong: {error.args[0].decode()}") from error


def _parse_paths(value: object, info: ValidationInfo) -> PathSet:
    known: KnownPaths = (info.context or {})["paths"]
    return PathSet(tuple(_path_patterns(_texts(value), known)))


def _check_directory(path: str) -> str:
    if not path.startswith("/") or set("*?[]{}") & set(path):
        raise ValueError(f"the directory {path!r} must start with / and have no patterns")
    return path


# What an example may be: longer ones would be read in a process of their own.
_Example: TypeAlias = Annotated[str, Field(max_length=MAX_HERE)]
_Option: TypeAlias = Annotated[str, Field(pattern=r"^\S+$")]


class CommandRule(BaseModel):
    """A `[[rule]]` of a file; `rules.toml` explains the fields. `place` is its file and line."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=80)
    decision: Decision
    reason: str = Field(min_length=1)
    instead: str = "Use a different approach, or tell the user that this command is not allowed."
    prefix: Annotated[tuple[CommandPrefix, ...], BeforeValidator(_parse_prefixes)] = ()
    unless: tuple[_Option, ...] = ()
    pattern: Annotated[Any, BeforeValidator(_compile_pattern)] = None
    unless_pattern: Annotated[Any, BeforeValidator(_compile_pattern)] = None
    operand: Annotated[PathSet | None, BeforeValidator(_parse_paths)] = None
    writes: Annotated[PathSet | None, BeforeValidator(_parse_paths)] = None
    operands: Literal["all", "sources", "last", "globbed", "here"] = "all"
    modes: tuple[ToolMode, ...] = ()
    agents: tuple[str, ...] = ()
    directories: tuple[Annotated[str, AfterValidator(_check_directory)], ...] = ()
    match: tuple[_Example, ...] = Field(default=(), min_length=1, validate_default=True)
    not_match: tuple[_Example, ...] = Field(default=(), min_length=1, validate_default=True)
    place: str = Field(default="", init=False)

    @model_validator(mode="after")
    def _is_about_something(self) -> Self:
        if not (self.prefix or self.pattern or self.operand or self.writes):
            raise ValueError("give it a prefix, a pattern, an operand or writes")
        if self.place:
            raise ValueError("place is not a field")
        if "operands" in self.model_fields_set and not (self.operand or self.writes):
            raise ValueError("operands says which words of an operand or of writes count; give one of them")
        return self

    @cached_property
    def _programs(self) -> frozenset[str] | None:
        """The names of its programs, if they are known: comparing these is fast."""
        names = frozenset(prefix.program.rpartition("/")[2] for prefix in self.prefix)
        return None if not names or any(_GLOB_CHARACTERS & set(name) for name in names) else names

    @property
    def label(self) -> str:
        return f"rule {self.name}, {self.place}" if self.place else f"rule {self.name}"

    def is_in_scope(self, situation: Situation) -> bool:
        work = _parts(situation.work)
        return (
            (not self.modes or situation.mode in self.modes)
            and (not self.agents or any(fnmatchcase(situation.agent, each) for each in self.agents))
            and (
                not self.directories
                or any(work[: len(each)] == each for each in map(_parts, self.directories))
            )
        )

    def matches(self, command: SimpleCommand, situation: Situation) -> bool:
        """Whether it is about this command. The scope is not considered."""
        name = command.name
        if self._programs is not None and name not in self._programs and not _GLOB_CHARACTERS & set(name):
            return False
        if self.prefix and not self._matches_prefix(command):
            return False
        if command.words[1:] in {("--help",), ("--version",)} and self.decision is not Decision.allow:
            return False
        line = parse_arguments(command.words)
        if any(option in command.words or line.has(option) for option in self.unless):
            return False
        if self.pattern is not None or self.unless_pattern is not None:
            text = _line(command)
            if self.pattern is not None and not self.pattern.search(text):
                return False
            if self.unless_pattern is not None and self.unless_pattern.search(text):
                return False
        globbed = self.operands == "globbed"
        if self.operand is not None and not any(
            self.operand.holds(word, situation, globbed=globbed) for word in self._operands(command, line)
        ):
            return False
        return self.writes is None or any(
            self.writes.holds(write.path, situation, globbed=globbed)
            for write in find_writes(command, situation.home)
        )

    def _matches_prefix(self, command: SimpleCommand) -> bool:
        # A function or script of the project is not the system's program of that name.
        is_other = self.operand is None and self.writes is None and (command.is_own or _is_local(command))
        return any(each.matches(command) for each in self.prefix if not is_other or "/" in each.program)

    def _operands(self, command: SimpleCommand, line: ParsedArguments) -> tuple[str, ...]:
        match self.operands:
            case "sources" if not option_value(command.words, ("-t", "--target-directory")):
                return line.operands[:-1]
            case "last":
                return line.operands[-1:]
            case "here":
                named = tuple(_subcommand_operands(command)[1:])
                return named or (option_value(command.words, ("-C",)) or ".",)
        return line.operands


def _is_local(command: SimpleCommand) -> bool:
    """Whether the program's path is outside the directories of the system's programs, or unknown."""
    if "/" not in command.program:
        return command.program.startswith(UNKNOWN)
    path = normalize_path(command.program, command.directory)
    return path is None or "/" + "/".join(path[:-1]) not in _PROGRAM_DIRECTORIES


def _line(command: SimpleCommand) -> str:
    """The words of a command on one line: a blank within a word is written `_`."""
    words = (command.name, *command.words[1:])
    return " ".join(re.sub(r"\s", "_", word[:MAX_WORD]) for word in words)


# -- loading --


@lru_cache(maxsize=1)
def builtin_rules() -> tuple[CommandRule, ...]:
    text = (files(__package__) / BUILTIN_FILE).read_text()
    return load_rules(text, BUILTIN_FILE, is_builtin=True)


@lru_cache(maxsize=8)
def load_rules(text: str, file: str, *, is_builtin: bool = False) -> tuple[CommandRule, ...]:
    """The rules of a file, which may use the paths of the built-in ones.

    Raises `ConfigurationError` with file and line, also for a wrong example.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Also numbers that are too long, and what is nested too deep.
        raise ConfigurationError(f"{file}: {error}") from error
    lines = [at for at, line in enumerate(text.splitlines(), 1) if _RULE_HEADING.match(line)]
    entries, paths = data.pop("rule", []), data.pop("paths", {})
    is_known = not data and isinstance(entries, list) and isinstance(paths, dict)
    if not is_known or len(lines) != len(entries):
        raise ConfigurationError(f"{file}: it may have [paths], and rules under a line [[rule]] each")
    known = _known_paths(paths, file, text, {} if is_builtin else _builtin_paths())
    rules: dict[str, CommandRule] = {}
    for line, entry in zip(lines, entries, strict=True):
        place = f"{file}:{line}"
        try:
            rule = CommandRule.model_validate(entry, context={"paths": known})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "rule"
            raise ConfigurationError(f"{place}: {where}: {first['msg']}") from error
        if rule.name in rules:
            raise ConfigurationError(f"{place}: there are two rules named {rule.name}")
        rules[rule.name] = rule = rule.model_copy(update={"place": place})
        _check_examples(rule, text, line, file)
    return tuple(rules.values())


@lru_cache(maxsize=1)
def _builtin_paths() -> KnownPaths:
    text = (files(__package__) / BUILTIN_FILE).read_text()
    return _known_paths(tomllib.loads(text)["paths"], BUILTIN_FILE, text, {})


def _known_paths(paths: Any, file: str, text: str, before: KnownPaths) -> KnownPaths:
    known = dict(before)
    for name, lines in paths.items():
        try:
            known[name] = tuple(_path_patterns(_texts(lines), known))
        except ValueError as error:
            here = re.compile(rf"""\s*(\[paths\.)?["']?{re.escape(name)}["']?\s*[]=]""")
            line = next((at for at, each in enumerate(text.splitlines(), 1) if here.match(each)), 1)
            raise ConfigurationError(f"{file}:{line}: [paths]: {name}: {error}") from error
    return known


def _check_examples(rule: CommandRule, text: str, line: int, file: str) -> None:
    for key, examples in (("match", rule.match), ("not_match", rule.not_match)):
        for example in examples:
            try:
                commands = read_commands(example, _EXAMPLE_HOME, _EXAMPLE_DIRECTORY)
            except UnreadableCommand as error:
                raise ConfigurationError(f"{file}:{line}: the example {example!r}: {error}") from error
            if _is_matched(rule, commands) is not (key == "match"):
                at = _line_of(key, example, text, line)
                expected = key.replace("_", " ")
                raise ConfigurationError(f"{file}:{at}: the rule {rule.name} should {expected} {example!r}")


def _is_matched(rule: CommandRule, commands: Sequence[SimpleCommand]) -> bool:
    return any(
        rule.matches(each, Situation(_EXAMPLE_HOME, _EXAMPLE_DIRECTORY, each.directory))
        for each in commands
    )


def _line_of(key: str, example: str, text: str, line: int) -> int:
    """The line of an example, or that of its rule if it is written in an unusual way."""
    escaped = example.replace("\\", "\\\\").replace('"', '\\"')
    is_key = False
    for at, each in enumerate(text.splitlines()[line:], line + 1):
        is_key = is_key or re.match(rf"\s*{key}\s*=", each) is not None
        if is_key and (f'"{escaped}"' in each or f"'{example}'" in each):
            return at
    return line
