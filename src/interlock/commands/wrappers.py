"""Programs that run another program: what they would run.

Each yields `WrappedProgram` (a program with its arguments), `WrappedScript` (text for a shell), or nothing.
"""

import re
import shlex
from collections.abc import Iterator

from interlock.commands.expansion import unmarked
from interlock.commands.option_commands import commands_in_options
from interlock.commands.word_parser import BELOW, UNKNOWN
from interlock.commands.wrapper_table import (
    DAEMON,
    SUBCOMMANDS,
    WRAPPERS,
    Wrapped,
    WrappedProgram,
    WrappedScript,
    WrapperSpec,
)

MAX_ARGUMENTS = 200
MAX_GLUED = 200
MAX_QUOTED = 4096

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "yash", "fish", "csh", "tcsh"}
)

_SHELL_WORDS = {(name,) for name in SHELLS}
_STDIN = {("-",), ("/dev/stdin",), ("/dev/fd/0",), ("/proc/self/fd/0",)}
_BY_LINE = re.compile("-[a-zA-Z]*0|--null$|-[a-zA-Z]*d|--delimiter")
_QUOTE = re.compile(r"[\"'\\]")
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_NAMES = frozenset(
    {"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-user", "-mtime", "-mmin"}
)
_FD_ACTIONS = frozenset({"-x", "--exec", "-X", "--exec-batch"})
_FD_VALUES = "detEScojg"
_FD_LONG_VALUES = ("max-depth", "min-depth", "exact-depth", "type", "extension", "exclude", "size", "owner")
_FD_CHOOSING = frozenset({"-e", "--extension", "-S", "--size", "--changed-within", "--changed-before"})
_FINDS_ALL = frozenset({"", ".", "*", "^", ".*"})


def wrapped_commands(words: tuple[str, ...], stdin: str | None) -> Iterator[Wrapped]:
    """The commands that these words run. `words[0]` is the program's name without its directory."""
    name = words[0]
    yield from commands_in_options(words)
    if name in SHELLS:
        yield from _shell(words, stdin)
    elif name in {"source", "."} and stdin is not None and words[1:2] in _STDIN:
        yield WrappedScript(unmarked(stdin))
    elif name in _BY_ITSELF:
        yield from _BY_ITSELF[name](words)
    elif name in {"at", "batch"} and stdin is not None:
        yield WrappedScript(unmarked(stdin))
    elif name in {"script", "su", "runuser"} and (code := _option(words, "c", "command")) is not None:
        yield WrappedScript(code)
    elif name in WRAPPERS:
        yield from _wrapped(words, stdin)
    elif inner := _by_subcommand(words):
        yield WrappedScript(_text(inner)) if name == "tmux" else WrappedProgram(inner)


def _by_subcommand(words: tuple[str, ...]) -> tuple[str, ...]:
    """`uv run program`, with options before and after the subcommand."""
    for at, word in enumerate(words[1:], 1):
        if (words[0], word) in SUBCOMMANDS:
            return _without_dashes(SUBCOMMANDS[words[0], word].inner(words[at:]))
    return ()


def _wrapped(words: tuple[str, ...], stdin: str | None) -> Iterator[Wrapped]:
    name = words[0]
    if name == "setarch" and words[1:2] and not words[1].startswith("-"):
        # Its options come after the architecture.
        words = (name, *words[2:])
    rest = WRAPPERS[name].inner(words)
    before = words[: len(words) - len(rest)]
    if name == "env" and (found := _found(before, "S", "split-string")) is not None:
        # What comes after that text is added to its words.
        text, following = found
        yield WrappedScript(f"{text} {shlex.join(map(unmarked, words[following:]))}")
        return
    if name == "runcon" and len(before) == 1:
        # Without an option the first word is the context.
        rest = rest[1:]
    if not rest:
        return
    if _takes_code(name, before):
        yield WrappedScript(_text(rest))
    elif name == "flock" and rest[0] in {"-c", "--command"}:
        yield WrappedScript(_text(rest[1:2]))
    elif name == "parallel":
        yield from _parallel(rest, stdin)
    elif name == "xargs":
        yield from _xargs(before, rest, stdin)
    else:
        option = WRAPPERS[name].folder
        yield WrappedProgram(_without_dashes(rest), folder=_option(before, *option) if option else None)


