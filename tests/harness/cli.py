"""A person at a terminal: runs `interlock` in a home of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.sandbox.programs import Program, locate
from tests.harness.cli_in_process import run_in_process

# As `python -m interlock`, for an installation whose Python is said to be elsewhere.
_ELSEWHERE = "import sys; sys.executable = sys.argv[1]; from interlock.cli.main import run; "
_ELSEWHERE += "sys.exit(run(sys.argv[2:]))"


@dataclass
class CliRunner:
    """Commands run in the test's process, which is quick. With `process`, each is a process of its own."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    process: bool = False
    executable: str = sys.executable

    @classmethod
    def in_bare_environment(cls, home: Path, *programs: str) -> "CliRunner":
        """With these programs and no others: none beside Python, none on the search path."""
        folder = home / "bin"
        folder.mkdir()
        (folder / "python").symlink_to(sys.executable)
        for name in programs:
            (folder / name).symlink_to(locate(Program("", (name,), "", ""), ()))
        variables = {"PATH": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
        return cls(home, variables, executable=str(folder / "python"))

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "INTERLOCK_STATE_DIR": str(self.home / "state"),
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
        }
        return own | self.variables

    @property
    def program(self) -> tuple[str, ...]:
        if self.executable == sys.executable:
            return (sys.executable, "-m", "interlock")
        return (sys.executable, "-c", _ELSEWHERE, self.executable)

    def __call__(
        self, *arguments: str, expect: int = 0, given: bytes = b""
    ) -> subprocess.CompletedProcess[str]:
        """Its output as text; it must end with `expect`."""
        ran = self.run(*arguments, given=given)
        said, told = (stream.decode().replace("\r\n", "\n") for stream in (ran.stdout, ran.stderr))
        assert ran.returncode == expect, told or said
        assert "Traceback" not in told, told
        return subprocess.CompletedProcess(ran.args, ran.returncode, said, told)

    def run(
        self, *arguments: str, given: bytes = b"", cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        """However it ends, with what it printed as it is."""
        environment, folder = self.environment | variables, cwd or self.home
        if self.process:
            command = [*self.program, *arguments]
            return subprocess.run(command, input=given, capture_output=True, cwd=folder, env=environment)
        return run_in_process(
            list(arguments), environment=environment, cwd=folder, given=given, executable=self.executable
        )

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen:
        """A process of its own, to be watched, sent signals and waited for; without input unless given."""
        given = {"stdin": subprocess.DEVNULL, "cwd": self.home, "env": self.environment} | options
        return subprocess.Popen([*self.program, *arguments], **given)

    def json(self, *arguments: str, expect: int = 0):
        return json.loads(self(*arguments, "--json", expect=expect).stdout)


def one_line_error(shell: CliRunner, *arguments: str, expect: int = 1) -> str:
    done = shell(*arguments, expect=expect)
    assert done.stdout == ""
    assert done.stderr.startswith("interlock: ")
    assert done.stderr.count("\n") == 1
    return done.stderr
