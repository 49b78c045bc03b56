"""What a mode means to the kernel, as plain data compiled into the Authority."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """Folders that may be read, folders that may be written, and ports that may be reached (none: offline).

    `protected_names` are patterns of paths that nothing may write, though they lie in a writable folder.
    `reads_hard_links` opens files that also have a name outside. `readable_paths` are further folders that
    a child process may read, and `denied_commands` the operator's denylist of commands. `sandbox` says
    what confines it.
    """

    readable_roots: tuple[Path, ...] = ()
    writable_roots: tuple[Path, ...] = ()
    network_ports: frozenset[int] = frozenset()
    protected_names: tuple[str, ...] = ()
    reads_hard_links: bool = False
    readable_paths: tuple[Path, ...] = ()
    denied_commands: tuple[str, ...] = ()
    sandbox: str = "none"
