"""bubblewrap and the probe once more by a server that is not root, where user namespaces are allowed."""

import os
import shutil
import tempfile

import pytest

from tests.escape.test_launcher_ordinary_account import NOBODY, as_nobody, interpreter
from tests.escape.wrapped import obstacle

PARTS = ("test_bubblewrap_life.py", "test_bubblewrap_trees.py", "test_bubblewrap_walls.py", "test_probe.py")


@pytest.mark.full
@pytest.mark.skipif(os.getuid() != 0, reason="the tests are run by an ordinary account already")
@pytest.mark.parametrize("part", PARTS)
def test_an_ordinary_account_is_as_confined_as_root(part):
    program = interpreter()
    if program is None:
        pytest.skip("there is no interpreter that an ordinary account can run")
    if obstacle():
        pytest.skip(obstacle())
    folder = tempfile.mkdtemp(prefix="interlock-nobody-")
    os.chown(folder, NOBODY, NOBODY)
    try:
        done = as_nobody(
            [
                *(program, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"),
                f"tests/escape/{part}",
            ],
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert " passed" in done.stdout or "100%" in done.stdout
    finally:
        shutil.rmtree(folder, ignore_errors=True)
