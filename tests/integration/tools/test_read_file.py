"""`read_file` on real files: what is shown, and what is refused (S3-11.read, S3-12.4)."""

import codecs
import os
import socket

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.policy.authority_inputs import CallLimits
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.read_file import ReadFileTool
from tests.harness.tool_calls import ToolHarness


def test_read_file_group_and_modes():
    tool = ReadFileTool(Redactor())
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}
    assert tool.aliases == ("read", "fs.read")


async def test_a_small_file_is_read_whole(harness: ToolHarness):
    harness.write("a.txt", "one\ntwo\n")
    result = await harness.ok("read_file", path="a.txt")
    assert result.stdout == "one\ntwo\n"
    assert result.exit_code == 0
    assert result.next_page_cursor is None
    assert not result.truncated_bytes
    assert not result.truncated_lines


@pytest.mark.parametrize(
    "text", ["", "\n", "no end", "\r\n", "ünï\n", "😀\n", "日本\n", "a\0b".replace("\0", "")]
)
async def test_what_is_in_the_file_is_what_is_shown(harness: ToolHarness, text):
    harness.write("a.txt", text)
    assert (await harness.ok("read_file", path="a.txt")).stdout == text


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("latin-1", b""),
    ],
)
async def test_other_encodings_are_read_and_named(harness: ToolHarness, encoding, mark):
    text = "".join(f"Zeile {number} äöü\r\n" for number in range(4000))
    harness.write("a.txt", mark + text.encode(encoding))
    pages = await harness.pages("read_file", path="a.txt")
    assert "".join(page.stdout for page in pages) == text
    assert encoding in pages[0].meta["encoding"]
    assert pages[0].meta["line_ending"] == "CRLF"
    third = await harness.ok("read_file", path="a.txt", start_line=3001, line_count=1)
    assert third.stdout == "Zeile 3000 äöü\r\n"


# -- what is not a text file --


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG image"),
        (b"\x7fELF\x02\x01\x01\0", "program"),
        (b"text\0text", "binary data"),
        (b"\x1f\x8b\x08\x01", "gzip"),
    ],
)
async def test_binary_files_are_refused_by_kind(harness: ToolHarness, content, kind):
    harness.write("file", content)
    result = await harness.call("read_file", path="file")
    assert result.failure is not None
    assert kind in result.failure.message
    assert f"{len(content)} bytes" in result.failure.message


async def test_a_folder_is_listed_page_by_page(harness: ToolHarness):
    for number in range(5):
        harness.write(f"d/{number}")
    harness.limits = CallLimits(max_output_lines=2)
    pages = await harness.pages("read_file", path="d")
    assert "".join(page.stdout for page in pages) == "".join(f"d/{number}\n" for number in range(5))


async def test_pipes_sockets_and_devices_are_not_waited_for(harness: ToolHarness):
    os.mkfifo(harness.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(harness.root / "socket"))
        for name in ("pipe", "socket"):
            result = await harness.call("read_file", path=name, timeout=5)
            assert result.failure is not None
            assert "not a regular file" in result.failure.message


async def test_a_device_is_not_opened(harness: ToolHarness):
    if os.geteuid() != 0:
        pytest.skip("only root can make a device file")
    try:
        os.mknod(harness.root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    assert await harness.refused("read_file", path="zero") == "EXECUTION_ERROR"


def test_a_file_without_permission_says_so(harness: ToolHarness, as_ordinary_account):
    harness.write("closed", "x").chmod(0)
    result = as_ordinary_account("read_file", path="closed")
    assert result["message"] == "closed: Interlock's account has no permission"


# -- names --


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("src/mian.py", "there is no src/mian.py; did you mean src/main.py?"),
        ("SRC/main.py", "there is no SRC/main.py (. has no such folder); did you mean src?"),
        ("src/README.MD", "there is no src/README.MD; did you mean src/readme.md?"),
        ("src/zzz", "there is no src/zzz"),
        ("nowhere/at/all", "there is no nowhere/at/all (. has no such folder)"),
    ],
)
async def test_a_missing_file_is_told_with_names_like_it(harness: ToolHarness, path, said):
    harness.write("src/main.py")
    harness.write("src/readme.md")
    result = await harness.call("read_file", path=path)
    assert result.failure is not None
    assert result.failure.message == said
    assert "find_files" in result.failure.next_action


async def test_names_outside_are_never_suggested(harness: ToolHarness):
    (harness.outside / "private.txt").write_text("x")
    (harness.root / "out").symlink_to(harness.outside)
    for path in ("out/privat.txt", "../outside/privat.txt", str(harness.outside / "privat.txt")):
        result = await harness.call("read_file", path=path)
        assert result.failure is not None
        assert result.failure.error_code == "PATH_DENIED"
        assert "private" not in result.failure.message


async def test_a_part_of_the_path_that_is_a_file_is_told(harness: ToolHarness):
    harness.write("a.txt", "x")
    result = await harness.call("read_file", path="a.txt/b")
    assert result.failure is not None
    assert "not a folder" in result.failure.message


NAMES = [
    *(
        "with space",
        " lead",
        "trail ",
        "new\nline",
        "-rf",
        "--help",
        "*",
        "?",
        "[a]",
        "{a,b}",
        "~",
        "$HOME",
    ),
    *(
        "ünïcödé",
        "日本",
        "😀",
        "e\u0301",
        "\u202egnp.exe",
        "a'b\"c",
        "a\\b",
        "%2e%2e",
        "tab\t",
        "\x1b[31m",
    ),
]


async def test_any_name_can_be_read(harness: ToolHarness):
    for name in NAMES:
        harness.write(name, "content\n")
        assert (await harness.ok("read_file", path=name)).stdout == "content\n"
        assert (await harness.ok("read_file", path=f"./{name}")).stdout == "content\n"


# -- arguments --


BAD_ARGUMENTS = [
    ({}, "path"),
    ({"path": 5}, "path"),
    ({"path": ""}, "path"),
    ({"path": "a\0b"}, "path"),
    ({"path": "x" * 5000}, "path"),
    ({"path": "a.txt", "offset": "5"}, "offset"),
    ({"path": "a.txt", "offset": True}, "offset"),
    ({"path": "a.txt", "offset": -1}, "offset"),
    ({"path": "a.txt", "offset": 1.5}, "offset"),
    ({"path": "a.txt", "limit_bytes": 0}, "limit_bytes"),
    ({"path": "a.txt", "start_line": 0}, "start_line"),
    ({"path": "a.txt", "line_count": None}, "line_count"),
    ({"path": "a.txt", "cursor": ""}, "cursor"),
    ({"path": "a.txt", "lines": 5}, "lines"),
]


async def test_bad_arguments_are_refused_by_name(harness: ToolHarness):
    harness.write("a.txt", "0123456789")
    for arguments, place in BAD_ARGUMENTS:
        result = await harness.call("read_file", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


# -- descriptors --


async def test_reading_leaves_no_descriptor_open(harness: ToolHarness, open_descriptors):
    harness.write("a.txt", "x\n" * 5000)
    harness.write("b.png", b"\x89PNG\0")
    await harness.ok("read_file", path="a.txt")
    before = open_descriptors()
    await harness.pages("read_file", path="a.txt", line_count=1000)
    for path in ("b.png", "missing", "a.txt/x", "/etc/passwd"):
        await harness.refused("read_file", path=path)
    await harness.ok("read_file", path=".")
    assert open_descriptors() == before
