"""How a server's process is started: its sandbox profile, directories and environment; and if it may be.

A server whose program, variables or secrets come from paths that agents write to is not started: agents
would control what it runs.
"""

import os
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.redaction.redactor import Redactor
from interlock.sandbox.jobs import Job, JobLimits, system_paths
from interlock.sandbox.profile import SandboxProfile
from interlock.tools.mcp.server import McpRootAccess, McpServerConfig, resolve_values
from interlock.tools.shell.command_runner import private_directory

_PASSED_ON = ("TZ", "LANG", "LC_ALL", "LC_CTYPE")
_USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_INTERPRETERS = (
    *("python", "pypy", "node", "deno", "bun", "ruby", "perl", "php", "lua", "java", "sh", "bash"),
)
# Launchers run what a project's settings say, in the directory that these options name.
_LAUNCHERS = (
    *("uv", "npm", "npx", "pnpm", "yarn", "bun", "deno", "make", "cargo", "go", "poetry", "pdm", "hatch"),
    *("pipx", "rye", "just", "task", "mise", "dotnet", "gradle", "mvn", "env"),
)
_WHERE = (
    *("--directory", "--project", "--prefix", "--cwd", "--chdir", "--manifest-path", "--dir", "-C", "-f"),
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
class LaunchCeiling:
    """What the operator opened to all processes here. A server can be granted no more."""

    roots: tuple[Path, ...] = ()
    readable_paths: tuple[Path, ...] = ()
    network_ports: frozenset[int] = frozenset()
    protected_names: tuple[str, ...] = ()
    # Interlock's own directories, including those that agents write to.
    own_folders: tuple[Path, ...] = ()

    def why_not(self, server: McpServerConfig) -> str:
        """Why a server cannot run with its grants; empty if it can."""
        if server.is_local and server.roots is not McpRootAccess.none and not self.roots:
            return "no folder was opened for it (TOOL_ALLOWED_ROOTS is not set)"
        if server.network and not self.network_ports:
            return "it was granted network access, but the network is closed here (TOOL_SHELL_NETWORK)"
        return self.tampering_risk(server)

    def profile(self, server: McpServerConfig) -> SandboxProfile:
        reads, writes = server.roots is not McpRootAccess.none, server.roots is McpRootAccess.write
        return SandboxProfile(
            readable_roots=self.roots if reads else (),
            writable_roots=self.roots if writes else (),
            network_ports=self.network_ports if server.network else frozenset(),
            protected_names=self.protected_names,
            readable_paths=(*server.readable, *(self.readable_paths if reads else ())),
        )

    # -- what agents could write --

    def tampering_risk(self, server: McpServerConfig) -> str:
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


# -- the process --


@asynccontextmanager
async def server_job(
    server: McpServerConfig, ceiling: LaunchCeiling, redactor: Redactor
) -> AsyncIterator[Job]:
    """The job, in a private directory that is removed after its end, with its home.

    Not in an opened one: interpreters and launchers run files of their working directory.
    """
    given = resolve_values(server.environment, redactor)
    profile = ceiling.profile(server)
    async with private_directory(ceiling.roots, is_wanted=True) as private:
        if private is None:
            raise RuntimeError("it was requested")
        folder = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield Job(
                argv=server.command,
                folder=folder,
                environment=_environment(server, private) | given,
                profile=profile,
                readable_paths=profile.readable_paths,
                private_folders=(private,),
                limits=JobLimits(),
                linger_seconds=0.0,
                has_stdin=True,
            )
        finally:
            os.close(folder)


def first_unreadable_path(server: McpServerConfig, ceiling: LaunchCeiling) -> Path | None:
    """The first path of its command that the sandbox would not let it read."""
    profile = ceiling.profile(server)
    inside = (*system_paths(), *profile.readable_roots, *profile.readable_paths)
    for path in map(Path, server.command):
        if path.is_absolute() and path.exists():
            for each in (path, path.resolve()):
                if not any(each.is_relative_to(folder) for folder in inside):
                    return each
    return None


def _environment(server: McpServerConfig, private: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    program = Path(server.command[0])
    path = [str(program.parent), str(program.resolve().parent), *_USUAL_PATH, f"{sys.base_prefix}/bin"]
    own = {
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "HOME": str(private / "home"),
        "TMPDIR": str(private / "tmp"),
    }
    return {"LC_ALL": "C.UTF-8"} | passed | own