def _takes_code(name: str, before: tuple[str, ...]) -> bool:
    """Whether the rest is text for a shell, and not a program with its arguments."""
    return (
        name == "watch"
        or (name == "firejail" and "-c" in before)
        or (name == "entr" and any("s" in word for word in before[1:]))
    )


def _option(words: tuple[str, ...], letter: str, long: str) -> str | None:
    found = _found(words, letter, long)
    return found[0] if found else None


def _found(words: tuple[str, ...], letter: str, long: str) -> tuple[str, int] | None:
    """The value of an option, in any of its spellings, and the index of what follows it."""
    for index, word in enumerate(words[1:], 1):
        name, has_value, value = word.partition("=")
        if len(name) > len("--x") and f"--{long}".startswith(name):
            is_here = bool(has_value)
        elif re.match("-[A-Za-z]", word) and letter in word:
            value = word.partition(letter)[2]
            is_here = bool(value)
        else:
            continue
        if is_here:
            return unmarked(value), index + 1
        return (unmarked(words[index + 1]), index + 2) if index + 1 < len(words) else None
    return None


def _text(words: tuple[str, ...]) -> str:
    return unmarked(" ".join(words))


def _without_dashes(words: tuple[str, ...]) -> tuple[str, ...]:
    return words[1:] if words[:1] == ("--",) else words


def _eval(words: tuple[str, ...]) -> Iterator[Wrapped]:
    yield WrappedScript(_text(_without_dashes(words[1:])))


