"""The sandbox behind the walls of our systemd units: commands still run, and are still confined."""

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.escape.ordinary_account import NOBODY, ROOT, interpreter
from tests.unit.deploy.units import FOLDER, UNITS, calls_of, read_unit

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can put such walls up"),
    pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed"),
    pytest.mark.skipif(ctypes.util.find_library("seccomp") is None, reason="libseccomp is not installed"),
]


FOLDERS = ("state", "workspace", "root", "tmp")


class Service:
    """Runs commands as the unit's process would."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self._program = program
        self.walls = dict(entry[1:] for entry in UNITS[0].entries)
        for name in FOLDERS:
            (folder / name).mkdir()
            os.chown(folder / name, NOBODY, NOBODY)

    def run(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        paths = [str(ROOT / "src"), str(ROOT), *(path for path in sys.path if "site-packages" in path)]
        writable = [str(self.folder / name) for name in FOLDERS]
        return subprocess.run(
            [sys.executable, "-m", "tests.e2e.hardened_process", str(NOBODY), *writable, "--", *words],
            cwd=ROOT,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(self.folder),
                "PYTHONPATH": ":".join(paths),
                "PYTHONDONTWRITEBYTECODE": "1",
                "WALLS": " ".join(name for name, value in self.walls.items() if value == "yes"),
                "REFUSED_CALLS": " ".join(calls_of(self.walls["SystemCallFilter"])),
                "INTERLOCK_STATE_DIR": writable[0],
                "WORKSPACE_DIR": writable[1],
                # PrivateTmp.
                "TMPDIR": writable[3],
                "TOOL_ALLOWED_ROOTS": writable[2],
                "SESSION_OPEN_MODES": "coding",
                **variables,
            },
            capture_output=True,
            text=True,
            timeout=120,
        )

    def interlock(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return self.run(self._program, "-m", "interlock", *words, **variables)


@pytest.fixture
def service():
    program = interpreter()
    if program is None:
        pytest.skip("there is no interpreter that an ordinary account can run")
    folder = Path(tempfile.mkdtemp(prefix="interlock-hardened-"))
    folder.chmod(0o755)
    yield Service(folder, program)
    shutil.rmtree(folder, ignore_errors=True)


def test_the_walls_are_there(service):
    written = service.run(
        "/bin/sh", "-c", f"echo no > {service.folder}/beside; unshare --user true; ls /dev"
    )
    assert not (service.folder / "beside").exists()
    assert "Read-only file system" in written.stderr
    assert "unshare" in written.stderr
    assert set(written.stdout.split()) == {"null", "zero", "full", "random", "urandom", "tty", "shm", "fd"}


def test_landlock_holds_behind_them(service):
    found = json.loads(service.interlock("doctor", "--json").stdout)
    sandbox = [finding for finding in found if finding["what"] == "sandbox"]
    assert sandbox[0]["state"] == "ok", sandbox
    assert "landlock" in sandbox[0]["detail"].lower()


def test_a_command_runs_behind_them_and_writes_where_it_may(service):
    done = service.interlock(
        *("tool", "call", "bash", "--mode", "coding", "--args"),
        json.dumps({"cmd": "echo done > here && cat here; cat /etc/shadow; echo x > ../beside"}),
    )
    assert done.stdout.startswith("done\n"), done.stderr
    assert (service.folder / "root" / "here").read_text() == "done\n"
    assert not (service.folder / "beside").exists()


@pytest.mark.parametrize(("dropped_in", "state"), [(False, "failed"), (True, "ok")])
def test_bubblewrap_needs_some_of_them_taken_down(service, dropped_in, state):
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    if dropped_in:
        service.walls |= dict(entry[1:] for entry in read_unit(FOLDER / "bubblewrap.conf").entries)
    found = json.loads(service.interlock("doctor", "--json", TOOL_SANDBOX="bubblewrap").stdout)
    sandbox = [finding for finding in found if finding["what"] == "sandbox"]
    assert sandbox[0]["state"] == state, sandbox
