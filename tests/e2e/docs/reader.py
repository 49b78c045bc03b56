"""Somebody who follows a page: types its commands in a clone of the repository, in a home of their own."""

import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.docs.blocks import Block, Command
from tests.e2e.docs.matching import Names, difference

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 60.0
# What the pages call the person who reads them.
READER = "ada"


def clone_into(folder: Path) -> Path:
    """What the pages use of the repository, with the environment that the tests run in."""
    for name in ("README.md", "Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    _stand_in_for_setup(folder)
    return folder


def _stand_in_for_setup(folder: Path) -> None:
    """What `make setup` would have made, newer than all it depends on: nothing is installed by a test."""
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (folder / ".tools" / "bin").mkdir(parents=True)
    (folder / ".tools" / "bin" / "uv").touch(mode=0o755)
    (folder / ".venv" / ".installed").touch()


class Reader:
    def __init__(
        self, home: Path, port: int, variables: Mapping[str, str], stand_ins: Mapping[str, str]
    ) -> None:
        self._home = home
        self._notes = home.parent / f"{home.name}-shell"
        self._notes.mkdir()
        home.mkdir(mode=0o700)
        (home / "interlock").mkdir()
        self._cwd = clone_into(home / "interlock")
        self._names = Names()
        self._last = 0
        self._running: list[subprocess.Popen[str]] = []
        self._stand_ins = {f"/home/{READER}": str(home), "8420": str(port), **stand_ins}
        self._environment = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "GATEWAY_PORT": str(port),
            "PYTHONUNBUFFERED": "1",
            **variables,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        for process in self._running:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def follow(self, block: Block) -> None:
        for command, following in zip_longest(block.commands, block.commands[1:]):
            if following is None and "stays running" in block.notes:
                self._leave_running(block, command)
                return
            # Where the page looks at the code itself, it may be any.
            is_asked = following is not None and following.text == "echo $?"
            expected = int(block.notes.get("exits", 0)) if following is None else 0
            self._run(block, command, None if is_asked else expected)

    def _run(self, block: Block, command: Command, expected: int | None) -> None:
        typed = "".join(f"{line}\n" for line in command.said) or self._here(block.notes.get("typed", ""))
        done = subprocess.run(
            ["bash", "-c", self._script(command)],
            cwd=self._home,
            env=self._environment,
            input=typed,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_SECONDS * 5,
        )
        where = f"{block.place}: {command.text}\n{done.stdout}"
        assert "Traceback" not in done.stdout, where
        if expected is not None:
            assert done.returncode == expected, f"it ended with {done.returncode}: {where}"
        self._last = done.returncode
        if block.language == "console":
            fault = self._compared(block, command, done.stdout)
            assert fault is None, f"{where}\n{fault}"

    def _leave_running(self, block: Block, command: Command) -> None:
        told = self._notes / f"running-{len(self._running)}"
        with told.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", self._script(command)],
                cwd=self._home,
                env=self._environment,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while fault := self._compared(block, command, told.read_text()):
            where = f"{block.place}: {command.text}\n{told.read_text()}\n{fault}"
            assert time.monotonic() < deadline, where
            assert process.poll() is None, f"it ended: {where}"
            time.sleep(0.1)

    def _compared(self, block: Block, command: Command, printed: str) -> str | None:
        """Where a page shows nothing after a command, it leaves out what is not of interest."""
        shown = [self._here(line) for line in command.shown if line.strip()]
        if not shown:
            return None
        lines = [line for line in printed.splitlines() if line.strip()]
        return difference(shown, lines, self._names, in_part="in part" in block.notes)

    def _here(self, text: str) -> str:
        for shown, real in self._stand_ins.items():
            text = text.replace(shown, real)
        return text.replace(f"local:{READER}", f"local:{pwd.getpwuid(os.getuid()).pw_name}")

    def _script(self, command: Command) -> str:
        """One command in the shell that the one before left: its folder, its variables, its exit code."""
        kept, folder = self._notes / "variables", self._notes / "folder"
        text = self._names.in_command(self._here(command.text))
        before = f"cd {shlex.quote(str(self._cwd))}"
        if kept.exists():
            before = f'source {shlex.quote(str(kept))}; cd "$(cat {shlex.quote(str(folder))})"'
        stops = "set -e\n" if "\n" in text else ""
        return (
            f"{before} || exit 99\n"
            f"trap 'code=$?; export -p > {shlex.quote(str(kept))}; pwd > {shlex.quote(str(folder))}; "
            f"exit $code' EXIT\n"
            f"{stops}(exit {self._last}){' || true' if stops else ''}\n{text}\n"
        )
