"""A process that is killed while it writes a file."""

import os
import signal
import subprocess
import sys

import pytest

from tests.unit.sandbox.putting import names

pytestmark = pytest.mark.usefixtures("both_ways")


KILLED = """
import os, signal, sys
from pathlib import Path
from interlock.sandbox.file_io import open_file, staged_file
from interlock.sandbox.paths import PathAccess, PathResolver
from interlock.sandbox.profile import SandboxProfile

root = Path(sys.argv[1])
territory = PathResolver(SandboxProfile((root,), (root,)))
place = territory.find("f", PathAccess.write)

def pieces():
    yield b"x" * 1_000_000
    if sys.argv[2] == "pieces":
        os.kill(os.getpid(), signal.SIGKILL)

def commit():
    if sys.argv[2] == "commit":
        os.kill(os.getpid(), signal.SIGKILL)

with open_file(territory, place) as like, territory.parent(place) as parent:
    with staged_file(parent, pieces(), like=like) as put:
        commit()
        put()
"""


@pytest.mark.parametrize("where", ["pieces", "commit"])
def test_a_process_that_is_killed_leaves_the_old_file_and_nothing_else(roots, where):
    folder = roots.inside / "empty"
    (folder / "f").write_text("old")
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no files without a name")
    done = subprocess.run([sys.executable, "-c", KILLED, folder, where], check=False)
    assert done.returncode == -signal.SIGKILL
    assert names(folder) == ["f"]
    assert (folder / "f").read_text() == "old"
