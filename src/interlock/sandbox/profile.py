"""What a mode means to the kernel, as plain data compiled into the Authority."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """Folders a child process may read, folders it may write, and ports it may reach (none: offline)."""

    readable_roots: tuple[Path, ...] = ()
    writable_roots: tuple[Path, ...] = ()
    network_ports: frozenset[int] = frozenset()
