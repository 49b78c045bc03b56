"""Reads long commands in a process of their own, because the grammar takes no deadline.

The process has half a second of processor time, enforced by the kernel (a timer whose signal ends it also
within C code), little memory, and can open nothing: no file and no socket. It is started for each command
longer than `MAX_HERE`: 50 ms of processor time, for one command in many.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import tree_sitter

import interlock
from interlock.commands.parse import (
    MAX_BYTES,
    MAX_HERE,
    SimpleCommand,
    UnreadableCommand,
    read_commands,
)

CPU_SECONDS = 0.5
# If the machine is too busy to give it that much: the time until its end.
WALL_SECONDS = 5.0
MEMORY_BYTES = 512 * 2**20
MAX_ANSWER_BYTES = 32 * 2**20

# Where this process found its modules: `-I` ignores PYTHONPATH.
_PLACES = tuple(str(Path(str(module.__file__)).parents[1]) for module in (interlock, tree_sitter))
_CODE = "import sys; sys.path += sys.argv[1:]; from interlock.commands.parse_process import main; main()"
_TOO_LONG = "reading it takes too long or too much memory"


def parse(text: str, home: str, directory: str) -> list[SimpleCommand]:
    """Every command that is written in a text. Raises `UnreadableCommand`."""
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        raise UnreadableCommand(f"it is longer than {MAX_BYTES} bytes")
    if size <= MAX_HERE:
        return read_commands(text, home, directory)
    return _parse_in_process(text, home, directory)


def _parse_in_process(text: str, home: str, directory: str) -> list[SimpleCommand]:
    asked = json.dumps([text.encode("utf-8", "replace").decode(), home, directory]).encode()
    try:
        ended = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-I", "-c", _CODE, *_PLACES],
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            timeout=WALL_SECONDS,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        # OSError: no process can be started.
        raise UnreadableCommand(_TOO_LONG) from error
    if ended.returncode != 0:
        raise UnreadableCommand(_TOO_LONG)
    answer = json.loads(ended.stdout)
    if isinstance(answer, str):
        raise UnreadableCommand(answer)
    return [
        SimpleCommand(tuple(words), tuple((operator, target) for operator, target in redirects), *rest)
        for words, redirects, *rest in answer
    ]


def main() -> None:
    """Answer the one question on standard input with the commands, or with why it cannot be read."""
    text, home, directory = json.loads(sys.stdin.buffer.read())
    # Nothing can be opened later.
    read_commands("true", home, directory)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        commands = read_commands(text, home, directory)
    except UnreadableCommand as error:
        answer: object = str(error)
    else:
        answer = [astuple(each) for each in commands]
    encoded = json.dumps(answer).encode()
    if len(encoded) > MAX_ANSWER_BYTES:
        encoded = json.dumps(_TOO_LONG).encode()
    sys.stdout.buffer.write(encoded)
    sys.stdout.buffer.flush()
    # Nothing is left to do: the interpreter's own end takes time.
    os._exit(0)
