"""What agents write into an opened folder is never part of Interlock's own processes."""

import os
import subprocess
import sys
import time

PLANTED = "import os, pathlib\npathlib.Path(os.environ['MARK']).write_text('planted')\nos._exit(3)\n"


def test_workers_that_are_started_in_an_opened_folder_load_nothing_from_it(tmp_path):
    """`interlock serve --root . --workers 2` in a project is the usual way to begin."""
    root, mark = tmp_path / "root", tmp_path / "mark"
    (root / "interlock").mkdir(parents=True)
    for name in ("interlock/__init__.py", "orjson.py", "logging.py"):
        (root / name).write_text(PLANTED)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
        "WORKER_MAX_CRASHES": "1",
        "MARK": str(mark),
    }
    supervisor = subprocess.Popen(
        # As the program that pip installs: without the folder it stands in.
        [sys.executable, "-P", "-m", "interlock", "supervisor", "--workers", "1"],
        cwd=root,
        env=environment,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 60
        told = b""
        while b"working on" not in told:
            assert not mark.exists(), "a worker ran what lay in the opened folder"
            assert time.monotonic() < deadline, told
            line = supervisor.stderr.readline()
            assert line, f"the supervisor has ended: {told!r}"
            told += line
    finally:
        supervisor.terminate()
        supervisor.communicate(timeout=60)
    assert not mark.exists()
