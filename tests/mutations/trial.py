"""Tries mutations in a throw-away copy of the tree, with the interpreter of a throw-away environment.

The environment puts the copy's `src` before the installed one, so that processes which a test starts run
the broken code too, whatever environment variables they are given.
"""

import os
import shutil
import subprocess
import sysconfig
import venv
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.catalogue import Mutation

_COPIED = ("src", "tests", "docs", "examples", "deploy", "bench", "pyproject.toml", "Makefile")
_NOT_COPIED = shutil.ignore_patterns("__pycache__")
# A test that looked fails like this: by an assertion, by what was not raised, by one thing where two are
# unpacked. Anything else may come of a mutation that is no sensible code.
_ASSERTIONS = (
    *("AssertionError", "assert ", "Failed: "),
    *("ValueError: not enough values to unpack", "ValueError: too many values to unpack"),
)
_NOT_PASSED = ("failure", "error", "skipped")
_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Outcome:
    passed: int
    failures: tuple[str, ...]
    errors: int
    skipped: int
    text: str

    @property
    def all_passed(self) -> bool:
        return self.passed > 0 and not (self.failures or self.errors or self.skipped)

    @property
    def complaint(self) -> str | None:
        """Why this run does not show that a test noticed a mutation, or None if it does."""
        if self.errors:
            return "the test broke before it could look at anything"
        if not self.failures:
            return "the test did not notice" if self.passed else "the test did not run"
        if not any(failure.startswith(_ASSERTIONS) for failure in self.failures):
            return f"the test did not fail by what it checks: {self.failures[0]}"
        return None


class Bench:
    """A copy of the tree in which one file at a time is broken and mended again."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.copy = folder / "tree"
        self._report = folder / "report.xml"
        self.copy.mkdir()
        for name in _COPIED:
            if (tree / name).is_dir():
                shutil.copytree(tree / name, self.copy / name, ignore=_NOT_COPIED, symlinks=True)
            elif (tree / name).exists():
                shutil.copy(tree / name, self.copy / name)
        self._python = self._environment(folder / "environment")

    def _environment(self, folder: Path) -> Path:
        venv.create(folder, symlinks=True, with_pip=False)
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
        installed = sysconfig.get_path("purelib")
        (packages / "broken.pth").write_text(
            f"{self.copy / 'src'}\nimport site; site.addsitedir({installed!r})\n"
        )
        # It came with the packages. It is looked for beside the interpreter, where the sandbox lets it run.
        shutil.copy(Path(sysconfig.get_path("scripts")) / "rg", folder / "bin")
        return folder / "bin" / "python"

    def run(self, *tests: str) -> Outcome:
        self._report.unlink(missing_ok=True)
        options = ("-p", "no:cacheprovider", f"--junitxml={self._report}")
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            done = subprocess.run(
                [self._python, "-m", "pytest", *options, *tests],
                cwd=self.copy,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Outcome(0, (), 1, 0, f"no end within {_TIMEOUT_SECONDS} seconds")
        return _outcome(self._report, done.stdout)

    def run_broken(self, mutation: Mutation) -> Outcome:
        path = self.copy / "src" / "interlock" / mutation.file
        whole = path.read_text()
        _put(path, mutation.applied_to(whole))
        try:
            return self.run(mutation.test)
        finally:
            _put(path, whole)


def _put(path: Path, text: str) -> None:
    """Write a module. What was compiled of it goes: its size and second could be the same as before."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def _outcome(report: Path, text: str) -> Outcome:
    if not report.exists():
        return Outcome(0, (), 1, 0, text)
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - written by our own pytest
    failures = [case.find("failure") for case in cases]
    return Outcome(
        passed=sum(all(part.tag not in _NOT_PASSED for part in case) for case in cases),
        failures=tuple(str(failure.get("message")) for failure in failures if failure is not None),
        errors=sum(case.find("error") is not None for case in cases),
        skipped=sum(case.find("skipped") is not None for case in cases),
        text=text,
    )
