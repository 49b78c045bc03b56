"""bubblewrap as the sandbox to attack, or the reason why it cannot run here at all."""

import subprocess
from functools import lru_cache

import pytest

from interlock.sandbox.bubblewrap_backend import BWRAP, BubblewrapBackend
from interlock.sandbox.programs import locate


@lru_cache(maxsize=1)
def obstacle() -> str:
    """Why not, in bubblewrap's own words; empty if it can."""
    program = locate(BWRAP, ())
    if program is None:
        return f"bubblewrap is not installed: {BWRAP.hint}"
    plain = [str(program), "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc"]
    done = subprocess.run([*plain, "/bin/true"], capture_output=True, text=True, timeout=30)
    return f"bubblewrap cannot run here: {done.stderr.strip()}" if done.returncode else ""


def wrapped() -> BubblewrapBackend:
    if obstacle():
        pytest.skip(obstacle())
    backend = BubblewrapBackend.found(())
    assert backend is not None
    return backend
