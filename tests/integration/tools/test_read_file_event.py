"""What the log tells of a read, also of a file that changes meanwhile."""

import codecs
import hashlib
import os
import threading

import pytest

from interlock.redaction.redactor import MARK
from tests.harness.tool_calls import SECRET, ToolHarness


async def test_secrets_are_taken_out_and_the_event_says_so(harness: ToolHarness):
    harness.write("s.env", f"KEY={SECRET}\nother\n")
    result = await harness.ok("read_file", path="s.env")
    assert result.stdout == f"KEY={MARK}\nother\n"


async def test_the_event_tells_what_was_seen_of_which_content(harness: ToolHarness):
    data = b"\xef\xbb\xbf" + "".join(f"line {number}\n" for number in range(100)).encode()
    file = harness.write("a.txt", data)
    page = await harness.ok("read_file", path="a.txt", line_count=10)
    kind, payload = harness.last_event()
    assert kind == "tool_call.completed"
    assert payload["files"] == [
        {
            "path": str(file),
            "action": "read",
            "sha256": hashlib.sha256(data).hexdigest(),
            "hashed_from": 0,
            "hashed_to": len(data),
            "seen_from": 0,
            "seen_to": page.meta["next_offset"],
        }
    ]


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE])
async def test_of_a_large_file_the_hash_is_that_of_the_part_that_was_seen(harness: ToolHarness, mark):
    encoding = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-8"
    data = mark + ("äöü line\n" * 2000).encode(encoding)
    harness.write("a.txt", data)
    harness.narrow(read=5000)
    seen = []
    await harness.pages("read_file", path="a.txt")
    for kind, payload in harness.events():
        if kind == "tool_call.completed":
            (touch,) = payload["files"]
            part = data[touch["seen_from"] : touch["seen_to"]]
            assert (touch["hashed_from"], touch["hashed_to"]) == (touch["seen_from"], touch["seen_to"])
            assert touch["sha256"] == hashlib.sha256(part).hexdigest()
            seen.append(part)
    assert b"".join(seen) == data


async def test_a_file_that_changes_while_it_is_read_is_never_a_mixture_with_a_wrong_hash(
    harness: ToolHarness,
):
    """What the event's hash covers is what was shown, also while somebody else writes."""
    file = harness.write("a.txt", b"a" * 20_000)
    harness.narrow(read=10_000)
    done = threading.Event()

    def rewrite() -> None:
        with file.open("r+b", buffering=0) as writing:
            while not done.is_set():
                for letter in (b"a", b"b"):
                    writing.seek(0)
                    writing.write(letter * 20_000)

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for _ in range(30):
            shown = (await harness.ok("read_file", path="a.txt")).stdout
            (touch,) = harness.last_event()[1]["files"]
            assert touch["sha256"] == hashlib.sha256(shown.encode()).hexdigest()
    finally:
        done.set()
        thread.join()


async def test_a_file_that_is_cut_while_it_is_read_ends_where_it_ends(harness: ToolHarness):
    file = harness.write("a.txt", b"a" * 5000)
    done = threading.Event()

    def rewrite() -> None:
        while not done.is_set():
            os.truncate(file, 100)
            os.truncate(file, 5000)

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for _ in range(30):
            result = await harness.call("read_file", path="a.txt")
            assert result.next_page_cursor is None
    finally:
        done.set()
        thread.join()
