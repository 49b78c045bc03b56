"""Running a program for a tool: its output as it comes, its end, and nothing of it left."""

import asyncio
import os
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from interlock.sandbox import helper_program
from interlock.sandbox.helper_program import running
from tests.unit.sandbox.conftest import open_descriptors

SH = Path("/bin/sh")


@pytest.fixture
def folder(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


async def output_of(script: str, folder: int) -> tuple[list[bytes], int, str]:
    async with running(SH, ("-c", script), folder) as child:
        async with aclosing(child.lines()) as batches:
            lines = [line async for batch in batches for line in batch]
        return lines, *await child.finish()


async def test_lines_exit_code_and_complaint_are_told(folder):
    assert await output_of("echo one; printf 'two\\n\\nthree'; echo oops >&2; exit 3", folder) == (
        [b"one", b"two", b"", b"three"],
        3,
        "oops\n",
    )


async def test_it_runs_in_the_folder_that_was_opened_wherever_that_is_by_now(folder, tmp_path):
    (tmp_path / "here").touch()
    moved = tmp_path.with_name(tmp_path.name + "-moved")
    tmp_path.rename(moved)
    tmp_path.mkdir()
    assert (await output_of("ls", folder))[0] == [b"here"]


async def test_its_environment_is_not_ours(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    names = {line.split(b"=")[0] for line in (await output_of("env", folder))[0]}
    assert names <= {b"PATH", b"LC_ALL", b"PWD", b"OLDPWD", b"SHLVL", b"_"}


@pytest.mark.parametrize("length", [100, 99_999, 1_000_000])
async def test_a_line_too_long_to_hold_is_passed_over_whole(folder, monkeypatch, length):
    monkeypatch.setattr(helper_program, "LINE_BYTES", 50)
    script = f"echo before; head -c {length} /dev/zero | tr '\\0' x; echo; echo after"
    lines, code, _ = await output_of(script, folder)
    assert (lines[0], lines[-1], code) == (b"before", b"after", 0)
    # Within one read even a long line is at hand.
    assert lines[1:-1] in ([], [b"x" * length])


async def test_much_complaint_is_cut_and_holds_nothing_up(folder):
    _, code, complaint = await output_of("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 2", folder)
    assert code == 2
    assert complaint == "x" * helper_program.MAX_STDERR_BYTES


async def test_what_is_left_unread_is_closed(folder):
    before = open_descriptors()
    script = "while :; do echo line; done"
    async with running(SH, ("-c", script), folder) as child, aclosing(child.lines()) as batches:
        assert (await anext(batches))[0] == b"line"
    assert await child.wait() == -9
    # A pipe is closed in the loop's next turn.
    await asyncio.sleep(0)
    assert open_descriptors() == before


async def test_a_background_child_that_holds_the_pipe_holds_up_nobody(folder):
    script = "setsid sleep 600 & echo $!"
    async with (
        asyncio.timeout(60),
        running(SH, ("-c", script), folder) as child,
        aclosing(child.lines()) as batches,
    ):
        (pid,) = await anext(batches)
    # It left the group on purpose, which a tool's program does not; the call ends all the same.
    with suppress(ProcessLookupError):
        os.kill(int(pid), 9)


async def test_a_program_that_is_not_there_leaves_nothing_open(folder):
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        async with running(Path("/nonexistent/program"), (), folder):
            pass
    # A pipe is closed in the loop's next turn.
    await asyncio.sleep(0)
    assert open_descriptors() == before
