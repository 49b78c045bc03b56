"""Programs that run another program: what they would run.

Each gives `Words` (a program with its arguments) or `Code` (text for a shell), or nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from interlock.sandbox.shell_values import unmarked
from interlock.sandbox.shell_words import UNKNOWN

MAX_ARGUMENTS = 200
MAX_GLUED = 200

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "yash", "fish"})

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_STDIN = {("-",), ("/dev/stdin",), ("/dev/fd/0",), ("/proc/self/fd/0",)}
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_NAMES = frozenset(
    {"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-user", "-mtime", "-mmin"}
)


@dataclass(frozen=True, slots=True)
class Words:
    words: tuple[str, ...]
    is_recursive: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    arguments: tuple[str, ...] = ()


Inner: TypeAlias = Words | Code


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to find the program in the arguments: options with a value, other words before it."""

    values: str = ""
    long_values: tuple[str, ...] = ()
    skipped: int = 0
    assignments: bool = False
    only_looks: str = ""


WRAPPERS = {
    "env": Wrapper("uC", ("unset", "chdir"), assignments=True),
    "sudo": Wrapper(
        "ugpChrtTDR", ("user", "group", "prompt", "host", "chdir", "role", "type"), assignments=True
    ),
    "doas": Wrapper("uC", assignments=True),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "command": Wrapper(only_looks="vV"),
    "builtin": Wrapper(),
    "exec": Wrapper("a"),
    "time": Wrapper("of", ("output", "format")),
    "nice": Wrapper("n", ("adjustment",)),
    "ionice": Wrapper("cnpPu", ("class", "classdata", "pid")),
    "chrt": Wrapper("pTPD", skipped=1),
    "taskset": Wrapper("p", skipped=1),
    "timeout": Wrapper("sk", ("signal", "kill-after"), skipped=1),
    "stdbuf": Wrapper("ioe", ("input", "output", "error")),
    "unbuffer": Wrapper(),
    "setarch": Wrapper(skipped=1),
    "faketime": Wrapper("f", skipped=1),
    "strace": Wrapper("aeIoOpPsSuUEX", ("output", "trace")),
    "ltrace": Wrapper("aeloxnpsuAF"),
    "flock": Wrapper("wE", ("timeout", "conflict-exit-code"), skipped=1),
    "chroot": Wrapper("", ("userspec", "groups"), skipped=1),
    "unshare": Wrapper("SGRw", ("setuid", "setgid", "root", "wd")),
    "nsenter": Wrapper("tSGrw", ("target",)),
    "setpriv": Wrapper("", ("reuid", "regid", "groups", "inh-caps", "bounding-set")),
    "systemd-run": Wrapper("tpMuHE", ("unit", "property", "uid", "gid", "slice")),
    "rlwrap": Wrapper("abcCDfHilmMOpPqsStz"),
    "dbus-run-session": Wrapper(),
    "xvfb-run": Wrapper("efnps", ("server-args", "server-num", "error-file")),
    "catchsegv": Wrapper(),
    "caffeinate": Wrapper("tw"),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "pkexec": Wrapper("", ("user",)),
    "xargs": Wrapper("aEIiLlnPsdJR", ("arg-file", "max-args", "max-procs", "replace", "delimiter")),
    "parallel": Wrapper("jNnILaS", ("jobs", "max-args", "arg-file", "colsep", "timeout", "joblog")),
    "watch": Wrapper("nqs", ("interval", "equexit")),
}

# The letters of xargs that take a value only when it is glued to them.
_GLUED = {"xargs": "iel"}


def inner_of(words: tuple[str, ...], stdin: str | None) -> Iterator[Inner]:
    """What these words run. `words[0]` is the program's name without its folder."""
    name = words[0]
    if name in SHELLS:
        yield from _shell(words, stdin)
    elif name == "find":
        yield from _find(words)
    elif name == "eval":
        yield Code(_text(words[1:]))
    elif name in {"source", "."} and stdin is not None and words[1:2] in _STDIN:
        yield Code(stdin)
    elif name == "trap" and len(words) > 2:
        yield Code(_text(words[1:2]))
    elif (
        name in {"script", "su", "flock", "runuser"}
        and (code := _option(words, "c", "command")) is not None
    ):
        yield Code(code)
    elif name in WRAPPERS:
        yield from _wrapped(words, stdin)


def _wrapped(words: tuple[str, ...], stdin: str | None) -> Iterator[Inner]:
    name = words[0]
    if name == "env" and (code := _option(words, "S", "split-string")) is not None:
        yield Code(code)
        return
    rest = after_options(words, WRAPPERS[name])
    if not rest:
        return
    if name == "watch":
        yield Code(_text(rest))
    elif name == "parallel":
        yield from _parallel(rest, stdin)
    elif name == "xargs":
        yield from _xargs(words, rest, stdin)
    else:
        yield Words(rest)


