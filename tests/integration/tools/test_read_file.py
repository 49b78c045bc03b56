"""`read_file` on real files (S3-11.read, S3-12.4, S3-12.14)."""

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.read_file import ReadFileTool
from tests.integration.workbench import SECRET, Workbench


def test_read_file_group_and_modes():
    tool = ReadFileTool(Redactor())
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}
    assert tool.aliases == ("read", "fs.read")


async def test_a_small_file_is_read_whole(workbench: Workbench):
    workbench.write("a.txt", "one\ntwo\n")
    result = await workbench.ok("read_file", path="a.txt")
    assert result.stdout == "one\ntwo\n"
    assert result.exit_code == 0
    assert result.next_page_cursor is None
    assert not result.truncated_bytes
    assert not result.truncated_lines


@pytest.mark.parametrize(
    "text", ["", "\n", "no end", "\r\n", "ünï\n", "😀\n", "日本\n", "a\0b".replace("\0", "")]
)
async def test_what_is_in_the_file_is_what_is_shown(workbench: Workbench, text):
    workbench.write("a.txt", text)
    assert (await workbench.ok("read_file", path="a.txt")).stdout == text


async def test_pages_joined_are_the_file(workbench: Workbench):
    text = "".join(f"line {number} äöü 日本 😀\n" for number in range(9000))
    workbench.write("long.txt", text)
    pages = await workbench.pages("read_file", path="long.txt")
    assert len(pages) > 4
    assert "".join(page.stdout for page in pages) == text
    assert all(page.stdout.endswith("\n") for page in pages)
    assert all(len(page.stdout.encode()) <= 51200 for page in pages)
    assert all(page.truncated_bytes or page.truncated_lines for page in pages[:-1])
    assert not pages[-1].truncated_bytes


async def test_a_secret_at_any_place_is_never_shown_in_halves(workbench: Workbench):
    """Pages are cut before a secret or behind it, wherever the cut would fall."""
    workbench.write("s.txt", "x" * 40 + SECRET + "y" * 40)
    for size in range(1, 60):
        pages = await workbench.pages("read_file", path="s.txt", limit_bytes=size)
        shown = "".join(page.stdout for page in pages)
        assert shown.replace("***REDACTED***", SECRET) == "x" * 40 + SECRET + "y" * 40
    for offset in range(80):
        result = await workbench.ok("read_file", path="s.txt", offset=offset, limit_bytes=100)
        assert not any(SECRET[start : start + 8] in result.stdout for start in range(len(SECRET) - 8))
