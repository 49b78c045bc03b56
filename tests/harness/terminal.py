"""A person at a real pseudo-terminal: types, and reads what the program shows."""

import fcntl
import os
import pty
import select
import struct
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.cli import CliRunner
from tests.harness.fork_client import shared_fork_client

PATIENCE_SECONDS = 60.0
PROMPT = "you> "


class PseudoTerminal:
    """`interlock` in a terminal of its own. Leaving the block ends it, whatever it does."""

    def __init__(self, shell: CliRunner, *arguments: str) -> None:
        self._shell = shell
        self._arguments = arguments
        self._unread = ""
        self.all = ""

    def __enter__(self) -> Self:
        environment = {"TERM": "xterm", "LANG": "C.UTF-8", **self._shell.environment}
        self._end, self._other = pty.openpty()
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        self.pid = shared_fork_client().start(
            *self._arguments,
            environment=environment,
            folder=self._shell.home,
            streams=[os.ttyname(self._other)] * 3,
            is_terminal=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pid:
            os.kill(self.pid, 9)
            shared_fork_client().wait(self.pid, PATIENCE_SECONDS)
        self._leave_to_it()
        os.close(self._end)

    def reads(self, expected: str = PROMPT) -> str:
        """What is shown until then, `expected` included."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while expected not in self._unread:
            assert self._read(deadline), f"it ended before {expected!r}: {self._unread}"
        end = self._unread.index(expected) + len(expected)
        shown, self._unread = self._unread[:end], self._unread[end:]
        return shown.replace("\r\n", "\n")

    def types(self, text: str, until: str = PROMPT) -> str:
        """A line, and what comes of it."""
        self.keys(f"{text}\n")
        return self.reads(until)

    def insists(self, key: str, until: str) -> str:
        """Press it until that is shown: Python misses a Ctrl-C just before it begins to wait.

        Never twice while the first still speaks: the second would come to the next prompt.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while until not in self._unread and time.monotonic() < deadline:
            self.keys(key)
            while until not in self._unread and select.select([self._end], [], [], 2.0)[0]:
                self._read(deadline)
        return self.reads(until)

    def keys(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def ends(self) -> int:
        """Its exit code, after all it had to say."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        code = shared_fork_client().wait(self.pid, PATIENCE_SECONDS)
        self.pid = 0
        return code

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more is shown: {self._unread}"
        try:
            data = os.read(self._end, 65536)
        except OSError:
            data = b""
        self._leave_to_it()
        self._unread += data.decode(errors="replace")
        self.all += data.decode(errors="replace")
        return bool(data)

    def _leave_to_it(self) -> None:
        """It has opened its end by now, and is the only one to hold it: when it goes, that is seen."""
        if self._other is not None:
            os.close(self._other)
            self._other = None


CTRL_C, CTRL_D = "\x03", "\x04"


def script(home: Path, *items: str) -> str:
    """A model that does this, by the words of the setting MODEL."""
    path = home / f"script{len(list(home.glob('script*')))}.txt"
    path.write_text("\n".join(items) + "\n")
    return f"scripted:{path}"
