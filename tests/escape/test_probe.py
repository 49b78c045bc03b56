"""The probe passes on a sandbox that holds and fails on one that does not, wall by wall."""

import asyncio
import dataclasses
import marshal
import os
import signal
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from interlock.sandbox import landlock_backend
from interlock.sandbox.backend_selection import CACHE_NAME, choose_backend
from interlock.sandbox.child.landlock import CONFINING_ABI, abi_version
from interlock.sandbox.job_pipes import PipeOutput
from interlock.sandbox.jobs import ExitReason, JobExit, system_paths
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.sandbox.probe import probe
from interlock.sandbox.subprocess_backend import interpreter
from interlock.sandbox.unconfined_backend import UnconfinedBackend
from tests.escape.wrapped import obstacle, wrapped
from tests.unit.sandbox.conftest import open_descriptors

WORKS = {
    "read a file inside",
    "write a file inside, where the mode writes",
    "use /dev/null",
    "run a shell",
    "see only the given environment",
}
OUTSIDE = {"read a file outside", "list a folder outside"}
WRITES_OUTSIDE = {"create a file outside", "change a file outside"}
SOCKETS = {
    "connect by TCP",
    "connect by UDP",
    "connect to a Unix socket by its path",
    "connect to a Unix socket by its name",
}
SERVER = {"signal the server", "read the server's environment", "read the server's memory"}
STATE = {"read the state folder", "list the state folder", "write the state folder"}
READING_MODE = {
    "write a file inside, where the mode only reads",
    "change a file's mode, where the mode only reads",
}
KEPT_IN_ORDER = {"inherit a descriptor", "leave the process tree"}
MODES_OUTSIDE = "change the mode of a file outside"
SWITCHES = "change the kernel's settings"
WALLS = {SWITCHES} | OUTSIDE | WRITES_OUTSIDE | SOCKETS | SERVER | STATE | READING_MODE | KEPT_IN_ORDER


def landlock() -> LandlockBackend:
    if abi_version() < CONFINING_ABI:
        pytest.skip("this kernel's Landlock does not stop everything that is mandatory")
    return LandlockBackend()


@pytest.fixture(params=["landlock", "bubblewrap"])
async def whole(request):
    backend = landlock() if request.param == "landlock" else wrapped()
    yield backend
    await backend.close()


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


def beyond_this_account() -> set[str]:
    """What the account may not do anyway, without any sandbox."""
    return set() if os.access("/proc/sys/kernel/core_pattern", os.W_OK) else {SWITCHES}


async def failing(backend, state) -> set[str]:
    try:
        report = await probe(backend, state_folder=state, opened=())
    finally:
        await backend.close()
    assert {row.name for row in report.rows} == WORKS | WALLS | {MODES_OUTSIDE}, report.text
    assert report.ok == (not report.failures)
    return {row.name for row in report.failures}


async def test_every_wall_of_a_real_sandbox_holds_and_what_must_work_works(whole, state):
    report = await probe(whole, state_folder=state, opened=())
    assert report.ok, report.text
    assert {row.name for row in report.rows} == WORKS | WALLS | {MODES_OUTSIDE}
    assert all(row.detail for row in report.rows)


