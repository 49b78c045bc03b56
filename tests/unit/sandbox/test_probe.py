"""A report's verdict, and that a probe answers whatever happens."""

from contextlib import asynccontextmanager

import pytest

from interlock.sandbox.jobs import ExitReason, JobExit, SandboxUnavailable
from interlock.sandbox.probe import ProbeCheck, ProbeReport, probe

HOLDS = ProbeCheck("one", holds=True, detail="stopped")
OPEN = ProbeCheck("two", holds=False, detail="open", is_mandatory=False)
BROKEN = ProbeCheck("three", holds=False, detail="NOT blocked")


@pytest.mark.parametrize(
    ("rows", "ok"),
    [((HOLDS,), True), ((HOLDS, OPEN), True), ((HOLDS, BROKEN), False), ((), False), ((BROKEN,), False)],
)
def test_a_report_is_good_only_if_every_mandatory_row_holds(rows, ok):
    report = ProbeReport("some", rows, 0.1)
    assert report.ok is ok
    assert report.failures == tuple(row for row in rows if row is BROKEN)
    assert report.open == tuple(row for row in rows if row is OPEN)


class Scripted:
    """A backend whose children answer what they are told to."""

    name = "scripted"

    def __init__(self, *, answer: bytes = b"", code: int = 0, error: Exception | None = None) -> None:
        self._answer, self._code, self._error = answer, code, error

    async def close(self) -> None:
        return None

    @asynccontextmanager
    async def running(self, job):
        if self._error is not None:
            raise self._error
        yield ScriptedChild(self._answer, JobExit(ExitReason.exited, self._code))


class ScriptedChild:
    def __init__(self, answer: bytes, ended: JobExit) -> None:
        self.stdout, self.stderr = ScriptedOutput(answer), ScriptedOutput(b"complaint")
        self._ended = ended

    async def wait(self) -> JobExit:
        return self._ended


class ScriptedOutput:
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def read(self, limit_bytes: int = 0) -> bytes:
        content, self._content = self._content, b""
        return content


@pytest.mark.parametrize(
    ("backend", "detail"),
    [
        (Scripted(error=SandboxUnavailable("no Landlock here")), "no Landlock here"),
        (Scripted(error=OSError(13, "Permission denied")), "Permission denied"),
        (Scripted(error=ZeroDivisionError()), "ZeroDivisionError"),
        (Scripted(answer=b"garbage"), ""),
        (Scripted(answer=b""), ""),
        (Scripted(answer=b"{\x00"), ""),
        (Scripted(code=1), "exit code 1 complaint"),
    ],
)
async def test_whatever_goes_wrong_is_a_row_that_does_not_hold(backend, detail):
    report = await probe(backend, opened=())
    assert not report.ok
    assert detail in report.text


async def test_a_probe_that_takes_too_long_does_not_hold(monkeypatch):
    monkeypatch.setattr("interlock.sandbox.probe._SECONDS", 0)
    report = await probe(Scripted(), opened=())
    assert not report.ok


async def test_a_state_folder_that_cannot_be_prepared_does_not_hold(tmp_path, monkeypatch):
    monkeypatch.setattr("interlock.sandbox.probe._Bait._file", _refuse)
    report = await probe(Scripted(), state_folder=tmp_path, opened=())
    assert not report.ok


def _refuse(*_arguments):
    raise PermissionError(13, "Permission denied")
