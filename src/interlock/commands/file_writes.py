"""Which files a command would visibly write, move or remove."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from interlock.commands.extraction import ExtractedCommand
from interlock.commands.word_parser import UNKNOWN

MAX_SOURCES = 100

# Known directories: a file copied to them keeps its name.
_FOLDERS = frozenset({"/", "/etc", "/root", "/usr/bin", "/bin"})
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_TO_THE_LAST = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
_TO_ALL = frozenset(
    {"tee", "truncate", "fallocate", "touch", "sponge", "shred", "chmod", "chown", "chgrp", "setfacl"}
)
# Editors change the files they are given; `view` and `vim -R` only show them.
_EDITORS = frozenset({"ed", "ex", "vi", "vim", "nvim", "nano", "pico", "emacs", "mg", "micro", "joe"})
_REMOVING = frozenset({"rm", "unlink", "rmdir", "srm"})
# The option that edits in place, after letters that take no value of their own.
_SED = re.compile("-[nrsuzEb]*i|--in-place")
_PERL = re.compile("-[acfghlnpstuvwWXTUS0-9]*i")
_IN_PLACE = {"sed": _SED, "gsed": _SED, "perl": _PERL, "ruby": _PERL}
_AWKS = frozenset({"awk", "gawk"})
_DUPLICATORS = frozenset({"dd", "dcfldd", "dc3dd"})
_DUPLICATED = ("of=", "hof=", "wipe=")
# Copiers of disks, with the subcommand that copies, and which operand they write to.
_COPIERS = {"ddrescue": ("", 1), "qemu-img": ("convert", -1), "bmaptool": ("copy", -1), "lz4": ("", 1)}
# How `socat` names a file that it opens.
_SOCAT_FILE = re.compile(r"(?:g?open|create?|file):([^,]+)", re.IGNORECASE)
# Programs that unpack or fetch into a directory, with the option that names it.
_INTO_FOLDER = {
    "tar": ("C", "directory"),
    "unzip": ("d", ""),
    "wget": ("P", "directory-prefix"),
    "curl": ("", "output-dir"),
}
_UNPACKS = re.compile("-[A-Zabd-z]*x[A-Zabd-z]*|--extract|--get")
_PACKS = re.compile("-[A-Zabd-z]*[cruA][A-Za-z]*|--create|--append|--update|--concatenate")
_NAMED_OUTPUT = {
    **dict.fromkeys(("gpg", "gpg2", "age", "iconv", "genisoimage", "mkisofs"), ("o", "output")),
    **dict.fromkeys(("zstd", "brotli", "pv"), ("o", "output")),
    **dict.fromkeys(("grub-mkconfig", "grub2-mkconfig"), ("o", "output")),
    **{
        f"partclone.{system}": ("o", "output")
        for system in ("dd", "restore", "ext2", "ext3", "ext4", "extfs", "xfs", "btrfs", "fat", "ntfs")
    },
    "curl": ("o", "output"),
    "wget": ("O", "output-document"),
    "sort": ("o", "output"),
    "gcc": ("o", "output"),
    "patch": ("o", "output"),
}


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments of a program: its options in one spelling each, and the other words."""

    letters: frozenset[str]
    longs: tuple[str, ...]
    operands: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Whether one of these options is given. A long one may be cut short, as GNU programs allow."""
        return any(
            name in self.letters if len(name) == 1 else any(name.startswith(each) for each in self.longs)
            for name in names
        )


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


@dataclass(frozen=True, slots=True)
class FileWrite:
    path: str
    is_removal: bool = False


WRITERS = (
    _TO_THE_LAST
    | _TO_ALL
    | _EDITORS
    | _REMOVING
    | _AWKS
    | _DUPLICATORS
    | set(_COPIERS)
    | {"openssl", "socat"}
    | set(_IN_PLACE)
    | set(_NAMED_OUTPUT)
    | set(_INTO_FOLDER)
)


def find_writes(command: ExtractedCommand, home: str) -> Iterator[FileWrite]:
    for operator, target in command.redirects:
        if operator in _WRITING and not (operator == ">&" and (target.isdecimal() or target == "-")):
            yield FileWrite(target)
    if not command.words:
        return
    name, line = command.name, parse_arguments(command.words)
    if name in _TO_THE_LAST:
        yield from _copied(command, line, home)
    elif name in _TO_ALL or _edits(name, command.words, line):
        yield from map(FileWrite, line.operands)
    elif name in _REMOVING:
        yield from (FileWrite(path, is_removal=True) for path in line.operands)
    elif name in _DUPLICATORS:
        yield from (
            FileWrite(word.partition("=")[2]) for word in command.words if word.startswith(_DUPLICATED)
        )
    elif name in _COPIERS:
        subcommand, at = _COPIERS[name]
        if len(line.operands) > 1 and subcommand in {"", line.operands[0]}:
            yield FileWrite(line.operands[at])
    else:
        yield from _named(name, command.words, line)


def _named(name: str, words: tuple[str, ...], line: ParsedArguments) -> Iterator[FileWrite]:
    """Files and directories named by an option, and the file given to `patch`."""
    if name == "patch":
        yield from map(FileWrite, line.operands[:1])
    if name in _NAMED_OUTPUT and (path := option_value(words, *_NAMED_OUTPUT[name])):
        yield FileWrite(path)
    if name == "openssl":
        yield from (FileWrite(path) for option, path in pairwise(words) if option == "-out")
    if name == "socat":
        yield from (FileWrite(found[1]) for word in words[1:] if (found := _SOCAT_FILE.match(word)))
    if name == "tar":
        # Its letters may come first and without a dash.
        words = (name, "-" + "".join(words[1:2]).removeprefix("-"), *words[2:])
        if any(map(_PACKS.fullmatch, words[1:])) and (path := option_value(words, "f", "file")):
            yield FileWrite(path)
        if not any(map(_UNPACKS.fullmatch, words[1:])):
            return
    if name in _INTO_FOLDER and (folder := option_value(words, *_INTO_FOLDER[name])):
        yield FileWrite(f"{folder}/{UNKNOWN}")


def _edits(name: str, words: tuple[str, ...], line: ParsedArguments) -> bool:
    """Whether a program changes the files that it is given."""
    if name in _EDITORS:
        return "R" not in line.letters
    if name in _AWKS:
        return option_value(words, "i", "include") == "inplace"
    return name in _IN_PLACE and any(map(_IN_PLACE[name].match, words[1:]))


def _copied(command: ExtractedCommand, line: ParsedArguments, home: str) -> Iterator[FileWrite]:
    has_folder = command.name not in {"rsync", "scp"}
    folder = option_value(command.words, "t", "target-directory") if has_folder else ""
    sources = line.operands if folder else line.operands[:-1]
    target = folder or (line.operands[-1] if len(line.operands) > 1 else "")
    if not has_folder and ":" in target:
        return
    if target:
        yield FileWrite(target)
    is_folder = (
        bool(folder)
        or len(sources) > 1
        or target.endswith("/")
        or target.rpartition("/")[2] in {".", ".."}
        or target in _FOLDERS | {home, command.folder}
    )
    for source in sources[:MAX_SOURCES]:
        if is_folder:
            yield FileWrite(f"{target}/{source.rstrip('/').rpartition('/')[2]}")
        if command.name == "mv" and source != target:
            yield FileWrite(source, is_removal=True)


def option_value(words: tuple[str, ...], letter: str, long: str) -> str:
    """The value of an option in any of its spellings, or nothing."""
    for index, word in enumerate(words[1:], 1):
        following = words[index + 1] if index + 1 < len(words) else ""
        if long and word == f"--{long}":
            return following
        if long and word.startswith(f"--{long}="):
            return word.partition("=")[2]
        if letter and word.startswith("-") and not word.startswith("--") and letter in word:
            return word.partition(letter)[2] or following
    return ""
