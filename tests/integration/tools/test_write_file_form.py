"""What a file is like stays when it is written: encoding, line ends, permissions, links (S3-12.15)."""

import os
import stat

import pytest

from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.writing import read_then

# -- content and permissions --


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        ("a\n".encode("utf-16"), "ü😀\n", "ü😀\n".encode("utf-16")),
        (b"\xfe\xff\0a", "b", b"\xfe\xff\0b"),
        (b"caf\xe9\n", "th\xe9\n", b"th\xe9\n"),
        (b"a\n", "", b""),
        (b"", "x", b"x"),
    ],
)
async def test_encoding_mark_and_line_ends_are_kept(harness: ToolHarness, before, content, after):
    file = harness.write("f", before)
    await read_then(harness, "f", content)
    assert file.read_bytes() == after


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a", "b", b"ab"),
        (b"a\r\n", "b\n", b"a\r\nb\r\n"),
        (b"\xef\xbb\xbfa", "b", b"\xef\xbb\xbfab"),
        ("a".encode("utf-16"), "ü", "aü".encode("utf-16")),
        (b"caf\xe9\n", "\xfc", b"caf\xe9\n\xfc"),
        (b"", "x", b"x"),
        (b"x", "", b"x"),
        (b"x" * 70_000 + b"\xe9", "\xfc", b"x" * 70_000 + b"\xe9\xfc"),
    ],
)
async def test_appending_needs_no_read_and_keeps_the_form(harness: ToolHarness, before, content, after):
    file = harness.write("f", before)
    result = await harness.ok("write_file", path="f", content=content, mode="append")
    assert file.read_bytes() == after
    assert result.meta["bytes_written"] == len(after) - len(before)


async def test_a_character_that_the_files_encoding_lacks_is_told(harness: ToolHarness):
    file = harness.write("f", b"caf\xe9\n")
    await harness.ok("read_file", path="f")
    for mode in ("overwrite", "append"):
        result = await harness.call("write_file", path="f", content="5 €", mode=mode)
        assert result.failure.error_code.value == "INVALID_ARGS"
        assert "'€'" in result.failure.message
        assert "latin-1" in result.failure.message
    assert file.read_bytes() == b"caf\xe9\n"


async def test_a_file_that_is_not_text_is_left(harness: ToolHarness):
    file = harness.write("f.png", b"\x89PNG\0\0")
    result = await harness.call("write_file", path="f.png", content="x")
    assert "PNG" in result.failure.message
    assert await harness.refused("write_file", path="f.png", content="x", mode="append")
    assert file.read_bytes() == b"\x89PNG\0\0"


async def test_permissions_owner_and_attributes_stay(harness: ToolHarness):
    file = harness.write("run.sh", "old")
    file.chmod(0o751)
    os.setxattr(file, "user.colour", b"blue")
    if os.geteuid() == 0:
        os.chown(file, 1234, 2345)
    was = file.stat()
    await read_then(harness, "run.sh", "new")
    now = file.stat()
    assert (now.st_mode, now.st_uid, now.st_gid) == (was.st_mode, was.st_uid, was.st_gid)
    assert os.getxattr(file, "user.colour") == b"blue"
    await harness.ok("write_file", path="run.sh", content="er", mode="append")
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert file.read_text() == "newer"


async def test_a_read_only_file_is_refused(harness: ToolHarness):
    file = harness.write("f", "old")
    await harness.ok("read_file", path="f")
    file.chmod(0o444)
    for mode in ("overwrite", "append"):
        result = await harness.call("write_file", path="f", content="new", mode=mode)
        assert "read-only" in result.failure.message
    assert file.read_text() == "old"


# -- links --


async def test_a_link_inside_stays_a_link_and_its_target_is_written(harness: ToolHarness):
    harness.write("real/f", "old")
    (harness.root / "link").symlink_to("real/f")
    (harness.root / "dangling").symlink_to("real/new")
    await read_then(harness, "link", "new")
    await harness.ok("write_file", path="dangling", content="made")
    assert (harness.root / "link").is_symlink()
    assert (harness.root / "dangling").is_symlink()
    assert (harness.root / "real/f").read_text() == "new"
    assert (harness.root / "real/new").read_text() == "made"


async def test_the_other_name_of_a_hard_link_is_untouched(harness: ToolHarness):
    file = harness.write("a", "old")
    (harness.root / "b").hardlink_to(file)
    await read_then(harness, "a", "new")
    assert (harness.root / "b").read_text() == "old"
