"""The output of filters for a known text: `base64 -d`, `tr`, `rev`, `sort`, `grep`."""

import base64
import binascii
import re
from collections.abc import Callable

from interlock.commands.expansion import is_known, unmarked
from interlock.commands.word_parser import BELOW, SOME, decode_ansi_escapes

_CHOOSING = frozenset({"grep", "egrep", "fgrep", "head", "tail"})
_CLASSES = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:space:]": " \t\n\r", "[:digit:]": "0-9"}


def apply_filter(name: str, arguments: tuple[str, ...], stdin: str) -> str | None:
    """The output of a filter for a text, or None if unknown."""
    if name == "tee" or (name == "cat" and set(arguments) <= {"-", "-u"}):
        return stdin
    if name in {"sort", "uniq", "tac"} and all(word.startswith("-") for word in arguments):
        return stdin
    if not is_known(stdin):
        return None
    if name in _CHOOSING:
        return _chosen(stdin)
    if name == "tr":
        return _translated(arguments, stdin)
    if name == "rev" and not arguments:
        return "".join(f"{line[::-1]}\n" for line in stdin.splitlines())
    decode = _decoder(name, set(arguments))
    return _text(decode, stdin) if decode else None


def _decoder(name: str, arguments: set[str]) -> Callable[[str], bytes] | None:
    if name == "base64" and arguments & {"-d", "-D", "--decode", "-di"}:
        return base64.b64decode
    if name == "openssl" and "-d" in arguments and arguments & {"base64", "-base64", "-a"}:
        return base64.b64decode
    if name == "xxd" and "".join(sorted("".join(arguments).replace("-", ""))) == "pr":
        return bytes.fromhex
    return None


def _chosen(text: str) -> str:
    """Some of the lines. Where a search printed them, they are some of what it found."""
    found = [line for line in text.splitlines() if BELOW in line or SOME in line] or text.splitlines()
    return "".join(f"{line.replace(BELOW, SOME)}\n" for line in found)


def _translated(arguments: tuple[str, ...], text: str) -> str | None:
    """`tr` from one set of characters to another, or with `-d` and one set."""
    match arguments:
        case ("-d", removed):
            gone = set(_characters(unmarked(removed)))
            return "".join(sign for sign in text if sign not in gone)
        case (old, new) if not old.startswith("-"):
            before, after = _characters(unmarked(old)), _characters(unmarked(new))
            if not after:
                return None
            after += after[-1] * (len(before) - len(after))
            return text.translate({ord(sign): after[at] for at, sign in enumerate(before)})
    return None


def _characters(text: str) -> str:
    for name, signs in _CLASSES.items():
        text = text.replace(name, signs)
    return re.sub(
        "(.)-(.)",
        lambda ends: "".join(map(chr, range(ord(ends[1]), min(ord(ends[2]), ord(ends[1]) + 127) + 1))),
        decode_ansi_escapes(text),
    )


def _text(decode: Callable[[str], bytes], coded: str) -> str | None:
    try:
        return decode(coded).decode("utf-8", "replace").replace("\0", "")
    except (ValueError, binascii.Error):
        return None
