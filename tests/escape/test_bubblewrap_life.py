"""The life of a child under bubblewrap: what holds under Landlock holds here, by the same tests."""

import asyncio
import errno
import os
import resource
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.sandbox.jobs import ExitReason, JobLimits, SandboxUnavailable
from tests.escape.conftest import attacked

# Run once more, with the `world` below.
from tests.escape.test_launcher_deaths import (  # noqa: F401
    test_a_cancelled_caller_leaves_nothing,
    test_closing_kills_running_jobs,
    test_when_the_server_is_killed_everything_dies,
)
from tests.escape.test_launcher_life import (  # noqa: F401
    test_a_child_nobody_reads_is_held_up_and_not_buffered,
    test_a_file_that_grows_too_large_ends_its_writer,
    test_a_long_command_line_and_a_large_environment_arrive_whole,
    test_a_missing_root_starts_nothing,
    test_a_program_that_cannot_be_executed_is_told_with_the_systems_reason,
    test_address_space_and_open_files_are_bounded_and_there_is_no_core,
    test_an_argument_list_that_is_too_long_is_told,
    test_both_streams_are_read_apart_and_whole,
    test_it_has_a_session_and_a_group_of_its_own,
    test_it_inherits_no_descriptor_but_its_three,
    test_its_exit_code_is_told,
    test_names_that_are_not_text_arrive_as_they_are,
    test_no_descriptor_is_left_after_many_jobs,
    test_no_signal_is_ignored_or_blocked,
    test_output_can_be_read_after_the_end,
    test_processor_time_is_bounded,
    test_the_environment_is_exactly_the_one_given,
    test_the_signal_that_ended_it_is_told,
    test_thirty_jobs_run_at_once_and_the_loop_stays_free,
    test_where_memory_runs_out_the_kernel_takes_a_job_first,
)
from tests.escape.wrapped import wrapped
from tests.harness.sandbox import SOON_SECONDS, eventually, finished, first_line, only_survivor
from tests.unit.sandbox.conftest import open_descriptors


@pytest.fixture
async def sandbox(tmp_path):
    backend = wrapped()
    with attacked(backend, tmp_path, []) as made:
        yield made
        await backend.close()


@pytest.fixture
def unopened() -> int:
    """What is not opened does not exist."""
    return errno.ENOENT


async def test_a_folder_that_was_moved_away_starts_nothing(sandbox):
    """It is not mounted, and what has its name now was not judged."""
    sandbox.inside.rename(sandbox.place / "moved")
    (sandbox.place / "inside").mkdir()
    done = await sandbox.run("/bin/pwd")
    assert (done.ended.reason, done.ended.error) == (ExitReason.not_started, errno.ENOENT)


async def test_a_root_that_is_swapped_before_it_is_mounted_starts_nothing(sandbox, monkeypatch):
    """Between judging and mounting a path, somebody puts a link to the outside in its place."""
    spawn = sandbox.backend._spawn

    async def swap_first(*arguments):
        sandbox.inside.rename(sandbox.place / "moved")
        sandbox.inside.symlink_to(sandbox.outside)
        return await spawn(*arguments)

    monkeypatch.setattr(sandbox.backend, "_spawn", swap_first)
    done = await sandbox.shell("cat file; echo x > file")
    assert (done.ended.reason, done.out) == (ExitReason.not_started, "")
    assert "replaced" in done.ended.text
    assert (sandbox.outside / "file").read_text() != "x\n"


async def test_what_is_named_by_a_link_is_not_opened(sandbox):
    """Settings are resolved when they are read. What is a link now was not one when it was judged."""
    link = sandbox.place / "link"
    link.symlink_to(sandbox.inside)
    done = await sandbox.shell("cat file", readable_paths=(link,))
    assert (done.ended.reason, done.ended.error) == (ExitReason.not_started, errno.ELOOP)


async def test_more_protected_names_than_files_may_be_open_are_mounted_all_the_same(sandbox):
    """A folder of hundreds of repositories has four of them in each."""
    for number in range(60):
        (sandbox.inside / f"{number}/.git/hooks").mkdir(parents=True)
        (sandbox.inside / f"{number}/.git/config").touch()
    job = sandbox.job("/bin/sh", "-c", "echo x > 59/.git/config")
    job = replace(job, profile=replace(job.profile, protected_names=(".git/hooks", ".git/config")))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_descriptors()) + 100, hard))
    try:
        async with sandbox.backend.running(job) as child:
            done = await finished(child)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert done.ended.reason is ExitReason.exited, done.ended.text
    assert "Read-only file system" in done.err


async def test_what_bubblewrap_complains_about_is_told(sandbox, monkeypatch):
    monkeypatch.setattr("interlock.sandbox.bubblewrap_backend._ALWAYS", ("--bind", "/nonexistent", "/x"))
    done = await sandbox.shell("true")
    assert (done.ended.reason, done.ended.error) == (ExitReason.not_started, errno.ENOENT)
    assert "/nonexistent" in done.ended.text


async def test_a_missing_program_is_told(sandbox):
    sandbox.backend._program = Path("/nonexistent/bwrap")
    with pytest.raises(SandboxUnavailable, match="No such file"):
        await sandbox.shell("true")


async def test_a_stage_that_is_killed_takes_everything_with_it(sandbox):
    job = sandbox.job("/bin/sh", "-c", "(setsid sleep 60 &); echo on; sleep 60")
    async with sandbox.backend.running(job) as child:
        assert await first_line(child.stdout) == "on"
        (pid,) = [process.pid for process in (child._process,)]
        os.kill(pid, 9)
        async with asyncio.timeout(SOON_SECONDS):
            assert (await child.wait()).reason is ExitReason.launcher_lost
        assert await eventually(lambda: not sandbox.survivors())


async def test_a_job_cannot_end_its_first_process(sandbox):
    done = await sandbox.shell("kill -KILL 1; kill -TERM 1; kill -INT 1; sleep 0.1; echo alive")
    assert (done.out, done.ended.exit_code) == ("alive\n", 0)


async def test_where_memory_runs_out_what_watches_a_job_outlives_it(sandbox):
    """The job alone is marked, and not the first process of its namespaces, which tells how it ended."""
    own = Path("/proc/self/oom_score_adj").read_text()
    async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", "echo on; exec sleep 60")) as child:
        await first_line(child.stdout)
        pid = await only_survivor(sandbox)
        status = Path(f"/proc/{pid}/status").read_text()
        watching = next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))
        assert Path(f"/proc/{watching}/oom_score_adj").read_text() == own


async def test_few_open_files_do_not_open_a_way_around_the_filter(sandbox):
    """The filter asks by a descriptor, and a limit on them comes after it."""
    done = await sandbox.run("/bin/chmod", "u+s", "file", limits=JobLimits(open_files=6))
    assert done.ended.exit_code == 1, done.err
    assert not (sandbox.inside / "file").stat().st_mode & stat.S_ISUID