def after_options(words: tuple[str, ...], wrapper: Wrapper) -> tuple[str, ...]:
    """The words from the program on that is to be run."""
    index = 1
    while index < len(words):
        word = words[index]
        if word == "--":
            index += 1
            break
        if word.startswith("--"):
            index += 2 if word[2:] in wrapper.long_values else 1
        elif word.startswith("-") and len(word) > 1:
            if set(word[1:2]) & set(wrapper.only_looks):
                return ()
            index += 2 if _takes_next(word[1:], wrapper.values, _GLUED.get(words[0], "")) else 1
        elif word == "-" or (wrapper.assignments and _ASSIGNMENT.match(word)):
            index += 1
        else:
            break
    while wrapper.assignments and index < len(words) and _ASSIGNMENT.match(words[index]):
        index += 1
    return words[index + wrapper.skipped :]


def _takes_next(letters: str, values: str, glued: str) -> bool:
    for index, letter in enumerate(letters):
        if letter in glued:
            return False
        if letter in values:
            return index == len(letters) - 1
    return False


def _option(words: tuple[str, ...], letter: str, long: str) -> str | None:
    """The value of an option, in any of its spellings."""
    for index, word in enumerate(words[1:], 1):
        following = words[index + 1] if index + 1 < len(words) else None
        if word == f"--{long}":
            return following and unmarked(following)
        if word.startswith(f"--{long}="):
            return unmarked(word.partition("=")[2])
        if re.match("-[A-Za-z]", word) and letter in word:
            glued = word.partition(letter)[2]
            return unmarked(glued) if glued else following and unmarked(following)
    return None


def _text(words: tuple[str, ...]) -> str:
    return unmarked(" ".join(words))


def _shell(words: tuple[str, ...], stdin: str | None) -> Iterator[Inner]:
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
        yield Code(unmarked(rest[0]), rest[2:])
    elif not is_code and stdin is not None and (not rest or rest[:1] in _STDIN):
        yield Code(stdin)
    elif not is_code and stdin is not None and any(word[:2] == "-s" for word in words):
        yield Code(stdin, rest)


def _find(words: tuple[str, ...]) -> Iterator[Inner]:
    """`find X -delete` removes X recursively, and `{}` stands for everything in X."""
    index = 1
    while index < len(words) and re.match(r"-[HLP]$|-[DO]", words[index]):
        index += 1
    starts: list[str] = []
    while index < len(words) and not re.match(r"[-(!),]", words[index]):
        starts.append(words[index])
        index += 1
    starts = starts[:MAX_ARGUMENTS] or ["."]
    if any(word in _FIND_NAMES and words[at + 1 : at + 2] != ("*",) for at, word in enumerate(words)):
        # Only some of what is below: what it takes is not the folder itself.
        starts = [f"{start}/{UNKNOWN}" if start != "/" else start for start in starts]
    while index < len(words):
        if words[index] == "-delete":
            yield Words(("rm", "--", *starts), is_recursive=True)
        elif words[index] in _FIND_ACTIONS:
            end = index + 1
            while end < len(words) and words[end] not in {";", "+"}:
                end += 1
            template = words[index + 1 : end]
            yield Words(_filled(template, "{}", starts), is_recursive=True)
            index = end
        index += 1


def _filled(template: tuple[str, ...], mark: str, values: list[str]) -> tuple[str, ...]:
    found: list[str] = []
    single = values[0] if len(values) == 1 and len(values[0]) <= MAX_GLUED else UNKNOWN
    for word in template[:MAX_ARGUMENTS]:
        if word == mark:
            found.extend(values[: MAX_ARGUMENTS - len(found)])
        else:
            found.append(word.replace(mark, single))
    return tuple(found)


def _xargs(words: tuple[str, ...], rest: tuple[str, ...], stdin: str | None) -> Iterator[Inner]:
    given = (stdin or UNKNOWN).split()[:MAX_ARGUMENTS]
    mark = _option(words[: len(words) - len(rest)], "I", "replace")
    if mark:
        yield Words(_filled(rest, mark, given))
    else:
        yield Words((*rest, *given))


def _parallel(rest: tuple[str, ...], stdin: str | None) -> Iterator[Inner]:
    cut = next((at for at, word in enumerate(rest) if word in {":::", ":::+", "::::"}), len(rest))
    template = rest[:cut]
    given = [word for word in rest[cut + 1 :] if not word.startswith(":::")]
    values = (given or (stdin or UNKNOWN).split())[:MAX_ARGUMENTS]
    if not any("{}" in word for word in template):
        template = (*template, "{}")
    joined = " ".join(values) if sum("{}" in word for word in template) <= MAX_GLUED else UNKNOWN
    yield Code(_text(tuple(word.replace("{}", joined, 1) for word in template)))
