"""A small file that is in memory is read at once. The answer and the log are those of any other call."""

import asyncio
import os

import pytest

from interlock.sandbox import page_cache_reader
from interlock.sandbox.paths import PathResolver
from interlock.tools.builtins import read_file
from tests.harness.tool_calls import SECRET, ToolHarness

_FILES = {
    "plain": b"one\ntwo\nthree\n",
    "no-end": b"one\ntwo",
    "empty": b"",
    "windows": b"one\r\ntwo\r\n",
    "mark": b"\xef\xbb\xbfone\ntwo\n",
    "wide": "one\ntwö\n".encode("utf-16"),
    "latin": "zwölf\nfünf\n".encode("latin-1"),
    "broken": "ünï\n".encode() + b"\xff\n",
    "binary": b"\x89PNG\0\0",
    "secret": f"a\nkey {SECRET} b\n".encode(),
    "long": b"a line of some length\n" * 300,
    "null": b"a\0b",
}
_CALLS = [{}, {"offset": 2}, {"start_line": 2}, {"line_count": 1}, {"limit_bytes": 3}, {"start_line": 99}]
_AT_ANY_TIME = ("call_id", "latency_ms")


@pytest.fixture
def waiting(monkeypatch):
    """Makes every look at once fail from then on."""
    return lambda: monkeypatch.setattr(read_file, "find_cached", lambda *_arguments: None)


def _comparable(event: tuple[str, dict]) -> tuple[str, dict]:
    kind, payload = event
    return kind, {name: value for name, value in payload.items() if name not in _AT_ANY_TIME}


@pytest.mark.parametrize("arguments", _CALLS, ids=str)
async def test_both_ways_show_and_record_the_same(harness: ToolHarness, waiting, arguments):
    for name, content in _FILES.items():
        harness.write(name, content)
    at_once = [await harness.call("read_file", path=name, **arguments) for name in _FILES]
    recorded = harness.events()[1:]
    waiting()
    executed = [await harness.call("read_file", path=name, **arguments) for name in _FILES]
    assert [result.as_dict() for result in at_once] == [result.as_dict() for result in executed]
    again = harness.events()[1 + len(recorded) :]
    assert [_comparable(event) for event in again] == [_comparable(event) for event in recorded]


async def test_pages_begun_in_one_way_can_be_gone_on_with_in_the_other(harness: ToolHarness, waiting):
    harness.write("a.txt", "line\n" * 50)
    first = await harness.ok("read_file", path="a.txt", line_count=20)
    waiting()
    second = await harness.ok("read_file", path="a.txt", line_count=20, cursor=first.next_page_cursor)
    assert second.meta["start_line"] == 21


async def test_what_was_read_at_once_may_be_edited(harness: ToolHarness):
    harness.write("a.txt", "one\ntwo\n")
    await harness.ok("read_file", path="a.txt")
    await harness.ok("edit_file", path="a.txt", find="two", replace="three")
    assert (await harness.ok("read_file", path="a.txt")).stdout == "one\nthree\n"


async def test_it_takes_one_commit_and_no_thread(harness: ToolHarness, monkeypatch):
    status = harness.write("a.txt", "one\n").stat()
    if (os.major(status.st_dev), os.minor(status.st_dev)) not in page_cache_reader._local_devices():
        pytest.skip("the tests do not run on a local disk")
    await harness.ok("read_file", path="a.txt")
    log = harness.store.log
    submitted = []
    submit = log._writer.submit
    monkeypatch.setattr(
        log._writer, "submit", lambda unit, **how: (submitted.append(unit), submit(unit, **how))[1]
    )
    monkeypatch.setattr(
        PathResolver, "find", lambda *_a, **_o: pytest.fail("it was looked for on a thread")
    )
    await harness.ok("read_file", path="a.txt")
    assert [[draft.kind for draft in unit.drafts] for unit in submitted] == [
        ["tool_call.started", "tool_call.completed"]
    ]


async def test_many_at_once_keep_their_own_intents_and_outcomes(harness: ToolHarness):
    for number in range(20):
        harness.write(f"{number}.txt", f"{number}\n")
    results = await asyncio.gather(*(harness.ok("read_file", path=f"{number}.txt") for number in range(20)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(20)]
    told = [(payload["call_id"], kind) for kind, payload in harness.events()[1:]]
    for call in {call for call, _ in told}:
        assert [kind for each, kind in told if each == call] == ["tool_call.started", "tool_call.completed"]
