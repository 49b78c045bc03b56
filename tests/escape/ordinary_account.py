"""Tests run once more by an account that is not root, where there is one and it can run them."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = 65534

of_root_alone = pytest.mark.skipif(
    os.getuid() != 0, reason="the tests are run by an ordinary account already"
)


def passed_as_nobody(file: str) -> str:
    """What pytest said of a file of these tests, all of which must pass."""
    program = interpreter()
    if program is None:
        pytest.skip("there is no interpreter that an ordinary account can run")
    folder = tempfile.mkdtemp(prefix="interlock-nobody-")
    os.chown(folder, NOBODY, NOBODY)
    try:
        done = as_nobody(
            [
                *(program, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"),
                f"tests/escape/{file}",
            ],
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        return done.stdout
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def interpreter() -> str | None:
    """One that an ordinary account can run, with the same modules: ours may be in root's own folder."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, shutil.which(f"python{version}", path="/usr/local/bin:/usr/bin")):
        if program is None:
            continue
        code = "import sqlalchemy, pytest, interlock, hypothesis"
        with suppress(PermissionError):
            if as_nobody([program, "-c", code], timeout=60).returncode == 0:
                return program
    return None


def as_nobody(argv: list[str], timeout: float) -> "subprocess.CompletedProcess[str]":
    paths = [str(ROOT / "src"), str(ROOT), *(path for path in sys.path if "site-packages" in path)]
    return subprocess.run(
        argv,
        cwd=ROOT,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
