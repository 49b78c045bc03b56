"""Trees that do not want to end, once more under bubblewrap: the kernel ends a namespace as a whole."""

import pytest
import pytest_asyncio

from tests.escape.conftest import attacked

# Run once more, with the `world` below.
from tests.escape.test_launcher_trees import (  # noqa: F401
    test_a_background_child_that_keeps_the_pipe_does_not_hold_the_caller_up,
    test_a_fork_bomb_ends_itself_by_its_number,
    test_a_memory_hog_ends_itself_by_its_size,
    test_a_tree_is_dead_within_a_second_of_being_stopped,
    test_an_endless_writer_is_bounded_by_its_reader_and_ends,
    test_jobs_do_not_end_each_other,
    test_leaving_the_context_ends_a_tree_as_well,
    test_memory_of_the_whole_tree_counts,
    test_memory_that_forks_share_counts_once,
    test_threads_count_as_processes,
    test_what_a_program_leaves_has_a_moment_to_finish_its_output,
    test_what_a_program_leaves_running_ends_with_it,
    test_what_the_kernel_needs_to_map_much_that_is_empty_counts,
)
from tests.escape.wrapped import wrapped

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(tmp_path):
    backend = wrapped()
    with attacked(backend, tmp_path, []) as made:
        yield made
        await backend.close()
