"""A job that somebody writes to: what goes in comes out, a full pipe waits, and its end is noticed."""

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.sandbox.backend_selection import choose_backend
from interlock.sandbox.bubblewrap_backend import BubblewrapBackend
from interlock.sandbox.jobs import ExitReason, Job
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.unconfined_backend import UnconfinedBackend

SOON_SECONDS = 15.0


@pytest.fixture(params=["landlock", "bubblewrap", "off"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "off":
        made = UnconfinedBackend()
    elif request.param == "bubblewrap" and BubblewrapBackend.found(()) is None:
        pytest.skip("bubblewrap is not installed")
    else:
        made = (await choose_backend(request.param, state_folder=tmp_path, opened=())).backend
        if made is None:
            pytest.skip(f"{request.param} does not work here")
    yield made
    await made.close()


@asynccontextmanager
async def running(backend, place: Path, *argv: str, has_stdin: bool = True):
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        job = Job(argv, folder, {"PATH": "/usr/bin:/bin"}, SandboxProfile((place,)), has_stdin=has_stdin)
        async with asyncio.timeout(SOON_SECONDS), backend.running(job) as child:
            yield child
    finally:
        os.close(folder)


async def read_all(output) -> bytes:
    data = b""
    while piece := await output.read():
        data += piece
    return data


async def test_what_is_written_is_read_and_closing_it_is_the_end(backend, tmp_path):
    async with running(backend, tmp_path, "/bin/cat") as child:
        await child.stdin.write(b"one\n")
        assert await child.stdout.read() == b"one\n"
        await child.stdin.write(b"two\n")
        child.stdin.close()
        assert await read_all(child.stdout) == b"two\n"
        assert (await child.wait()).exit_code == 0


async def test_more_than_a_pipe_holds_waits_for_the_reader(backend, tmp_path):
    data = os.urandom(3 * 2**20)
    async with running(backend, tmp_path, "/bin/cat") as child:
        reading = asyncio.ensure_future(read_all(child.stdout))
        await child.stdin.write(data)
        child.stdin.close()
        assert await reading == data


async def test_who_writes_to_a_program_that_has_ended_is_told(backend, tmp_path):
    async with running(backend, tmp_path, "/bin/true") as child:
        assert (await child.wait()).reason is ExitReason.exited
        with pytest.raises(OSError):  # noqa: PT011 - whichever the system gives
            await child.stdin.write(b"x" * 2**20)


async def test_a_writer_that_waits_is_let_go_when_the_job_is_closed(backend, tmp_path):
    async with running(backend, tmp_path, "/bin/sleep", "60") as child:
        writing = asyncio.ensure_future(child.stdin.write(b"x" * 2**20))
        await asyncio.sleep(0)
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system gives
        await writing


async def test_a_job_without_an_input_reads_nothing(backend, tmp_path):
    async with running(backend, tmp_path, "/bin/cat", has_stdin=False) as child:
        assert child.stdin is None
        assert await read_all(child.stdout) == b""
