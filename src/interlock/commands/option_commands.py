"""Commands given to programs in an option, setting or variable: `git rebase -x`, `tar -I`, `PAGER`.

Such values are text for a shell. Other languages (`awk`, `python -c`, `sed`, `make`) are not parsed: what
is written in them is left to the sandbox.
"""

import re
from collections.abc import Iterator

from interlock.commands.expansion import unmarked
from interlock.commands.wrapper_table import Wrapped, WrappedProgram, WrappedScript, WrapperSpec

# Variables whose value other programs give to a shell.
COMMAND_VARIABLES = frozenset(
    {
        *(
            "PAGER",
            "GIT_PAGER",
            "MANPAGER",
            "SYSTEMD_PAGER",
            "EDITOR",
            "VISUAL",
            "BROWSER",
            "PROMPT_COMMAND",
        ),
        *("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND"),
        *("GIT_ASKPASS", "SSH_ASKPASS", "RSYNC_RSH", "LESSOPEN", "LESSCLOSE"),
    }
)

_OPTIONS = {
    "tar": (
        *("-I", "-F", "--use-compress-program", "--to-command", "--info-script", "--new-volume-script"),
        *("--checkpoint-action", "--rsh-command"),
    ),
    "rsync": ("-e", "--rsh"),
    "zip": ("-TT", "--unzip-command"),
    "scp": ("-S",),
    "sftp": ("-S",),
    "man": ("-P", "--pager"),
    "npm": ("-c", "--call"),
    "npx": ("-c", "--call"),
    "nix-shell": ("--run", "--command"),
}
_SSH = WrapperSpec("bcDEeFIiJLlmOopQRSWw")
_SSH_TELLING = re.compile(r"(?:ProxyCommand|LocalCommand|KnownHostsCommand)[= ]\s*(.*)", re.IGNORECASE)
_THIS_MACHINE = re.compile(
    r"(?:ssh://)?(?:[^@]*@)?(?:localhost|ip6-localhost|127(?:\.\d+)*|\[?::1\]?)(?::\d+)?$"
)

_GIT_VALUES = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
)
_GIT_OPTIONS = {
    "rebase": ("-x", "--exec"),
    "difftool": ("-x", "--extcmd"),
    "grep": ("-O", "--open-files-in-pager"),
    "archive": ("--exec",),
    "clone": ("-u", "--upload-pack"),
    "fetch": ("--upload-pack",),
    "pull": ("--upload-pack",),
    "ls-remote": ("--upload-pack", "--exec"),
    "push": ("--receive-pack", "--exec"),
    "filter-branch": (
        *("--setup", "--env-filter", "--tree-filter", "--index-filter", "--parent-filter"),
        *("--msg-filter", "--commit-filter", "--tag-name-filter"),
    ),
}
_FORCE = re.compile("-[a-zA-Z]*f|--force$")
_DRY_RUN = re.compile("-[a-zA-Z]*n|--dry-run$")
_GIT_REMOTE = frozenset({"clone", "fetch", "pull", "push", "ls-remote", "submodule"})
_GIT_SETTINGS = re.compile(
    r"pager\..+|(?:core|sequence)\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy)"
    r"|diff\.(?:external|.+\.(?:command|textconv))|(?:diff|merge)tool\..+\.cmd|merge\..+\.driver"
    r"|filter\..+\.(?:clean|smudge|process)|trailer\..+\.(?:cmd|command)|interactive\.difffilter"
    r"|(?:man|browser)\..+\.cmd"
)


