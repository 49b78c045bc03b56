"""The operator's own list of denied commands (`TOOL_BASH_DENYLIST`).

An entry is a program, or a program and the words that must come first: `curl`, `git push`, `npm pub*`,
`rm -r`. It is compared with every command that is run, word by word, never with the text as a whole.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from interlock.commands.extraction import ExtractedCommand
from interlock.commands.file_writes import parse_arguments

MAX_WORD = 4096

_NEVER = re.compile(r"[;&|<>()`\"'\\$\n]")
_KEYWORDS = frozenset(
    "if then elif else fi for while until do done case esac select function in { } ! [[ ]] time".split()  # noqa: SIM905
)

# Options that take a value, of programs whose subcommand comes after them.
_VALUES = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix"),
    "docker": ("-H", "--host", "-c", "--context", "--config", "-l", "--log-level"),
    "podman": ("--url", "--connection", "-c", "--log-level", "--root"),
    "kubectl": ("-n", "--namespace", "--context", "--cluster", "--kubeconfig", "-s", "--server", "--user"),
    "helm": ("-n", "--namespace", "--kube-context", "--kubeconfig"),
    "npm": ("--prefix", "-w", "--workspace", "--registry"),
    "pnpm": ("-C", "--dir", "--filter", "-F"),
    "yarn": ("--cwd",),
    "aws": ("--profile", "--region", "--output", "--endpoint-url"),
    "gcloud": ("--project", "--account", "--configuration"),
    "gh": ("-R", "--repo"),
    "cargo": ("--manifest-path", "--color", "-Z", "-C"),
    "terraform": ("-chdir",),
    "systemctl": ("-H", "--host", "-M", "--machine", "-t", "-p"),
}


@dataclass(frozen=True, slots=True)
class DenylistEntry:
    """One entry, and why it can never match, if so."""

    text: str
    program: str
    words: tuple[str, ...]
    options: tuple[str, ...]
    fault: str

    def matches(self, command: ExtractedCommand) -> bool:
        if self.fault or not command.words:
            return False
        given = command.program if "/" in self.program else command.name
        if len(given) > MAX_WORD or not fnmatchcase(given, self.program):
            return False
        line = parse_arguments(command.words)
        if not all(
            line.has(*option_spellings(option)) or option in command.words for option in self.options
        ):
            return False
        operands = _operands(command)
        return len(operands) >= len(self.words) and all(
            fnmatchcase(operand[:MAX_WORD], pattern)
            for operand, pattern in zip(operands, self.words, strict=False)
        )


def option_spellings(option: str) -> tuple[str, ...]:
    return (option[2:],) if option.startswith("--") else tuple(option[1:2])


def parse_denylist_entry(text: str) -> DenylistEntry:
    program, *rest = text.split() or [""]
    options = tuple(word for word in rest if word.startswith("-") and len(word) > 1)
    words = tuple(word for word in rest if word not in options)
    return DenylistEntry(text, program, words, options, _fault(text, program))


def _fault(text: str, program: str) -> str:
    if not program:
        return "it names no program"
    if found := _NEVER.search(text):
        return f"it contains {found[0]!r}; an entry is compared with one command at a time, without quotes"
    if program in _KEYWORDS:
        return f"{program!r} is a shell keyword, not a program"
    if "=" in program:
        return "it starts with an assignment, not with a program"
    if program.startswith("-"):
        return "it starts with an option, not with a program"
    if "/" in program and not program.startswith(("/", "./", "../", "*")):
        return "give a program path as it is called, starting with / or ./"
    return ""


def _operands(command: ExtractedCommand) -> tuple[str, ...]:
    """The words that are not options, without the values of options before a subcommand."""
    taking = _VALUES.get(command.name, ())
    found: list[str] = []
    is_value = False
    for word in command.words[1:]:
        if is_value:
            is_value = False
        elif word in taking:
            is_value = True
        elif not word.startswith("-") or word == "-":
            found.append(word)
    return tuple(found)
