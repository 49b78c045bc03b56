"""`read_file` piece by piece: pages, cursors and limits (S3-11.read, S3-12.14)."""

import os
from pathlib import Path

import pytest

from interlock.policy.authority_inputs import CallLimits
from interlock.tools.files.cursor import cursor_subject, make_cursor
from tests.harness.tool_calls import SECRET, ToolHarness


async def test_pages_joined_are_the_file(harness: ToolHarness):
    text = "".join(f"line {number} äöü 日本 😀\n" for number in range(9000))
    harness.write("long.txt", text)
    pages = await harness.pages("read_file", path="long.txt")
    assert len(pages) > 4
    assert "".join(page.stdout for page in pages) == text
    assert all(page.stdout.endswith("\n") for page in pages)
    assert all(len(page.stdout.encode()) <= 51200 for page in pages)
    assert all(page.truncated_bytes or page.truncated_lines for page in pages[:-1])
    assert not pages[-1].truncated_bytes


async def test_a_secret_at_any_place_is_never_shown_in_halves(harness: ToolHarness):
    """Pages are cut before a secret or behind it, wherever the cut would fall."""
    harness.write("s.txt", "x" * 40 + SECRET + "y" * 40)
    for size in range(1, 60):
        pages = await harness.pages("read_file", path="s.txt", limit_bytes=size)
        shown = "".join(page.stdout for page in pages)
        assert shown.replace("***REDACTED***", SECRET) == "x" * 40 + SECRET + "y" * 40
    for offset in range(80):
        result = await harness.ok("read_file", path="s.txt", offset=offset, limit_bytes=100)
        assert not any(SECRET[start : start + 8] in result.stdout for start in range(len(SECRET) - 8))


# -- pages --


async def test_lines_can_be_asked_for(harness: ToolHarness):
    harness.write("a.txt", "".join(f"{number}\n" for number in range(1, 101)))
    result = await harness.ok("read_file", path="a.txt", start_line=10, line_count=3)
    assert result.stdout == "10\n11\n12\n"
    assert result.truncated_lines
    assert not result.truncated_bytes
    assert result.meta["start_line"] == 10
    following = await harness.ok("read_file", path="a.txt", line_count=2, cursor=result.next_page_cursor)
    assert following.stdout == "13\n14\n"
    assert following.meta["start_line"] == 13


async def test_bytes_can_be_asked_for(harness: ToolHarness):
    """S3-11.read: a fragment by offset and limit_bytes."""
    harness.write("a.txt", "0123456789")
    result = await harness.ok("read_file", path="a.txt", offset=3, limit_bytes=4)
    assert result.stdout == "3456"
    assert result.truncated_bytes
    assert result.meta["next_offset"] == 7
    rest = await harness.ok("read_file", path="a.txt", offset=7)
    assert (rest.stdout, rest.next_page_cursor, rest.truncated_bytes) == ("789", None, False)
    assert (await harness.ok("read_file", path="a.txt", offset=10)).stdout == ""


@pytest.mark.parametrize("first", [{"offset": 2}, {"start_line": 2}, {"limit_bytes": 3}, {"line_count": 1}])
async def test_a_cursor_works_with_the_first_arguments_and_without_them(harness: ToolHarness, first):
    harness.limits = CallLimits(max_output_lines=2, max_output_bytes=6)
    harness.write("a.txt", "a\nb\nc\nd\ne\nf\n")
    page = await harness.ok("read_file", path="a.txt", **first)
    again = await harness.ok("read_file", path="a.txt", cursor=page.next_page_cursor, **first)
    bare = await harness.ok("read_file", path="a.txt", cursor=page.next_page_cursor)
    assert again.stdout
    assert bare.stdout.startswith(again.stdout)


async def test_arguments_that_contradict_one_another_are_refused(harness: ToolHarness):
    harness.write("a.txt", "one\ntwo\nthree\n")
    assert await harness.refused("read_file", path="a.txt", offset=1, start_line=1) == "INVALID_ARGS"
    page = await harness.ok("read_file", path="a.txt", start_line=1, line_count=1)
    for other in ({"offset": 1}, {"start_line": 2}):
        code = await harness.refused("read_file", path="a.txt", cursor=page.next_page_cursor, **other)
        assert code == "INVALID_ARGS"


@pytest.mark.parametrize("arguments", [{"offset": 9}, {"start_line": 3}, {"start_line": 2**50}])
async def test_behind_the_end_there_is_nothing(harness: ToolHarness, arguments):
    """S3-12.14: out of bounds is refused, and the size of the file told."""
    harness.write("a.txt", "one\ntwo\n")
    result = await harness.call("read_file", path="a.txt", **arguments)
    assert result.failure is not None
    assert result.failure.error_code == "INVALID_ARGS"
    assert (
        "past the end of the file (8 bytes)" in result.failure.message
        or "past the end of the file (2 lines)" in result.failure.message
    )


async def test_an_empty_file_has_an_empty_first_line(harness: ToolHarness):
    harness.write("empty")
    for arguments in ({}, {"offset": 0}, {"start_line": 1}):
        result = await harness.ok("read_file", path="empty", **arguments)
        assert (result.stdout, result.next_page_cursor, result.meta["lines"]) == ("", None, 0)
    assert await harness.refused("read_file", path="empty", start_line=2) == "INVALID_ARGS"


# -- cursors --


