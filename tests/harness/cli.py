"""A person at a terminal: runs `interlock` as a real process, in a home of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from interlock.sandbox.programs import Program, locate


@dataclass
class CliRunner:
    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = (sys.executable, "-m", "interlock")

    @classmethod
    def in_bare_environment(cls, home: Path, *programs: str) -> "CliRunner":
        """With these programs and no others: none beside Python, none on the search path."""
        folder = home / "bin"
        folder.mkdir()
        (folder / "python").symlink_to(sys.executable)
        for name in programs:
            (folder / name).symlink_to(locate(Program("", (name,), "", ""), ()))
        code = "import sys; sys.executable = sys.argv[1]; from interlock.cli.main import run; "
        code += "sys.exit(run(sys.argv[2:]))"
        variables = {"PATH": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
        return cls(home, variables, (sys.executable, "-c", code, str(folder / "python")))

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "INTERLOCK_STATE_DIR": str(self.home / "state"),
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
        }
        return own | self.variables

    def __call__(self, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [*self.program, *arguments],
            capture_output=True,
            text=True,
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == expect, done.stderr or done.stdout
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, expect: int = 0):
        return json.loads(self(*arguments, "--json", expect=expect).stdout)


def one_line_error(shell: CliRunner, *arguments: str, expect: int = 1) -> str:
    done = shell(*arguments, expect=expect)
    assert done.stdout == ""
    assert done.stderr.startswith("interlock: ")
    assert done.stderr.count("\n") == 1
    return done.stderr
