"""`read_file` on real files: what is shown, and what is refused (S3-11.read, S3-12.4)."""

import codecs
import os
import socket

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.gates.situation import CallLimits
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.read_file import ReadFileTool
from tests.integration.workbench import Workbench


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


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("latin-1", b""),
    ],
)
async def test_other_encodings_are_read_and_named(workbench: Workbench, encoding, mark):
    text = "".join(f"Zeile {number} äöü\r\n" for number in range(4000))
    workbench.write("a.txt", mark + text.encode(encoding))
    pages = await workbench.pages("read_file", path="a.txt")
    assert "".join(page.stdout for page in pages) == text
    assert encoding in pages[0].meta["encoding"]
    assert pages[0].meta["line_ending"] == "CRLF"
    third = await workbench.ok("read_file", path="a.txt", start_line=3001, line_count=1)
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
async def test_binary_files_are_refused_by_kind(workbench: Workbench, content, kind):
    workbench.write("file", content)
    result = await workbench.call("read_file", path="file")
    assert result.failure is not None
    assert kind in result.failure.message
    assert f"{len(content)} bytes" in result.failure.message


async def test_a_folder_is_listed_page_by_page(workbench: Workbench):
    for number in range(5):
        workbench.write(f"d/{number}")
    workbench.limits = CallLimits(max_output_lines=2)
    pages = await workbench.pages("read_file", path="d")
    assert "".join(page.stdout for page in pages) == "".join(f"d/{number}\n" for number in range(5))


async def test_pipes_sockets_and_devices_are_not_waited_for(workbench: Workbench):
    os.mkfifo(workbench.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workbench.root / "socket"))
        for name in ("pipe", "socket"):
            result = await workbench.call("read_file", path=name, timeout=5)
            assert result.failure is not None
            assert "not a regular file" in result.failure.message


async def test_a_device_is_not_opened(workbench: Workbench):
    if os.geteuid() != 0:
        pytest.skip("only root can make a device file")
    try:
        os.mknod(workbench.root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    assert await workbench.refused("read_file", path="zero") == "EXECUTION_ERROR"


def test_a_file_without_permission_says_so(workbench: Workbench, as_ordinary_account):
    workbench.write("closed", "x").chmod(0)
    result = as_ordinary_account("read_file", path="closed")
    assert result["message"] == "closed: the account Interlock runs as has no permission"


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
async def test_a_missing_file_is_told_with_names_like_it(workbench: Workbench, path, said):
    workbench.write("src/main.py")
    workbench.write("src/readme.md")
    result = await workbench.call("read_file", path=path)
    assert result.failure is not None
    assert result.failure.message == said
    assert "find_files" in result.failure.next_action


async def test_names_outside_are_never_suggested(workbench: Workbench):
    (workbench.outside / "private.txt").write_text("x")
    (workbench.root / "out").symlink_to(workbench.outside)
    for path in ("out/privat.txt", "../outside/privat.txt", str(workbench.outside / "privat.txt")):
        result = await workbench.call("read_file", path=path)
        assert result.failure is not None
        assert result.failure.error_code == "PATH_DENIED"
        assert "private" not in result.failure.message


async def test_a_part_of_the_path_that_is_a_file_is_told(workbench: Workbench):
    workbench.write("a.txt", "x")
    result = await workbench.call("read_file", path="a.txt/b")
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


async def test_any_name_can_be_read(workbench: Workbench):
    for name in NAMES:
        workbench.write(name, "content\n")
        assert (await workbench.ok("read_file", path=name)).stdout == "content\n"
        assert (await workbench.ok("read_file", path=f"./{name}")).stdout == "content\n"


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


async def test_bad_arguments_are_refused_by_name(workbench: Workbench):
    workbench.write("a.txt", "0123456789")
    for arguments, place in BAD_ARGUMENTS:
        result = await workbench.call("read_file", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


# -- descriptors --


async def test_reading_leaves_no_descriptor_open(workbench: Workbench, open_descriptors):
    workbench.write("a.txt", "x\n" * 5000)
    workbench.write("b.png", b"\x89PNG\0")
    await workbench.ok("read_file", path="a.txt")
    before = open_descriptors()
    await workbench.pages("read_file", path="a.txt", line_count=1000)
    for path in ("b.png", "missing", "a.txt/x", "/etc/passwd"):
        await workbench.refused("read_file", path=path)
    await workbench.ok("read_file", path=".")
    assert open_descriptors() == before
