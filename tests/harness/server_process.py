"""`interlock serve` as a real process, in folders of its own, that can be killed and started again."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from interlock.log.kinds import merge_payload

STOP_SECONDS = 20


class ServerProcess:
    def __init__(self, home: Path, open_modes: str = "", **variables: str) -> None:
        self.home = home
        self.root = home / "playground"
        self.root.mkdir(parents=True, exist_ok=True)
        self.open_modes = open_modes
        self.variables = variables
        # How the program is started; the pictures start it under another name.
        self.program = [sys.executable, "-m", "interlock"]
        self.link = ""
        self.origin = ""
        # What a browser that came in by the link was given; other windows come in with the same.
        self.cookies: list[Any] = []
        self._process: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "INTERLOCK_STATE_DIR": str(self.home / "state"),
            "WORKSPACE_DIR": str(self.home / "workspace"),
            "TOOL_ALLOWED_ROOTS": str(self.root),
            **self.variables,
        }

    @property
    def store(self) -> Path:
        return self.home / "state" / "interlock.db"

    def start(self) -> "ServerProcess":
        """The first time on a free port, and always on the same from then on."""
        port = urlsplit(self.origin).port if self.origin else 0
        command = [*self.program, "serve", "--port", str(port)]
        command += ["--open", self.open_modes] if self.open_modes else []
        with (self.home / "stderr.txt").open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        self.link = self._process.stdout.readline().strip()
        assert "#code=" in self.link, self.complaints()
        self.origin = "{0.scheme}://{0.netloc}".format(urlsplit(self.link))
        return self

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def complaints(self) -> str:
        return (self.home / "stderr.txt").read_text()

    def kill(self) -> None:
        """As a machine that loses its power would: nothing is put in order."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """It takes what comes and does nothing with it, until it is killed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        self._end(signal.SIGTERM)
        assert "Traceback" not in self.complaints(), self.complaints()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            assert process.stdout is not None
            process.stdout.close()

    def interlock(self, *arguments: str) -> str:
        """The command line, beside the server, in the same place."""
        done = subprocess.run(
            [*self.program, *arguments],
            env=self.environment | {"GATEWAY_PORT": str(urlsplit(self.origin).port)},
            cwd=self.home,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """What the store says, read as it lies on the disk."""
        connection = sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def events(self, kind: str, session: str | None = None) -> list[Any]:
        """The payloads of all events of one kind, oldest first; of one session or of all."""
        sql = "SELECT facts, content FROM events WHERE kind = ? AND stream = coalesce(?, stream)"
        found = self.rows(f"{sql} ORDER BY stream, seq", kind, session)
        return [merge_payload(*row) for row in found]
