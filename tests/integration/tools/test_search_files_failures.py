"""`search_files` where it cannot search or is stopped: reasons, and no process left."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from interlock.tools.builtins import search_files
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.searching import found, searched_with
from tests.integration.tools.slowness import Slow

# -- failures --


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "pattern: unclosed group"),
        ("[z-a]", "pattern: invalid character class range"),
        ("a{1000}{1000}{1000}", "size limit"),
        ("a\nb", 'pattern: the literal "\\n" is not allowed'),
        (r"a\nb", "is not allowed"),
        ("(?=a)", "look-around"),
        ("a\0b", "null character"),
    ],
)
async def test_a_pattern_that_is_none_is_refused_with_the_reason(harness: ToolHarness, pattern, said):
    harness.write("a.txt", "x\n")
    result = await harness.call("search_files", pattern=pattern)
    assert result.failure is not None
    assert result.failure.error_code == "INVALID_ARGS"
    assert said in result.failure.message
    assert "--" not in result.failure.message


BAD_ARGUMENTS = [
    ({}, "pattern"),
    ({"pattern": ""}, "pattern"),
    ({"pattern": 5}, "pattern"),
    ({"pattern": "x", "limit": "5"}, "limit"),
    ({"pattern": "x", "limit": 0}, "limit"),
    ({"pattern": "x", "glob": ""}, "glob"),
    ({"pattern": "x", "glob": "a\0"}, "glob"),
    ({"pattern": "x", "case_sensitive": False}, "case_sensitive"),
]


async def test_bad_arguments_are_refused_by_name(harness: ToolHarness):
    for arguments, place in BAD_ARGUMENTS:
        result = await harness.call("search_files", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


async def test_what_is_missing_or_has_no_lines_is_refused(harness: ToolHarness):
    os.mkfifo(harness.root / "pipe")
    harness.write("main.py")
    for path, said in (("pipe", "not a regular file"), ("mian.py", "did you mean main.py?")):
        result = await harness.call("search_files", pattern="x", path=path, timeout=5)
        assert result.failure is not None
        assert said in result.failure.message


async def test_a_pipe_in_a_folder_is_not_waited_for(harness: ToolHarness):
    os.mkfifo(harness.root / "pipe")
    harness.write("a.txt", "needle\n")
    assert await found(harness, "needle", timeout=20) == ["a.txt:1:needle"]


def test_files_without_permission_are_said_to_be_missing(harness: ToolHarness, as_ordinary_account):
    harness.write("a.txt", "needle\n")
    harness.write("closed.txt", "needle\n").chmod(0)
    result = as_ordinary_account("search_files", pattern="needle")
    assert result["stdout"] == "a.txt:1:needle\n"
    assert "could not be read" in result["stderr"]


async def test_without_rg_it_is_said_what_to_install(harness: ToolHarness, monkeypatch):
    monkeypatch.setattr("interlock.wiring.authority_inputs.locate", lambda _program, _opened: None)
    result = await harness.call("search_files", pattern="x")
    assert result.failure is not None
    assert result.failure.error_code == "TOOL_NOT_AVAILABLE"
    assert "rg" in result.failure.message
    assert "ripgrep" in result.failure.message + result.failure.next_action


@pytest.mark.parametrize("program", [None, Path("/nonexistent/rg")])
async def test_an_rg_that_is_gone_by_now_is_told_as_well(harness: ToolHarness, program):
    result = await searched_with(harness, program, "x")
    assert result.failure is not None
    assert result.failure.error_code == "TOOL_NOT_AVAILABLE"
    assert "ripgrep" in result.failure.next_action


async def test_a_sandbox_that_is_gone_is_told_as_such(harness: ToolHarness):
    """Not as a fault of the tool: trying it again is of no use."""
    await harness.open_sandbox()
    await harness.backend.close()
    result = await harness.call("search_files", pattern="x")
    assert result.failure is not None
    assert result.failure.error_code == "TOOL_NOT_AVAILABLE"
    assert "could not be confined: the sandbox is closed" in result.failure.message


# -- processes and descriptors --


def children() -> list[int]:
    """The processes that this one has started and that are not gone."""
    own = Path("/proc/self/task")
    return [
        int(pid)
        for task in own.iterdir()
        for pid in (task / "children").read_text().split()
        if Path(f"/proc/{pid}/comm").read_text().strip() in {"rg", "slow-rg"}
    ]


def slow_program(folder: Path) -> tuple[Path, Path]:
    """A program in the place of rg that starts another, says which they are, and hangs at a pipe."""
    program, said, ready = folder / "slow-rg", folder / "pids", folder / "ready"
    os.mkfifo(ready)
    program.write_text(f'#!/bin/sh\nsleep 600 &\necho "$$ $!" > {said}\necho ready > {ready}\nwait\n')
    program.chmod(0o755)
    return program, said


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def are_dead(pids: str) -> bool:
    """Those that were killed, as soon as the system has come to it."""
    deadline = time.monotonic() + 15
    while any(is_alive(int(pid)) for pid in pids.split()):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


async def test_a_time_out_leaves_no_process_behind(harness: ToolHarness, tmp_path, open_descriptors):
    """The whole group dies, also what the program itself had started."""
    program, said = slow_program(tmp_path)
    before = open_descriptors()
    result = await searched_with(harness, program, "x", timeout=1.0)
    assert result.failure is not None
    assert result.failure.error_code == "TIMEOUT"
    assert await are_dead(said.read_text())
    await asyncio.sleep(0)
    assert open_descriptors() == before


async def test_a_cancelled_search_leaves_no_process_behind(
    harness: ToolHarness, tmp_path, open_descriptors
):
    program, said = slow_program(tmp_path)
    before = open_descriptors()
    running = asyncio.ensure_future(searched_with(harness, program, "x"))
    await asyncio.to_thread((tmp_path / "ready").read_text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await are_dead(said.read_text())
    await asyncio.sleep(0)
    assert open_descriptors() == before


async def test_a_search_that_is_cancelled_while_its_folder_is_opened_leaves_it_closed(
    harness: ToolHarness, monkeypatch, open_descriptors
):
    """A disk that does not answer is why people cancel."""
    before, slow = open_descriptors(), Slow(search_files._opened)
    monkeypatch.setattr(search_files, "_opened", slow)
    running = asyncio.ensure_future(harness.call("search_files", pattern="x"))
    await slow.cancel(running)
    assert open_descriptors() == before


async def test_searching_leaves_neither_descriptors_nor_processes(harness: ToolHarness, open_descriptors):
    """Also where rg still had much to say when a page was full."""
    harness.write("a.txt", "needle\n" * 300_000)
    await harness.ok("search_files", pattern="needle", limit=1)
    before = open_descriptors()
    for _ in range(3):
        await harness.ok("search_files", pattern="needle", limit=1)
        await harness.ok("search_files", pattern="nothing")
        await harness.refused("search_files", pattern="(")
        await harness.refused("search_files", pattern="x", path="missing")
    await asyncio.sleep(0)
    assert open_descriptors() == before
    assert children() == []
