"""A command that runs in the test's own process prints what a process prints, and leaves nothing behind."""

import gc
import logging
import os
import re
import signal
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.cli_in_process import run_in_process

# What is another one each time.
CHANGING = re.compile(rb"\b[a-z]_[0-9a-f]{16,}\b|\d+(\.\d+)?")


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        # A panel as wide as a terminal that is not there, and a usage error.
        (("events", "tree"), {}),
        # A table, notes beside it, and a warning.
        (("policy", "matrix"), {"TOOL_DENIED": "nothing-like-it", "TOOL_TIMEOUT": "3"}),
        # A failure in one line.
        (("sessions", "show", "s_ü"), {"COLUMNS": "40"}),
        # A task with a call, its log, and a library's warning.
        (("exec", "what time is it?"), {"LOG_LEVEL": "debug", "TZ": "Asia/Shanghai"}),
    ],
)
def test_it_prints_what_a_process_prints(interlock, arguments, variables):
    interlock.variables = variables
    interlock("db", "upgrade")
    apart = replace(interlock, process=True).run(*arguments)
    here = interlock.run(*arguments)
    assert here.returncode == apart.returncode
    for ours, theirs in ((here.stdout, apart.stdout), (here.stderr, apart.stderr)):
        assert CHANGING.sub(b"#", ours) == CHANGING.sub(b"#", theirs)


def surroundings() -> dict[str, object]:
    root = logging.getLogger()
    # What earlier tests left open is not of this one.
    gc.collect()
    return {
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "streams": (sys.stdin, sys.stdout, sys.stderr, *(os.fstat(number) for number in range(3))),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.executable),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "log": (root.handlers[:], root.level, logging.getLogger("interlock").handlers[:]),
        "warnings": warnings.filters[:],
        # A daemon may idle on until its owner is collected.
        "threads": [thread for thread in threading.enumerate() if not thread.daemon],
    }


def test_it_leaves_everything_as_it_was(interlock, tmp_path):
    interlock("exec", "what time is it?")
    before = surroundings()
    (tmp_path / "other").mkdir()
    done = run_in_process(
        ["exec", "what time is it?"],
        environment=interlock.environment | {"LOG_LEVEL": "debug", "TZ": "Asia/Shanghai"},
        cwd=tmp_path / "other",
    )
    assert done.returncode == 0
    assert surroundings() == before
