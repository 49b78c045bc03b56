"""Runs `interlock` in the test's own process, as if it were a new one, and gives what it printed.

A new process costs most of a second before it does anything. What it would have for itself is given and
taken back here: descriptors 0 to 2, environment, working directory, signals, umask, time zone, log,
warnings, hooks, and caches that depend on any of these. In the main thread only, and not below a running
event loop: signals and `asyncio.run` work there alone.
"""

import asyncio
import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interlock.cli.main import main
from interlock.tools.shell import tool as shell_tool
from tests.harness.log_capture import reset_logging

PATIENCE_SECONDS = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)
# Without a locale Python chooses this one, and tells its children.
LOCALE = {"LC_CTYPE": "C.UTF-8"}


def can_run_in_process() -> bool:
    # No other name of it is public, and to ask for the loop would be an error where there is none.
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and asyncio._get_running_loop() is None


def run_in_process(
    arguments: list[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    given: bytes = b"",
    executable: str = sys.executable,
) -> subprocess.CompletedProcess[bytes]:
    """As `python -m interlock ARGUMENTS` would, with `given` on its input."""
    assert can_run_in_process(), "in a test with a running loop, await it or start a process"
    before = set(threading.enumerate())
    with ExitStack() as own:
        streams = [own.enter_context(_descriptor(number)) for number in range(3)]
        with open(streams[0], "r+b", closefd=False) as file:
            file.write(given)
            file.seek(0)
        own.enter_context(_surroundings(environment, cwd, executable))
        own.enter_context(_hooks())
        own.enter_context(_log())
        own.enter_context(_python_streams())
        code = _code_of(arguments)
        for thread in set(threading.enumerate()) - before:
            # A process waits for them before it ends.
            if not thread.daemon:
                thread.join(PATIENCE_SECONDS)
                assert not thread.is_alive(), f"it would not end: {thread}"
        sys.stdout.flush()
        sys.stderr.flush()
        said, told = (os.pread(number, os.fstat(number).st_size, 0) for number in streams[1:])
    return subprocess.CompletedProcess(arguments, code, said, told)


def _code_of(arguments: list[str]) -> int:
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException as error:  # noqa: BLE001 - as Python does with what nobody catches
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    raise AssertionError("the program did not say how it ended")


@contextmanager
def _descriptor(number: int) -> Iterator[int]:
    """A file in place of it, to be written and read again."""
    kept = os.dup(number)
    file = os.memfd_create(f"descriptor{number}")
    os.dup2(file, number)
    try:
        yield file
    finally:
        os.dup2(kept, number)
        os.close(kept)
        os.close(file)


@contextmanager
def _python_streams() -> Iterator[None]:
    """As Python opens them where there is no locale."""
    kept = sys.stdin, sys.stdout, sys.stderr
    with ExitStack() as own:
        binary = [own.enter_context(open(n, "wb" if n else "rb", closefd=False)) for n in range(3)]
        sys.stdin = io.TextIOWrapper(binary[0], "utf-8", "surrogateescape")
        sys.stdout = io.TextIOWrapper(binary[1], "utf-8", "surrogateescape")
        sys.stderr = io.TextIOWrapper(binary[2], "utf-8", "backslashreplace", line_buffering=True)
        try:
            yield
        finally:
            sys.stdin, sys.stdout, sys.stderr = kept


@contextmanager
def _surroundings(environment: Mapping[str, str], cwd: Path, executable: str) -> Iterator[None]:
    kept, folder, mask, program = dict(os.environ), os.open(".", os.O_PATH), os.umask(0o022), sys.executable
    os.umask(mask)
    _set_environment(LOCALE | dict(environment))
    os.chdir(cwd)
    sys.executable = executable
    # It keeps the folder of the person for whom it judges.
    shell_tool._judge_for.cache_clear()
    try:
        yield
    finally:
        sys.executable = program
        os.umask(mask)
        os.fchdir(folder)
        os.close(folder)
        _set_environment(kept)
        shell_tool._judge_for.cache_clear()


def _set_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


@contextmanager
def _hooks() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    hooks = sys.excepthook, sys.unraisablehook, threading.excepthook
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with warnings.catch_warnings():
        # As Python has them without options: what a process leaves open when it ends is no fault.
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        try:
            yield
        finally:
            sys.excepthook, sys.unraisablehook, threading.excepthook = hooks
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def _log() -> Iterator[None]:
    """Nobody has set up anything; pytest has."""
    root, ours = logging.getLogger(), logging.getLogger("interlock")
    kept = root.handlers[:], root.level, ours.handlers[:], ours.level
    reset_logging()
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        reset_logging()
        root.handlers[:], level, ours.handlers[:], own_level = kept
        root.setLevel(level)
        ours.setLevel(own_level)
