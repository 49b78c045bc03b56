"""Processes of `interlock` that are forked from one that has everything loaded: a start takes no second."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


class ForkClient:
    """The process that forks them. May be asked from several threads."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.fork_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        )
        self._ends: dict[int, int] = {}
        self._started: list[int] = []
        self._is_over = False
        self._news = threading.Condition()
        self._starting = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def start(
        self,
        *words: str,
        environment: Mapping[str, str],
        folder: Path,
        streams: Sequence[str],
        is_terminal: bool = False,
        dies_at: str = "",
    ) -> int:
        """`interlock WORDS` with these files as its streams; gives its number."""
        order = {
            "words": words,
            "environment": dict(environment),
            "folder": str(folder),
            "streams": list(streams),
            "is_terminal": is_terminal,
            "dies_at": dies_at,
        }
        with self._starting:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            with self._news:
                assert self._news.wait_for(lambda: self._started or self._is_over, 60)
                assert not self._is_over, "the fork server has ended"
                return self._started.pop()

    def wait(self, pid: int, seconds: float | None = None) -> int:
        """How it ended."""
        with self._news:
            assert self._news.wait_for(lambda: pid in self._ends, seconds), "it does not end"
            return self._ends.pop(pid)

    def run(
        self, *words: str, environment: Mapping[str, str], folder: Path, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[bytes]:
        """To its end, with nothing on its input."""
        with tempfile.TemporaryDirectory() as place:
            said, told = Path(place, "out"), Path(place, "err")
            pid = self.start(
                *words, environment=environment, folder=folder, streams=(os.devnull, str(said), str(told))
            )
            try:
                code = self.wait(pid, seconds)
            except AssertionError:
                os.kill(pid, 9)
                raise
            return subprocess.CompletedProcess(words, code, said.read_bytes(), told.read_bytes())

    def _listen(self) -> None:
        for line in self._process.stdout:
            pid, *code = (int(word) for word in line.split())
            with self._news:
                if code:
                    self._ends[pid] = code[0]
                else:
                    self._started.append(pid)
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(10)


@cache
def shared_fork_client() -> ForkClient:
    """The one of this process; it ends with it."""
    return ForkClient()