def _trap(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """`trap 'command' EXIT`. One word alone would be the signal."""
    action, *signals = _without_dashes(words[1:]) or ("",)
    if signals:
        yield WrappedScript(_text((action,)))


def _group(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """`sg group command`, with `-c` before the command or without."""
    rest = WrapperSpec(skipped=1).inner(words)
    if rest:
        yield WrappedScript(_text(rest[1:] if rest[0] == "-c" else rest))


def _daemon(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """`start-stop-daemon --start --exec program -- arguments`, with its options in any order."""
    cut = words.index("--") if "--" in words else len(words)
    arguments = list(words[cut + 1 :])
    if not any(re.match("--start$|-[A-Za-z]*S", word) for word in words[:cut]):
        return
    # It would be taken for the beginning of `--startas`.
    before = tuple(word for word in words[:cut] if word != "--start")
    index = 1
    while index < len(before):
        if not before[index].startswith("-"):
            arguments.append(before[index])
        index += 2 if DAEMON.takes_next(before[index]) else 1
    for program in (_option(before, "x", "exec"), _option(before, "a", "startas")):
        if program:
            yield WrappedProgram((program, *arguments))


def _shell(words: tuple[str, ...], stdin: str | None) -> Iterator[Wrapped]:
    is_code, index = False, 1
    while index < len(words) and words[index][:1] in {"-", "+"} and words[index] != "-":
        word = words[index]
        index += 1
        if word == "--":
            break
        if word.startswith("--"):
            index += word in {"--rcfile", "--init-file"}
        else:
            is_code = is_code or "c" in word[1:]
            index += word[-1] in "oO"
    rest = words[index:]
    if is_code and rest:
        yield WrappedScript(unmarked(rest[0]), rest[2:], "".join(rest[1:2]) or None)
    elif not is_code and stdin is not None and (not rest or rest[:1] in _STDIN):
        yield WrappedScript(unmarked(stdin))
    elif not is_code and stdin is not None and any(word[:2] == "-s" for word in words):
        yield WrappedScript(unmarked(stdin), rest)


def _find(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """`find X -delete` removes X recursively, and `{}` means everything in X."""
    index = 1
    while index < len(words) and re.match(r"-[HLP]$|-[DO]", words[index]):
        index += 1
    starts: list[str] = []
    while index < len(words) and not re.match(r"[-(!),]", words[index]):
        starts.append(words[index])
        index += 1
    starts = starts[:MAX_ARGUMENTS] or ["."]
    if any(word in _FIND_NAMES and words[at + 1 : at + 2] != ("*",) for at, word in enumerate(words)):
        # Only some files below: not the directory itself.
        starts = [f"{start}/{UNKNOWN}" if start != "/" else start for start in starts]
    while index < len(words):
        if words[index] == "-delete":
            yield WrappedProgram(("rm", "--", *starts), is_recursive=True)
        elif words[index] in _FIND_ACTIONS:
            end = index + 1
            while end < len(words) and words[end] not in {";", "+"}:
                end += 1
            template = words[index + 1 : end]
            given = [f"{start}/{BELOW}" for start in starts] if template[:1] in _SHELL_WORDS else starts
            yield WrappedProgram(_filled(template, "{}", given), is_recursive=True)
            index = end
        index += 1


def _fd(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """`fd pattern directory… -x program`, and `-X`, which takes all the rest.

    A bare `.` finds everything.
    """
    cut = next((at for at, word in enumerate(words) if word in _FD_ACTIONS), len(words))
    template = tuple(word for word in words[cut + 1 :] if word != ";")
    pattern, *starts = WrapperSpec(_FD_VALUES, _FD_LONG_VALUES).operands(words[:cut]) or [""]
    if not template:
        return
    chooses = unmarked(pattern) not in _FINDS_ALL or any(word in _FD_CHOOSING for word in words[:cut])
    starts = [f"{start}/{UNKNOWN}" if chooses and start != "/" else start for start in starts] or ["."]
    if not any("{}" in word for word in template):
        template = (*template, "{}")
    yield WrappedProgram(_filled(template, "{}", starts[:MAX_ARGUMENTS]), is_recursive=True)


def _filled(template: tuple[str, ...], mark: str, values: list[str]) -> tuple[str, ...]:
    found: list[str] = []
    single = values[0] if len(values) == 1 and len(values[0]) <= MAX_GLUED else UNKNOWN
    for word in template[:MAX_ARGUMENTS]:
        if word == mark:
            found.extend(values[: MAX_ARGUMENTS - len(found)])
        else:
            found.append(word.replace(mark, single))
    return tuple(found)


def _xargs(before: tuple[str, ...], rest: tuple[str, ...], stdin: str | None) -> Iterator[Wrapped]:
    mark = "{}" if {"-i", "--replace"} & set(before) else _option(before, "I", "replace")
    given = _records(stdin or UNKNOWN, by_line=bool(mark) or any(map(_BY_LINE.match, before)))
    if mark:
        yield WrappedProgram(_filled(rest, mark, given))
    else:
        yield WrappedProgram((*rest, *given))


def _records(text: str, *, by_line: bool) -> list[str]:
    """What `xargs` makes of its input: whole lines, or words in which quotes hold."""
    if by_line:
        return [line for line in text.splitlines() if line][:MAX_ARGUMENTS]
    if len(text) <= MAX_QUOTED and _QUOTE.search(text):
        try:
            return shlex.split(text)[:MAX_ARGUMENTS]
        except ValueError:
            pass
    return text.split()[:MAX_ARGUMENTS]


def _parallel(rest: tuple[str, ...], stdin: str | None) -> Iterator[Wrapped]:
    cut = next((at for at, word in enumerate(rest) if word in {":::", ":::+", "::::"}), len(rest))
    template = rest[:cut]
    given = [word for word in rest[cut + 1 :] if not word.startswith(":::")]
    values = (given or (stdin or UNKNOWN).split())[:MAX_ARGUMENTS]
    if not any("{}" in word for word in template):
        template = (*template, "{}")
    joined = " ".join(values) if sum("{}" in word for word in template) <= MAX_GLUED else UNKNOWN
    yield WrappedScript(_text(tuple(word.replace("{}", joined, 1) for word in template)))


def _capabilities(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """`capsh options -- arguments` gives the arguments to bash."""
    if "--" in words:
        yield WrappedProgram(("bash", *words[words.index("--") + 1 :]))


_BY_ITSELF = {
    "find": _find,
    "fd": _fd,
    "fdfind": _fd,
    "eval": _eval,
    "trap": _trap,
    "sg": _group,
    "start-stop-daemon": _daemon,
    "capsh": _capabilities,
}
