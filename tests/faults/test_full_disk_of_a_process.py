"""Whole processes whose state folder, standard output or log lie on a full disk."""

import asyncio
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.core.logging import StructuredLogger, log_to_stderr
from interlock.db.database import StoreConfig, open_database
from tests.faults.disks import mounting, small_disk
from tests.harness.cli_processes import ProcessHarness
from tests.harness.model_answers import called, said
from tests.harness.model_server import ModelServer

FULL = Path("/dev/full")


@mounting
@pytest.mark.parametrize("moment", ["asked", "answered"])
async def test_a_task_goes_on_when_there_is_space_again(tmp_path, new_state, sqlite_template, moment):
    """Full before a call's intent can be written, or before its answer can: nothing runs unrecorded."""
    home = tmp_path / "home"
    home.mkdir()
    with small_disk(home / "state", size="8m", inodes=2000) as disk:
        harness = _furnished(home, new_state, sqlite_template)
        filled: list[bool] = []
        seen: list[bool] = []

        def decide(asked):
            seen.append((harness.root / "made.txt").exists())
            answers = sum(message["role"] == "tool" for message in asked.messages)
            if not filled and answers == (moment == "answered"):
                filled.append(True)
                disk.fill()
                asyncio.get_running_loop().call_later(1.0, disk.free)
            if not answers:
                return called(("write_file", {"path": "made.txt", "content": "once\n"}))
            return said("It is written.")

        async with ModelServer(decide) as server:
            harness.asks(server)
            ran = await harness.execute("make a file")
            assert server.faults == []
        assert filled
        assert ran.stdout == "It is written.\n"
        assert (harness.root / "made.txt").read_text() == "once\n"
        if moment == "asked":
            assert seen[:2] == [False, False], "the call ran though its intent could not be written"
        assert len(harness.events("tool_call.completed")) == 1
        (finished,) = harness.events("task.finished")
        assert finished.fields["status"] == "done"
        harness.assert_sound()


def _furnished(home: Path, new_state: Path, template: Path) -> ProcessHarness:
    """As for the other places, in a state folder that is there already because it is a disk."""
    made = ProcessHarness(home, {"CONTROL_RETRY_SECONDS": "0.05"})
    made.root.mkdir()
    shutil.copytree(new_state, made.state, dirs_exist_ok=True)
    shutil.copy(template, made.state / "interlock.db")
    return made


@mounting
async def test_a_command_on_a_full_disk_is_one_sentence_and_exit_1(tmp_path, new_state, sqlite_template):
    with small_disk(tmp_path / "state", size="8m", inodes=2000) as disk:
        harness = _furnished(tmp_path, new_state, sqlite_template)
        harness.variables["MODEL"] = 'scripted:["ok"]'
        open_database(StoreConfig(f"sqlite:///{harness.state}/interlock.db")).close()
        disk.fill()
        ran = await harness.run("exec", "hello", expect=1)
        (sentence,) = ran.stderr.splitlines()
        assert "is full: nothing new is written until 5 MiB are free" in sentence
        assert ran.stdout == ""
        disk.free()
        assert (await harness.run("exec", "hello")).stdout == "ok\n"


async def test_output_to_a_full_disk_is_one_sentence_and_exit_1(harness):
    harness.variables["MODEL"] = 'scripted:["ok"]'
    await harness.run("exec", "hello")
    for words in (
        ("sessions", "export", harness.session),
        ("sessions", "list", "--group", "all"),
        ("events", "tree", harness.session),
    ):
        code, told = await _into(harness, FULL, 1, *words)
        (sentence,) = told.splitlines()
        assert code == 1, words
        assert sentence == "interlock: the output cannot be written: No space left on device"


async def test_a_process_whose_log_cannot_be_written_works_on(harness):
    harness.variables |= {"MODEL": 'scripted:["call:current_time {}", "ok"]', "LOG_LEVEL": "debug"}
    code, printed = await _into(harness, FULL, 2, "exec", "hello")
    assert (code, printed) == (0, "ok\n")
    harness.assert_sound()


async def _into(harness: ProcessHarness, target: Path, stream: int, *words: str) -> tuple[int, str]:
    """Run a command with one of its streams in that file; what it says on the other one."""
    with target.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "interlock", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file if stream == 1 else asyncio.subprocess.PIPE,
            stderr=file if stream == 2 else asyncio.subprocess.PIPE,
            cwd=harness.home,
            env=harness.environment,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, (err if stream == 1 else out).decode()


def test_a_log_on_a_full_disk_loses_its_lines_and_nothing_else(monkeypatch):
    """Whatever logs does so in the middle of something else, often of a failure."""
    told: list[str] = []
    # What is left in its buffer cannot be written when it is closed either.
    with suppress(OSError), FULL.open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        log_to_stderr("info")
        log = StructuredLogger("interlock.faults")
        for number in range(200):
            log.warning("lost", number=number, text="x" * 100)
        told.append("all of it")
    assert told == ["all of it"]
