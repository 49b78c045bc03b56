"""Without a sandbox there is still good order: exact environment, no descriptors, limits, nothing left."""

import asyncio

import pytest

from interlock.sandbox.unconfined_backend import UnconfinedBackend
from tests.escape.conftest import attacked

# Run once more, with the `world` below.
from tests.escape.test_launcher_deaths import (  # noqa: F401
    test_a_cancelled_caller_leaves_nothing,
    test_closing_kills_running_jobs,
)
from tests.escape.test_launcher_life import (  # noqa: F401
    test_a_file_that_grows_too_large_ends_its_writer,
    test_a_missing_root_starts_nothing,
    test_both_streams_are_read_apart_and_whole,
    test_it_has_a_session_and_a_group_of_its_own,
    test_it_inherits_no_descriptor_but_its_three,
    test_it_starts_in_the_folder_that_was_opened_whatever_its_path_leads_to_now,
    test_its_exit_code_is_told,
    test_no_descriptor_is_left_after_many_jobs,
    test_no_signal_is_ignored_or_blocked,
    test_the_environment_is_exactly_the_one_given,
    test_the_signal_that_ended_it_is_told,
    test_where_memory_runs_out_the_kernel_takes_a_job_first,
)
from tests.escape.test_launcher_trees import (  # noqa: F401
    test_a_background_child_that_keeps_the_pipe_does_not_hold_the_caller_up,
    test_a_fork_bomb_ends_itself_by_its_number,
    test_a_memory_hog_ends_itself_by_its_size,
    test_a_tree_is_dead_within_a_second_of_being_stopped,
    test_what_a_program_leaves_running_ends_with_it,
)
from tests.harness.sandbox import SECRET, eventually, first_line


@pytest.fixture
async def sandbox(tmp_path):
    backend = UnconfinedBackend()
    with attacked(backend, tmp_path, []) as made:
        yield made
        await backend.close()


async def test_it_confines_nothing_and_is_named_so(sandbox):
    assert sandbox.backend.name == "off"
    assert (await sandbox.run("/bin/cat", str(sandbox.outside / "file"), kind="chat")).out == SECRET


async def test_a_program_that_cannot_be_executed_is_told(sandbox):
    done = await sandbox.run("/nonexistent/program")
    assert "No such file" in done.ended.text


async def test_a_child_is_forgotten_whoever_stops_waiting_for_its_end(sandbox):
    """A server that runs for months must not remember every command that was cancelled twice."""
    started = asyncio.Event()

    async def call() -> None:
        async with sandbox.backend.running(sandbox.job("/bin/sh", "-c", "echo on; sleep 60")) as child:
            await first_line(child.stdout)
            started.set()
            await child.wait()

    task = asyncio.ensure_future(call())
    await started.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(task, return_exceptions=True)
    assert await eventually(lambda: not sandbox.backend._children)
    assert await eventually(lambda: not sandbox.survivors())
