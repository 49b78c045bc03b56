"""What agents write into an opened folder is never a program that Interlock itself runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.sandbox.programs import RG, Program, locate

PLANTED = "#!/bin/sh\necho planted > '{mark}'\nexit 1\n"
# The folder on the search path, as a person may have it, and the one they stand in.
SEARCHED = [("{root}/bin", "."), ("./bin", "."), ("bin", "."), ("", "bin"), ("{root}/../link", ".")]


@pytest.fixture
def root(tmp_path) -> Path:
    """With programs of an agent's in it: say in the `.venv` or `node_modules` of an activated project."""
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    for name in ("bwrap", "rg", "bash"):
        (folder / "bin" / name).write_text(PLANTED.format(mark=tmp_path / "mark"))
        (folder / "bin" / name).chmod(0o755)
    (tmp_path / "link").symlink_to(folder / "bin")
    return folder


@pytest.mark.parametrize(
    ("command", "entry", "stands_in"),
    [("doctor", *SEARCHED[0]), ("tool", *SEARCHED[0]), ("tool", *SEARCHED[3])],
)
def test_the_sandbox_is_not_made_by_a_program_from_an_opened_folder(
    root, tmp_path, command, entry, stands_in
):
    """bubblewrap is run outside of the sandbox, for it makes one."""
    environment = {
        "PATH": os.pathsep.join([entry.format(root=root), "/usr/bin", "/bin"]),
        "HOME": str(tmp_path),
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
        "TOOL_SANDBOX": "bubblewrap",
    }
    call = ["tool", "call", "bash", "--mode", "coding", "--args", json.dumps({"cmd": "true"})]
    words = ["doctor"] if command == "doctor" else [*call, "--root", str(root)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "interlock", *words],
        cwd=root / stands_in,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "mark").exists(), "what an agent wrote was run without walls"


@pytest.mark.parametrize(("entry", "stands_in"), SEARCHED)
def test_no_program_is_taken_from_an_opened_folder(root, monkeypatch, entry, stands_in):
    monkeypatch.chdir(root / stands_in)
    monkeypatch.setenv("PATH", os.pathsep.join([entry.format(root=root), "/usr/bin", "/bin"]))
    for program in (RG, Program("program:bash", ("bash",), "", "")):
        found = locate(program, opened=[root])
        assert found is None or not found.is_relative_to(root)


def test_a_program_that_is_a_link_into_an_opened_folder_is_not_taken(root, tmp_path, monkeypatch):
    """As package managers leave them in a home's own folder of programs."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "planted").symlink_to(root / "bin" / "bwrap")
    monkeypatch.setenv("PATH", str(tmp_path / "own"))
    program = Program("program:planted", ("planted",), "", "")
    assert locate(program, opened=[root]) is None
    assert locate(program, ()) == root / "bin" / "bwrap"
