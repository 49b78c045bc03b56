"""What a program prints, for the few programs whose output is plain from their arguments.

It sees through `$(printf '\\162\\155')` and `echo … | base64 -d | sh`; everything else stays unknown.
"""

import base64
import binascii
import re
from collections.abc import Callable
from itertools import takewhile

from interlock.sandbox.shell_values import is_known
from interlock.sandbox.shell_words import BELOW, PATTERN, UNKNOWN, decoded

_FORMAT = re.compile(r"%([sbdiqc%])")
_CHOSEN = frozenset(
    {"-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-mindepth", "-printf", "-exec", "-delete"}
)
_CHOOSES_NOTHING = frozenset(
    {"-type", "-xtype", "-print", "-print0", "-xdev", "-mount", "-depth", "-follow", "-mindepth"}
)
_LOOKUPS = {"which": (), "command": ("-v",), "type": ("-P", "-p")}


def printed_by(words: tuple[str, ...], stdin: str | None) -> str | None:
    """The output of one program with these arguments, or None where it is not known."""
    if not words or not is_known(words[0]) or any(UNKNOWN in word for word in words):
        return None
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name == "echo":
        return _echo(arguments)
    if name == "printf":
        return _printf(arguments)
    if name == "find":
        return _find(arguments)
    if name == "ls":
        return _ls(arguments)
    if name in _LOOKUPS:
        found = [word for word in arguments if word not in _LOOKUPS[name]]
        return found[0] if len(found) == 1 and not found[0].startswith("-") else None
    return _filtered(name, arguments, stdin) if stdin is not None and UNKNOWN not in stdin else None


def _find(arguments: tuple[str, ...]) -> str | None:
    """The folders it starts from, and all that is below them, where no test chooses among that."""
    starts = list(takewhile(lambda word: word[:1] not in {"-", "(", "!"}, arguments))
    rest = arguments[len(starts) :]
    printed: list[str] = []
    for start in starts or ["."]:
        if not _CHOSEN & set(rest):
            printed.append(start)
        if all(word in _CHOOSES_NOTHING or not word.startswith("-") for word in rest):
            printed.append(f"{start}/{BELOW}")
    return "".join(f"{name}\n" for name in printed) or None


def _ls(arguments: tuple[str, ...]) -> str | None:
    """All names in a folder, or those that it is given."""
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
    return (decoded(re.sub(r"\\0([0-7]{1,3})", r"\\\1", text)) if escapes else text) + end


def _printf(arguments: tuple[str, ...]) -> str | None:
    if not arguments or arguments[0].startswith("-"):
        return None
    form, rest = arguments[0], list(arguments[1:])
    if len(_FORMAT.findall(form)) != form.count("%") - form.count("%%"):
        return None
    found: list[str] = []
    while True:
        before = len(rest)
        found.append(_FORMAT.sub(lambda sign: _filled(sign[1], rest), decoded(form)))
        if not rest or len(rest) == before:
            return "".join(found)


def _filled(sign: str, rest: list[str]) -> str:
    if sign == "%":
        return "%"
    text = rest.pop(0) if rest else ""
    return decoded(text) if sign == "b" else text


def _filtered(name: str, arguments: tuple[str, ...], stdin: str) -> str | None:
    if name == "tee" or (name == "cat" and set(arguments) <= {"-", "-u"}):
        return stdin
    if name in {"sort", "uniq", "tac"} and all(word.startswith("-") for word in arguments):
        return stdin
    if not is_known(stdin):
        return None
    if name == "rev" and not arguments:
        return "".join(f"{line[::-1]}\n" for line in stdin.splitlines())
    if name == "base64" and set(arguments) & {"-d", "-D", "--decode", "-di"}:
        return _text(base64.b64decode, stdin)
    if name == "xxd" and "".join(sorted("".join(arguments).replace("-", ""))) == "pr":
        return _text(bytes.fromhex, stdin)
    return None


def _text(decode: Callable[[str], bytes], coded: str) -> str | None:
    try:
        return decode(coded).decode("utf-8", "replace").replace("\0", "")
    except (ValueError, binascii.Error):
        return None
