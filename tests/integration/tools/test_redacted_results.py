"""`redacted` is true whenever something in a result was masked, whoever masked it, and only then."""

import pytest

from interlock.redaction.redactor import MARK
from tests.harness.tool_calls import SECRET


@pytest.fixture
async def make_harness(harness):
    await harness.open_sandbox()
    harness.write("keys.txt", f"nothing\nkey {SECRET}\n")
    harness.write("marked.txt", f"a {MARK} of somebody's\n")
    yield harness
    await harness.backend.close()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "keys.txt"}),
        ("read_file", {"path": "keys.txt", "start_line": 2}),
        ("search_files", {"pattern": "key"}),
        ("list_files", {"path": f"of-{SECRET}"}),
        ("list_files", {}),
        ("find_files", {"name_pattern": "*"}),
        ("get_project_structure", {}),
        ("bash", {"cmd": "cat keys.txt"}),
        ("bash_readonly", {"cmd": "cat keys.txt >&2"}),
        ("bash", {"cmd": "cat keys.txt; exit 3"}),
        ("read_file", {"path": f"none-{SECRET}"}),
        ("write_file", {"path": f"new-{SECRET}", "content": "x"}),
    ],
)
async def test_a_masked_result_is_recorded_as_such(make_harness, name, arguments):
    make_harness.write(f"of-{SECRET}/inside.txt")
    result = await make_harness.call(name, arguments)
    assert MARK in str(result.as_dict())
    assert make_harness.last_event()[1]["redacted"] is True
    assert result.redacted


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "marked.txt"}),
        ("read_file", {"path": "keys.txt", "line_count": 1}),
        ("search_files", {"pattern": "nothing"}),
        ("search_files", {"pattern": "REDACTED"}),
        ("list_files", {}),
        ("bash", {"cmd": "cat marked.txt; printf '\\xff\\x00'"}),
        ("bash", {"cmd": "echo fine; exit 3"}),
        ("read_file", {"path": "none"}),
    ],
)
async def test_where_nothing_was_masked_nothing_is_said_to_be(make_harness, name, arguments):
    """A text that holds the mark itself, or characters that cannot be stored, has lost no secret."""
    result = await make_harness.call(name, arguments)
    assert make_harness.last_event()[1]["redacted"] is False
    assert not result.redacted


async def test_each_page_says_it_for_itself(harness):
    harness.write("long.txt", f"key {SECRET}\n" + "plain\n" * 5)
    first = await harness.ok("read_file", path="long.txt", line_count=2)
    rest = await harness.ok("read_file", path="long.txt", cursor=first.next_page_cursor)
    assert (first.redacted, rest.redacted) == (True, False)