async def test_a_cursor_is_stale_once_the_file_changed(harness: ToolHarness):
    file = harness.write("a.txt", "one\ntwo\n")
    cursor = (await harness.ok("read_file", path="a.txt", line_count=1)).next_page_cursor
    with file.open("a") as more:
        more.write("three\n")
    assert await harness.refused("read_file", path="a.txt", line_count=1, cursor=cursor) == "STALE_CURSOR"
    replaced = harness.write("b.txt", "one\ntwo\n")
    os.utime(replaced, ns=(0, file.stat().st_mtime_ns))
    replaced.rename(file)
    assert await harness.refused("read_file", path="a.txt", cursor=cursor) == "STALE_CURSOR"


async def test_a_cursor_of_another_file_or_of_nobody_is_refused(harness: ToolHarness):
    for name in ("a.txt", "b.txt"):
        harness.write(name, "one\ntwo\n")
    cursor = (await harness.ok("read_file", path="a.txt", line_count=1)).next_page_cursor
    forged = make_cursor(cursor_subject("read", harness.root / "a.txt"), "v", {"offset": 2**63})
    for path, bad in (("b.txt", cursor), ("a.txt", "garbage"), ("a.txt", "NQ"), ("a.txt", forged)):
        assert await harness.refused("read_file", path=path, cursor=bad) == "INVALID_ARGS"


# -- limits --


async def test_more_than_the_policy_allows_is_refused(harness: ToolHarness):
    harness.write("a.txt", "x" * 5000)
    harness.narrow(read=1000)
    assert await harness.refused("read_file", path="a.txt", limit_bytes=1001) == "LIMIT_EXCEEDED"
    pages = await harness.pages("read_file", path="a.txt")
    assert [len(page.stdout) for page in pages] == [1000] * 5
    assert all(page.truncated_bytes for page in pages[:-1])


async def test_an_explicit_limit_gives_more_than_a_page_up_to_the_read_limit(harness: ToolHarness):
    """S4 AC4: what is declared as the read limit can be read, in bytes and in lines."""
    for text in ("x" * 200_000, "".join(f"{number} ä\n" for number in range(60_000))):
        harness.write("a.txt", text)
        pages = await harness.pages("read_file", path="a.txt", limit_bytes=100_001)
        assert "".join(page.stdout for page in pages) == text
        assert all(99_990 < len(page.stdout.encode()) <= 100_001 for page in pages[:-1])
        assert all(page.truncated_bytes and not page.truncated_lines for page in pages[:-1])
        whole = await harness.pages("read_file", path="a.txt", limit_bytes=524288)
        assert "".join(page.stdout for page in whole) == text
    harness.write("b.txt", "b\n" * 400_000)
    page = await harness.ok("read_file", path="b.txt", limit_bytes=524288)
    assert page.stdout == "b\n" * 262_144
    lines = await harness.ok("read_file", path="b.txt", limit_bytes=524288, line_count=3000)
    assert (lines.stdout, lines.truncated_lines) == ("b\n" * 3000, True)


async def test_a_large_page_hides_its_secrets_and_can_be_edited(harness: ToolHarness):
    file = harness.write("a.txt", "x" * 100_000 + f" {SECRET} " + "y" * 100_000 + " old")
    page = await harness.ok("read_file", path="a.txt", limit_bytes=300_000)
    assert page.stdout == "x" * 100_000 + " ***REDACTED*** " + "y" * 100_000 + " old"
    await harness.ok("edit_file", path="a.txt", find=" old", replace=" new")
    assert file.read_text().endswith("y new")


async def test_without_an_explicit_limit_a_page_keeps_to_the_output_limits(harness: ToolHarness):
    harness.write("a.txt", "a\n" * 3000)
    page = await harness.ok("read_file", path="a.txt")
    assert (page.stdout, page.truncated_lines) == ("a\n" * 2000, True)
    more = await harness.ok("read_file", path="a.txt", line_count=3000)
    assert more.stdout == "a\n" * 2000


def _bytes_read() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


async def test_a_huge_file_is_not_read_to_show_a_page_of_it(harness: ToolHarness):
    """A page in a file of 1 GiB costs what a page costs."""
    file = harness.write("huge.log", b"a line of text\n" * 10_000)
    os.truncate(file, 2**30)
    with file.open("r+b") as end:
        end.seek(2**30 - 12)
        end.write(b"\nlast line.\n")
    before = _bytes_read()
    first = await harness.ok("read_file", path="huge.log")
    second = await harness.ok("read_file", path="huge.log", cursor=first.next_page_cursor)
    last = await harness.ok("read_file", path="huge.log", offset=2**30 - 11)
    assert _bytes_read() - before < 3_000_000
    assert first.stdout + second.stdout == "a line of text\n" * (4000)
    assert last.stdout == "last line.\n"
    assert last.next_page_cursor is None


async def test_one_huge_line_comes_in_pages(harness: ToolHarness):
    with harness.write("line.txt").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 2**20)
    before = _bytes_read()
    page = await harness.ok("read_file", path="line.txt")
    assert page.stdout == "x" * 51200
    assert page.truncated_bytes
    page = await harness.ok("read_file", path="line.txt", cursor=page.next_page_cursor)
    assert (page.meta["offset"], page.meta["start_line"]) == (51200, 1)
    assert _bytes_read() - before < 3_000_000
    assert await harness.refused("read_file", path="line.txt", start_line=2) == "INVALID_ARGS"


async def test_a_read_that_takes_too_long_is_stopped(harness: ToolHarness):
    file = harness.write("huge.txt", "x")
    os.truncate(file, 2**40)
    with file.open("r+b") as begin:
        begin.write(b"x" * 100_000)
    assert await harness.refused("read_file", path="huge.txt", start_line=5, timeout=0.05) == "TIMEOUT"
    assert await harness.ok("read_file", path="huge.txt", line_count=1)
