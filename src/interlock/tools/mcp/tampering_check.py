"""Checks that a server's program, variables and secrets do not come from paths that agents write to."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from interlock.tools.mcp.server_config import McpRootAccess, McpServerConfig

_INTERPRETERS = (
    *("python", "pypy", "node", "deno", "bun", "ruby", "perl", "php", "lua", "java", "sh", "bash"),
)
# Launchers run what a project's settings say, in the directory that these options name.
_LAUNCHERS = (
    *("uv", "npm", "npx", "pnpm", "yarn", "bun", "deno", "make", "cargo", "go", "poetry", "pdm", "hatch"),
    *("pipx", "rye", "just", "task", "mise", "dotnet", "gradle", "mvn", "env"),
)
_WHERE = (
    "--directory",
    "--project",
    "--prefix",
    "--cwd",
    "--chdir",
    "--manifest-path",
    "--dir",
    "-C",
    "-f",
)
# Variables from which interpreters, linkers and other programs take code or program names.
_LOADING = frozenset(
    (
        *("PATH", "HOME", "XDG_CONFIG_HOME", "ENV", "BASH_ENV", "SHELL", "EDITOR", "PAGER"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "VIRTUAL_ENV"),
        *("NODE_PATH", "NODE_OPTIONS", "NPM_CONFIG_PREFIX", "NPM_CONFIG_USERCONFIG", "DENO_DIR"),
        *("PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE"),
        *("CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_PATH"),
        *("UV_PROJECT", "UV_CONFIG_FILE", "PIP_CONFIG_FILE"),
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_SSH_COMMAND"),
    )
)
_BETWEEN_PATHS = re.compile(r"[:;,=\s]")


@dataclass(frozen=True, slots=True)
class TamperingCheck:
    """The opened directories, and Interlock's own, including those that agents write to."""

    roots: tuple[Path, ...]
    own_folders: tuple[Path, ...]

    def why_not(self, server: McpServerConfig) -> str:
        """Why an agent could change the server's program or values; empty if none can."""
        return self._its_command(server) or self._its_variables(server) or self._its_secrets(server)

    def _its_command(self, server: McpServerConfig) -> str:
        working_folders = self.roots[:1] if server.roots is not McpRootAccess.none else ()
        for number, word in enumerate(server.command):
            for path in _paths_of(word, working_folders):
                folder = self._around(path)
                is_only_served = path == folder and not _may_be_run(server, number)
                if folder is not None and not is_only_served:
                    return _not_run(f"its command refers to {path}", folder)
        return ""

    def _its_variables(self, server: McpServerConfig) -> str:
        for given in server.environment:
            words = _BETWEEN_PATHS.split(given.value) if given.name.upper() in _LOADING else []
            for path in (path for word in words for path in _paths_of(word, ())):
                if (folder := self._around(path)) is not None:
                    return _not_run(f"{given.name} refers to {path}", folder)
        return ""

    def _its_secrets(self, server: McpServerConfig) -> str:
        """A symlink there could lead to any file of this account."""
        for given in (*server.environment, *server.headers):
            for path in _paths_of(str(given.file or ""), ()):
                if (folder := self._around(path)) is not None:
                    return (
                        f"{given.name} is read from {path}, which is inside {folder}: agents can "
                        "write there and would control the value; move it elsewhere"
                    )
        return ""

    def _around(self, path: Path) -> Path | None:
        folders = (folder.resolve() for folder in (*self.roots, *self.own_folders))
        return next((folder for folder in folders if path.is_relative_to(folder)), None)


def _not_run(what: str, folder: Path) -> str:
    return (
        f"{what}, which is inside {folder}: files that agents can write must not be run; install "
        "the server elsewhere"
    )


def _paths_of(word: str, working_folders: Iterable[Path]) -> set[Path]:
    """The paths that a word of a command may mean, with symlinks followed and not."""
    named = [word, word.split("=", 1)[1]] if "=" in word else [word]
    found = [Path(name) for name in named if name.startswith("/")]
    # A bare name is a path only if it exists.
    near = [
        folder / name for folder in working_folders for name in named if not name.startswith(("/", "-"))
    ]
    found += [path for path in near if path.name and path.exists()]
    return {each for path in found for each in (Path(os.path.normpath(path)), path.resolve())}


def _may_be_run(server: McpServerConfig, number: int) -> bool:
    """Whether a word may be run: the program, an interpreter's first argument, or a launcher's directory.

    Other words may name an opened directory, as data to serve.
    """
    if number == 0:
        return True
    program, words = Path(server.command[0]).name, server.command
    is_first = all(word.startswith("-") for word in words[1:number])
    is_sent = words[number - 1] in _WHERE or words[number].partition("=")[0] in _WHERE
    return (is_first and program.startswith(_INTERPRETERS)) or (is_sent and program in _LAUNCHERS)
