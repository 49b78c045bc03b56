"""The sandbox profile of a mode, as plain data compiled into the Authority."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """Directories that may be read or written, and ports that may be reached (none: offline).

    `protected_names` are patterns of paths that nothing may write, even in a writable directory.
    `reads_hard_links` opens files that also have a name outside. `readable_paths` are further directories
    that a child process may read. `denied_commands` is the operator's denylist of commands, and
    `command_rules` the name and text of each file of rules about commands. `sandbox` names the backend.
    """

    readable_roots: tuple[Path, ...] = ()
    writable_roots: tuple[Path, ...] = ()
    network_ports: frozenset[int] = frozenset()
    protected_names: tuple[str, ...] = ()
    reads_hard_links: bool = False
    readable_paths: tuple[Path, ...] = ()
    denied_commands: tuple[str, ...] = ()
    command_rules: tuple[tuple[str, str], ...] = ()
    sandbox: str = "none"