def commands_in_options(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """The commands that these options run. `words[0]` is the program's name without its directory."""
    match words[0]:
        case "git":
            yield from _git(words)
        case "ssh":
            yield from _ssh(words)
        case "hyperfine":
            # Everything it measures, prepares and cleans up is a command; numbers are harmless ones.
            yield from (
                WrappedScript(unmarked(word.rpartition("=")[2] if word[:2] == "--" else word))
                for word in words[1:]
            )
        case "env":
            for word in words[1:]:
                name, _, value = word.partition("=")
                yield from commands_in_variable(name, value)
        case name if name in _OPTIONS:
            for value in _values(words, _OPTIONS[name]):
                yield WrappedScript(value.removeprefix("exec="))


def commands_in_variable(variable: str, value: str) -> Iterator[Wrapped]:
    """The command that other programs run from a variable."""
    if variable in COMMAND_VARIABLES:
        yield WrappedScript(unmarked(value).lstrip("|-"))


def _values(words: tuple[str, ...], options: tuple[str, ...]) -> Iterator[str]:
    """The values of these options: after them, glued to them, or after other letters of the same word."""
    letters = "".join(option[1] for option in options if len(option) == 2)
    for index, word in enumerate(words[1:], 1):
        name, has_value, value = word.partition("=")
        glued = re.match(f"-([A-Za-z]*?)([{letters}])", word) if letters and word[:2] != "--" else None
        if word in options or (glued and glued.end() == len(word)):
            yield from map(unmarked, words[index + 1 : index + 2])
        elif has_value and name in options:
            yield unmarked(value)
        elif glued and not glued[1]:
            yield unmarked(word[2:])


def _ssh(words: tuple[str, ...]) -> Iterator[Wrapped]:
    """For ssh to this machine, the command it runs; other machines are out of scope."""
    for value in _values(words, ("-o",)):
        if found := _SSH_TELLING.match(value):
            yield WrappedScript(found[1])
    host, *command = _SSH.inner(words) or ("",)
    if _THIS_MACHINE.match(unmarked(host).lower()):
        yield WrappedScript(unmarked(" ".join(command[command[:1] == ["--"] :])))


def _git(words: tuple[str, ...]) -> Iterator[Wrapped]:
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in _GIT_VALUES else 1
    before, rest = words[:index], words[index:]
    settings = list(_values(before, ("-c",)))
    if rest[:1] in {("clone",), ("init",)}:
        settings += _values(rest, ("-c", "--config"))
    for setting in settings:
        yield from _setting(*setting.partition("=")[::2])
    if rest[:1] == ("clean",):
        yield from _git_clean(before, rest)
    if rest:
        for value in _values(rest, _GIT_OPTIONS.get(rest[0], ())):
            yield WrappedScript(value)
        yield from _git_subcommand(rest[0], rest[1:])


def _git_clean(before: tuple[str, ...], rest: tuple[str, ...]) -> Iterator[Wrapped]:
    """`git clean` removes all untracked files, in its directory or in those it is given."""
    if any(map(_FORCE.match, rest)) and not any(map(_DRY_RUN.match, rest)):
        operands = [word for word in rest[1:] if not word.startswith("-")]
        folders = [None, *_values(before, ("-C",))]
        yield WrappedProgram(("rm", "--", *(operands or ["."])), is_recursive=True, folder=folders[-1])


def _git_subcommand(name: str, arguments: tuple[str, ...]) -> Iterator[Wrapped]:
    operands = [word for word in arguments if not word.startswith("-")]
    if name == "config" and len(operands) > 1:
        yield from _setting(operands[-2], operands[-1])
    elif name == "bisect" and arguments[:1] == ("run",):
        yield WrappedProgram(arguments[1:])
    elif name == "submodule" and "foreach" in arguments:
        yield WrappedScript(
            unmarked(" ".join(WrapperSpec().inner(arguments[arguments.index("foreach") :])))
        )
    elif name in _GIT_REMOTE:
        for operand in operands:
            if operand.startswith("ext::"):
                # In it `% ` is a blank within a word.
                found = re.split("(?<!%) +", unmarked(operand[5:]))
                yield WrappedProgram(tuple(word.replace("% ", " ") for word in found))


def _setting(name: str, value: str) -> Iterator[Wrapped]:
    name, value = name.lower(), unmarked(value)
    if name.startswith("alias.") or re.fullmatch(r"credential\.(?:.+\.)?helper", name):
        if value.startswith("!"):
            yield WrappedScript(value[1:])
    elif _GIT_SETTINGS.fullmatch(name):
        yield WrappedScript(value)