async def test_a_probe_leaves_nothing_behind(whole, state, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await probe(whole, state_folder=state, opened=())
    before = open_descriptors()
    await probe(whole, state_folder=state, opened=())
    assert len(open_descriptors()) <= len(before)
    assert list(state.iterdir()) == []
    assert [path for path in tmp_path.iterdir() if path != state] == []


async def test_a_path_too_long_for_a_socket_is_no_obstacle(whole, tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    report = await probe(whole, opened=())
    assert report.ok, report.text


async def test_without_a_sandbox_every_wall_is_missing_that_only_a_sandbox_makes(state):
    expected = WALLS - KEPT_IN_ORDER - beyond_this_account()
    assert await failing(UnconfinedBackend(), state) == expected


async def test_a_probe_that_fails_tells_what_and_how(state):
    backend = UnconfinedBackend()
    report = await probe(backend, state_folder=state, opened=())
    await backend.close()
    assert not report.ok
    assert "read a file outside (NOT blocked)" in report.text
    assert [row.name for row in report.open] == [MODES_OUTSIDE]


# -- one wall missing --


class Weakened:
    """A real sandbox that is given a little more than the probe asked for."""

    def __init__(self, backend, weaken) -> None:
        self._backend, self._weaken = backend, weaken
        self.name, self.close = backend.name, backend.close

    @asynccontextmanager
    async def running(self, job):
        facts = marshal.loads(bytes.fromhex(job.argv[-1]))  # noqa: S302 - the probe's own
        async with self._backend.running(self._weaken(job, facts)) as child:
            yield child


def with_profile(job, **changes):
    return dataclasses.replace(job, profile=dataclasses.replace(job.profile, **changes))


def reading(name):
    return lambda job, facts: with_profile(
        job, readable_roots=(*job.profile.readable_roots, Path(facts[name]))
    )


def writing(name, kind):
    def weaken(job, facts):
        if facts["kind"] != kind:
            return job
        folder = Path(facts[name])
        return with_profile(job, writable_roots=(*job.profile.writable_roots, folder))

    return weaken


def online(job, facts):
    return with_profile(job, network_ports=frozenset({facts["tcp"][2]}))


def blind(job, facts):
    return with_profile(job, readable_roots=(), writable_roots=())


def talkative(job, facts):
    return dataclasses.replace(job, environment={**job.environment, "SECRET_OF_THE_SERVER": "x"})


WEAKENED = {
    "outside can be read": (reading("outside"), OUTSIDE),
    "outside can be written": (writing("outside", "coding"), OUTSIDE | WRITES_OUTSIDE),
    "the state can be read": (reading("state"), {"read the state folder", "list the state folder"}),
    "the state can be written": (writing("state", "coding"), STATE),
    "a port is open": (online, {"connect by TCP"}),
    "the reading mode writes": (writing("inside", "chat"), READING_MODE),
    "a variable too many": (talkative, {"see only the given environment"}),
}


@pytest.mark.parametrize("name", WEAKENED)
async def test_one_wall_that_is_missing_is_found_and_no_other(name, whole, state):
    weaken, expected = WEAKENED[name]
    found = await failing(Weakened(whole, weaken), state)
    # Under bubblewrap what cannot be reached at all includes a socket's path.
    assert found - {"connect to a Unix socket by its path"} == expected


async def test_a_sandbox_in_which_nothing_works_does_not_pass(state):
    found = await failing(Weakened(landlock(), blind), state)
    assert found == {"read a file inside", "write a file inside, where the mode writes"}


async def test_a_sandbox_without_devices_does_not_pass(state, monkeypatch):
    monkeypatch.setattr(landlock_backend, "DEVICES", ())
    assert {"use /dev/null"} <= await failing(landlock(), state) <= {"use /dev/null", "run a shell"}


async def test_a_sandbox_without_a_shell_does_not_pass(state):
    libraries = [
        path for path in system_paths() if path.name not in ("usr", "bin", "sbin") or "local" in path.parts
    ]
    libraries += [Path("/usr/lib"), Path("/usr/local"), interpreter()]
    assert await failing(LandlockBackend(system=libraries), state) == {"run a shell"}


# -- what no real backend does --


class Careless:
    """Starts a child as a careless program would: descriptors, variables and daemons go their own way."""

    name = "careless"

    async def close(self) -> None:
        return None

    @asynccontextmanager
    async def running(self, job):
        pipes = [os.pipe() for _ in range(2)]
        inherited = os.dup(job.folder)
        os.set_inheritable(inherited, True)
        process = await asyncio.create_subprocess_exec(
            *job.argv,
            stdout=pipes[0][1],
            stderr=pipes[1][1],
            env={**job.environment, "INHERITED": "x"},
            close_fds=False,
            start_new_session=True,
        )
        for descriptor in (inherited, *(pipe[1] for pipe in pipes)):
            os.close(descriptor)
        child = CarelessChild(process, *(PipeOutput(pipe[0]) for pipe in pipes))
        try:
            yield child
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            child.stdout.close()
            child.stderr.close()


class CarelessChild:
    def __init__(self, process, stdout, stderr) -> None:
        self._process, self.stdout, self.stderr = process, stdout, stderr
        self._ending = asyncio.ensure_future(self._end())

    async def _end(self) -> JobExit:
        code = await self._process.wait()
        self.stdout.finish()
        self.stderr.finish()
        return JobExit(ExitReason.exited, code)

    async def wait(self) -> JobExit:
        return await self._ending


async def test_a_backend_that_loses_children_and_leaks_is_found_out(state):
    expected = WALLS | {"see only the given environment"}
    assert await failing(Careless(), state) == expected - beyond_this_account()


# -- choosing --


async def test_auto_takes_landlock_where_it_holds_and_remembers_it(state):
    first = await choose_backend("auto", state_folder=state, opened=())
    if abi_version() >= CONFINING_ABI:
        assert first.backend.name == "landlock"
        assert first.reports[0].ok
        assert (state / CACHE_NAME).stat().st_mode & 0o777 == 0o600
        second = await choose_backend("auto", state_folder=state, opened=())
        assert (second.backend.name, second.reports) == ("landlock", ())
        await second.backend.close()
    await first.backend.close()


async def test_bubblewrap_is_taken_where_it_is_asked_for(state):
    choice = await choose_backend("bubblewrap", state_folder=state, opened=())
    if obstacle():
        assert choice.backend is None
        pytest.skip(obstacle())
    assert (choice.backend.name, choice.is_confined) == ("bubblewrap", True)
    await choice.backend.close()
