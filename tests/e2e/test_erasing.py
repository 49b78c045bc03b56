"""What is deleted is gone from the disk too, though the process ended in the middle of deleting it."""

import signal
import subprocess
import sys

DYING = """
import os, sys
from interlock.sandbox.kept import KeptVersions

KeptVersions.forget = lambda self, session_id: os._exit(9)
from interlock.cli.main import main

main(["sessions", "delete", sys.argv[1], "--yes"])
"""
WORDS = b"what nobody is to read again"


def kept_in(interlock):
    files = (interlock.home / "state" / "kept").rglob("*")
    return [file for file in files if file.is_file() and WORDS in file.read_bytes()]


def test_a_deletion_that_was_cut_short_is_finished_by_whoever_works_next(interlock):
    root = interlock.home / "root"
    root.mkdir()
    interlock.variables |= {"TOOL_ALLOWED_ROOTS": str(root), "TOOL_SANDBOX": "off"}
    sessions = []
    for name in ("one", "two"):
        (root / name).write_bytes(WORDS)
        call = ("tool", "call", "delete_file", "--args", f'{{"path": "{name}"}}', "--mode", "coding")
        sessions.append(interlock.json(*call)["session_id"])
    dying = [sys.executable, "-c", DYING, sessions[0]]
    assert subprocess.run(dying, env=interlock.environment, capture_output=True).returncode == 9
    assert len(kept_in(interlock)) == 2
    worker = subprocess.Popen(
        [sys.executable, "-m", "interlock", "worker"], env=interlock.environment, stderr=subprocess.PIPE
    )
    assert b"working on" in worker.stderr.readline()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)
    (left,) = kept_in(interlock)
    assert sessions[1] in str(left)
