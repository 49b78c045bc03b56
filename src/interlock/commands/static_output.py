"""What a program prints, for the few programs whose output is plain from their arguments.

It sees through `$(printf '\\162\\155')` and, with `filter_output.py`, through `echo … | base64 -d | sh`;
everything else stays unknown.
"""

import re
from itertools import takewhile

from interlock.commands.expansion import is_known
from interlock.commands.filter_output import apply_filter
from interlock.commands.word_parser import BELOW, PATTERN, SOME, UNKNOWN, decode_ansi_escapes

_FORMAT = re.compile(r"%([sbdiqc%])")
_CHOSEN = frozenset(
    {"-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-mindepth", "-printf", "-exec", "-delete"}
)
_PRINTS_OTHERWISE = frozenset(
    {"-printf", "-fprint", "-fprint0", "-fprintf", "-ls", "-fls", "-delete"}
    | {"-exec", "-execdir", "-ok", "-okdir"}
)
_CHOOSES_NOTHING = frozenset(
    {"-type", "-xtype", "-print", "-print0", "-xdev", "-mount", "-depth", "-follow", "-mindepth"}
)
_ALL_PROCESSES = re.compile(r"(?:^| )(?:-?[A-Za-z]*[eA]|a?x)")
_ONLY_NUMBERS = re.compile(r"(?:-[A-Za-z]*o|^o| o|--format[= ]) ?pid=?$")
_LOOKUPS = {"which": (), "command": ("-v",), "type": ("-P", "-p")}
_SILENT = frozenset({"cd", "true", ":", "set", "shopt", "export", "unset"})
_NAMING = frozenset({"dirname", "basename", "realpath", "readlink"})
_NULL = re.compile(r"\\(?:0{1,3}(?![0-7])|x00?(?![0-9A-Fa-f]))")


def static_output(words: tuple[str, ...], stdin: str | None) -> str | None:
    """The output of one program with these arguments, or None if unknown."""
    if not words or not is_known(words[0]) or any(UNKNOWN in word for word in words):
        return None
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name in _SILENT:
        return ""
    if name in _PRINTING:
        return _PRINTING[name](arguments)
    if name in _NAMING:
        return _named(name, arguments)
    if name == "grep" and (found_in := _grep(arguments)):
        return found_in
    if name in _LOOKUPS:
        found = [word for word in arguments if word not in _LOOKUPS[name]]
        return found[0] if len(found) == 1 and not found[0].startswith("-") else None
    return apply_filter(name, arguments, stdin) if stdin is not None and UNKNOWN not in stdin else None


def _find(arguments: tuple[str, ...]) -> str | None:
    """The start directories and everything below them, or `SOME` of it if a test selects."""
    starts = list(takewhile(lambda word: word[:1] not in {"-", "(", "!"}, arguments))
    rest = arguments[len(starts) :]
    if _PRINTS_OTHERWISE & set(rest):
        return None
    chooses = not all(word in _CHOOSES_NOTHING or not word.startswith("-") for word in rest)
    printed: list[str] = []
    for start in starts or ["."]:
        if not _CHOSEN & set(rest):
            printed.append(start)
        printed.append(f"{start}/{SOME if chooses else BELOW}")
    return "".join(f"{name}\n" for name in printed)


def _named(name: str, arguments: tuple[str, ...]) -> str | None:
    """Paths derived from paths. Symlinks are not followed."""
    operands = [word for word in arguments if not word.startswith("-")]
    if name == "readlink" and not any(re.match("-[a-z]*[fem]|--canonicalize", word) for word in arguments):
        return None
    if not all(operands):
        return None
    if name == "basename":
        return f"{operands[0].rstrip('/').rpartition('/')[2]}\n" if len(operands) == 1 else None
    if name == "dirname":
        operands = [_parent(word) for word in operands]
    return "".join(f"{word}\n" for word in operands) or None


def _parent(path: str) -> str:
    above, slash, _ = path.rstrip("/").rpartition("/")
    return above.rstrip("/") or slash or "."


def _ls(arguments: tuple[str, ...]) -> str | None:
    """All names in a directory, or the names it is given."""
    operands = [word for word in arguments if not word.startswith("-")]
    is_given = any(PATTERN in word for word in operands) or any(
        re.match("-[A-Za-z]*d|--directory$", word) for word in arguments
    )
    if is_given:
        return "".join(f"{name}\n" for name in operands or ["."])
    return f"{PATTERN}*\n" if len(operands) < 2 else None


def _echo(arguments: tuple[str, ...]) -> str:
    end, escapes = "\n", False
    words = list(arguments)
    while words and re.fullmatch("-[neE]+", words[0]):
        option = words.pop(0)
        end = "" if "n" in option else end
        escapes = option.rfind("e") > option.rfind("E") if {"e", "E"} & set(option) else escapes
    text = " ".join(words)
    return (decode_ansi_escapes(re.sub(r"\\0([0-7]{1,3})", r"\\\1", text)) if escapes else text) + end


def _printf(arguments: tuple[str, ...]) -> str | None:
    if not arguments or arguments[0].startswith("-"):
        return None
    form, rest = arguments[0], list(arguments[1:])
    if len(_FORMAT.findall(form)) != form.count("%") - form.count("%%"):
        return None
    found: list[str] = []
    while True:
        before = len(rest)
        # A null character separates names, as a newline does.
        found.append(
            _FORMAT.sub(lambda sign: _filled(sign[1], rest), decode_ansi_escapes(_NULL.sub("\n", form)))
        )
        if not rest or len(rest) == before:
            return "".join(found)


def _filled(sign: str, rest: list[str]) -> str:
    if sign == "%":
        return "%"
    text = rest.pop(0) if rest else ""
    return decode_ansi_escapes(text) if sign == "b" else text


def _grep(arguments: tuple[str, ...]) -> str | None:
    """The names of some files, if it prints names and searches directories."""
    letters = "".join(word for word in arguments if re.fullmatch("-[A-Za-z]+", word))
    if not {"l", "L"} & set(letters) or not {"r", "R"} & set(letters):
        return None
    operands = [word for word in arguments if not word.startswith("-")]
    return "".join(f"{folder}/{SOME}\n" for folder in operands[1:] or ["."])


def _rg(arguments: tuple[str, ...]) -> str | None:
    """File names, if it prints names: of all files, or of those that match."""
    operands = [word for word in arguments if not word.startswith("-")]
    if "--files" in arguments:
        chooses = any(re.match("-[gt]|--(?:i?glob|type)", word) for word in arguments)
        return "".join(f"{folder}/{SOME if chooses else BELOW}\n" for folder in operands or ["."])
    if {"-l", "--files-with-matches", "--files-without-match"} & set(arguments):
        return "".join(f"{folder}/{SOME}\n" for folder in operands[1:] or ["."])
    return None


def _ps(arguments: tuple[str, ...]) -> str | None:
    """The number of the first process, where it prints the numbers of all and nothing else."""
    text = " ".join(arguments)
    return "1\n" if _ALL_PROCESSES.search(text) and _ONLY_NUMBERS.search(text) else None


def _pgrep(arguments: tuple[str, ...]) -> str | None:
    return "1\n" if len(arguments) == 1 and arguments[0] in {"", ".", ".*", "^"} else None


def _pidof(arguments: tuple[str, ...]) -> str | None:
    return "1\n" if {"systemd", "init"} & set(arguments) else None


_PRINTING = {
    "echo": _echo,
    "printf": _printf,
    "find": _find,
    "ls": _ls,
    "rg": _rg,
    "ps": _ps,
    "pgrep": _pgrep,
    "pidof": _pidof,
}
