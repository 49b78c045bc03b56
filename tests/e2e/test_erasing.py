"""What is erased is gone from the disk too, though the process ended in the middle of erasing it."""

import signal
import subprocess
import sys

DYING = """
import os, sys
from interlock.core.session_files import SessionFiles

SessionFiles.delete_session = lambda self, session_id: os._exit(9)
from interlock.cli.main import main

main(["sessions", "erase", sys.argv[1], "--yes"])
"""
WORDS = b"what nobody is to read again"


def kept_in(interlock):
    files = (interlock.home / "state" / "kept").rglob("*")
    return [file for file in files if file.is_file() and WORDS in file.read_bytes()]


def work_for_a_moment(interlock):
    worker = interlock.start("worker", stderr=subprocess.PIPE)
    assert b"working on" in worker.stderr.readline()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)


def test_an_erasure_that_was_cut_short_is_finished_by_whoever_works_next(interlock):
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
    work_for_a_moment(interlock)
    (left,) = kept_in(interlock)
    assert sessions[1] in str(left)


def test_what_could_not_be_erased_is_told_and_tried_again(interlock):
    root = interlock.home / "root"
    root.mkdir()
    interlock.variables |= {"TOOL_ALLOWED_ROOTS": str(root), "TOOL_SANDBOX": "off"}
    (root / "one").write_bytes(WORDS)
    call = ("tool", "call", "delete_file", "--args", '{"path": "one"}', "--mode", "coding")
    session = interlock.json(*call)["session_id"]
    kept = interlock.home / "state" / "kept"
    # Nobody who erases follows a link, whoever they are.
    (kept / session).rename(kept / "elsewhere")
    (kept / session).symlink_to(kept / "elsewhere")
    told = interlock("sessions", "erase", session, "--yes").stderr
    assert "files_not_erased" in told
    assert str(kept / session) in told
    assert len(kept_in(interlock)) == 1
    (kept / session).unlink()
    (kept / "elsewhere").rename(kept / session)
    work_for_a_moment(interlock)
    assert kept_in(interlock) == []
