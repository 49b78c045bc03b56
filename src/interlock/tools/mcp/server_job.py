"""Builds the sandbox profile, directories and environment of a server's process."""

import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.redaction.redactor import Redactor
from interlock.sandbox.jobs import Job, JobLimits, system_paths
from interlock.sandbox.profile import SandboxProfile
from interlock.tools.mcp.secret_references import NamedValue
from interlock.tools.mcp.server_config import McpRootAccess, McpServerConfig
from interlock.tools.mcp.tampering_check import TamperingCheck
from interlock.tools.shell.command_runner import private_directory

_PASSED_ON = ("TZ", "LANG", "LC_ALL", "LC_CTYPE")
_USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


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

    def tampering_risk(self, server: McpServerConfig) -> str:
        """Why an agent could change the server's program; empty if none can."""
        return TamperingCheck(self.roots, self.own_folders).why_not(server)

    def profile(self, server: McpServerConfig) -> SandboxProfile:
        reads, writes = server.roots is not McpRootAccess.none, server.roots is McpRootAccess.write
        return SandboxProfile(
            readable_roots=self.roots if reads else (),
            writable_roots=self.roots if writes else (),
            network_ports=self.network_ports if server.network else frozenset(),
            protected_names=self.protected_names,
            readable_paths=(*server.readable, *(self.readable_paths if reads else ())),
        )


@asynccontextmanager
async def server_job(
    server: McpServerConfig, grounds: LaunchCeiling, redactor: Redactor
) -> AsyncIterator[Job]:
    """The job, in a private directory that is removed after its end, with its home.

    Not in an opened one: interpreters and launchers run files of their working directory.
    """
    given = resolve_values(server.environment, redactor)
    profile = grounds.profile(server)
    async with private_directory(grounds.roots, is_wanted=True) as private:
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


def resolve_values(given: Iterable[NamedValue], redactor: Redactor) -> dict[str, str]:
    """Resolve the values. Those from references are secret from here on."""
    values = {each.name: each.resolved() for each in given}
    redactor.learn(values[each.name] for each in given if each.is_reference)
    return values


def first_unreadable_path(server: McpServerConfig, grounds: LaunchCeiling) -> Path | None:
    """The first path of its command that the sandbox would not let it read."""
    profile = grounds.profile(server)
    inside = (*system_paths(), *profile.readable_roots, *profile.readable_paths)
    for word in server.command:
        path = Path(word)
        if not path.is_absolute() or not path.exists():
            continue
        for each in (path, path.resolve()):
            if not any(each.is_relative_to(folder) for folder in inside):
                return each
    return None


def _environment(server: McpServerConfig, private: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    beside = [str(Path(server.command[0]).parent), str(Path(server.command[0]).resolve().parent)]
    path = dict.fromkeys([*beside, *_USUAL_PATH, f"{sys.base_prefix}/bin"])
    own = {"PATH": os.pathsep.join(path), "HOME": str(private / "home"), "TMPDIR": str(private / "tmp")}
    return {"LC_ALL": "C.UTF-8"} | passed | own
