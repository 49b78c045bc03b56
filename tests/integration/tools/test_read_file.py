"""`read_file` on real files (S3-11.read, S3-12.4, S3-12.14)."""

import codecs
import hashlib
import os
import socket
import threading
from pathlib import Path

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.gates.authority import CallLimits
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.builtins.read_file import ReadFileTool
from interlock.tools.files.cursor import make_cursor, subject_of
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


# -- pages --


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


async def test_lines_can_be_asked_for(workbench: Workbench):
    workbench.write("a.txt", "".join(f"{number}\n" for number in range(1, 101)))
    result = await workbench.ok("read_file", path="a.txt", start_line=10, line_count=3)
    assert result.stdout == "10\n11\n12\n"
    assert result.truncated_lines
    assert not result.truncated_bytes
    assert result.meta["start_line"] == 10
    following = await workbench.ok("read_file", path="a.txt", line_count=2, cursor=result.next_page_cursor)
    assert following.stdout == "13\n14\n"
    assert following.meta["start_line"] == 13


async def test_bytes_can_be_asked_for(workbench: Workbench):
    """S3-11.read: a fragment by offset and limit_bytes."""
    workbench.write("a.txt", "0123456789")
    result = await workbench.ok("read_file", path="a.txt", offset=3, limit_bytes=4)
    assert result.stdout == "3456"
    assert result.truncated_bytes
    assert result.meta["next_offset"] == 7
    rest = await workbench.ok("read_file", path="a.txt", offset=7)
    assert (rest.stdout, rest.next_page_cursor, rest.truncated_bytes) == ("789", None, False)
    assert (await workbench.ok("read_file", path="a.txt", offset=10)).stdout == ""


@pytest.mark.parametrize("first", [{"offset": 2}, {"start_line": 2}, {"limit_bytes": 3}, {"line_count": 1}])
async def test_a_cursor_works_with_the_first_arguments_and_without_them(workbench: Workbench, first):
    workbench.limits = CallLimits(max_output_lines=2, max_output_bytes=6)
    workbench.write("a.txt", "a\nb\nc\nd\ne\nf\n")
    page = await workbench.ok("read_file", path="a.txt", **first)
    again = await workbench.ok("read_file", path="a.txt", cursor=page.next_page_cursor, **first)
    bare = await workbench.ok("read_file", path="a.txt", cursor=page.next_page_cursor)
    assert again.stdout
    assert bare.stdout.startswith(again.stdout)


async def test_arguments_that_contradict_one_another_are_refused(workbench: Workbench):
    workbench.write("a.txt", "one\ntwo\nthree\n")
    assert await workbench.refused("read_file", path="a.txt", offset=1, start_line=1) == "INVALID_ARGS"
    page = await workbench.ok("read_file", path="a.txt", start_line=1, line_count=1)
    for other in ({"offset": 1}, {"start_line": 2}):
        code = await workbench.refused("read_file", path="a.txt", cursor=page.next_page_cursor, **other)
        assert code == "INVALID_ARGS"


@pytest.mark.parametrize("arguments", [{"offset": 9}, {"start_line": 3}, {"start_line": 2**50}])
async def test_behind_the_end_there_is_nothing(workbench: Workbench, arguments):
    """S3-12.14: out of bounds is refused, and the size of the file told."""
    workbench.write("a.txt", "one\ntwo\n")
    result = await workbench.call("read_file", path="a.txt", **arguments)
    assert result.failure is not None
    assert result.failure.error_code == "INVALID_ARGS"
    assert "the file has 8 bytes" in result.failure.message or "has 2 lines" in result.failure.message


async def test_an_empty_file_has_an_empty_first_line(workbench: Workbench):
    workbench.write("empty")
    for arguments in ({}, {"offset": 0}, {"start_line": 1}):
        result = await workbench.ok("read_file", path="empty", **arguments)
        assert (result.stdout, result.next_page_cursor, result.meta["lines"]) == ("", None, 0)
    assert await workbench.refused("read_file", path="empty", start_line=2) == "INVALID_ARGS"


# -- cursors --


async def test_a_cursor_is_stale_once_the_file_changed(workbench: Workbench):
    file = workbench.write("a.txt", "one\ntwo\n")
    cursor = (await workbench.ok("read_file", path="a.txt", line_count=1)).next_page_cursor
    with file.open("a") as more:
        more.write("three\n")
    assert await workbench.refused("read_file", path="a.txt", line_count=1, cursor=cursor) == "STALE_CURSOR"
    replaced = workbench.write("b.txt", "one\ntwo\n")
    os.utime(replaced, ns=(0, file.stat().st_mtime_ns))
    replaced.rename(file)
    assert await workbench.refused("read_file", path="a.txt", cursor=cursor) == "STALE_CURSOR"


async def test_a_cursor_of_another_file_or_of_nobody_is_refused(workbench: Workbench):
    for name in ("a.txt", "b.txt"):
        workbench.write(name, "one\ntwo\n")
    cursor = (await workbench.ok("read_file", path="a.txt", line_count=1)).next_page_cursor
    forged = make_cursor(subject_of("read", workbench.root / "a.txt"), "v", {"offset": 2**63})
    for path, bad in (("b.txt", cursor), ("a.txt", "garbage"), ("a.txt", "NQ"), ("a.txt", forged)):
        assert await workbench.refused("read_file", path=path, cursor=bad) == "INVALID_ARGS"


# -- limits --


async def test_more_than_the_policy_allows_is_refused(workbench: Workbench):
    workbench.write("a.txt", "x" * 5000)
    workbench.narrow(read=1000)
    assert await workbench.refused("read_file", path="a.txt", limit_bytes=1001) == "LIMIT_EXCEEDED"
    pages = await workbench.pages("read_file", path="a.txt")
    assert [len(page.stdout) for page in pages] == [1000] * 5
    assert all(page.truncated_bytes for page in pages[:-1])


async def test_a_limit_above_the_output_is_served_in_pages(workbench: Workbench):
    workbench.write("a.txt", "x" * 200_000)
    pages = await workbench.pages("read_file", path="a.txt", limit_bytes=100_000)
    assert [len(page.stdout) for page in pages] == [51200, 51200, 51200, 46400]


def _bytes_read() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


async def test_a_huge_file_is_not_read_to_show_a_page_of_it(workbench: Workbench):
    """A page in a file of 1 GiB costs what a page costs."""
    file = workbench.write("huge.log", b"a line of text\n" * 10_000)
    os.truncate(file, 2**30)
    with file.open("r+b") as end:
        end.seek(2**30 - 12)
        end.write(b"\nlast line.\n")
    before = _bytes_read()
    first = await workbench.ok("read_file", path="huge.log")
    second = await workbench.ok("read_file", path="huge.log", cursor=first.next_page_cursor)
    last = await workbench.ok("read_file", path="huge.log", offset=2**30 - 11)
    assert _bytes_read() - before < 3_000_000
    assert first.stdout + second.stdout == "a line of text\n" * (4000)
    assert last.stdout == "last line.\n"
    assert last.next_page_cursor is None


async def test_one_huge_line_comes_in_pages(workbench: Workbench):
    with workbench.write("line.txt").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 2**20)
    before = _bytes_read()
    page = await workbench.ok("read_file", path="line.txt")
    assert page.stdout == "x" * 51200
    assert page.truncated_bytes
    page = await workbench.ok("read_file", path="line.txt", cursor=page.next_page_cursor)
    assert (page.meta["offset"], page.meta["start_line"]) == (51200, 1)
    assert _bytes_read() - before < 3_000_000
    assert await workbench.refused("read_file", path="line.txt", start_line=2) == "INVALID_ARGS"


async def test_a_read_that_takes_too_long_is_stopped(workbench: Workbench):
    file = workbench.write("huge.txt", "x")
    os.truncate(file, 2**40)
    with file.open("r+b") as begin:
        begin.write(b"x" * 100_000)
    assert await workbench.refused("read_file", path="huge.txt", start_line=5, timeout=0.05) == "TIMEOUT"
    assert await workbench.ok("read_file", path="huge.txt", line_count=1)


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
        ("SRC/main.py", "there is no SRC/main.py (no SRC); did you mean src?"),
        ("src/README.MD", "there is no src/README.MD; did you mean src/readme.md?"),
        ("src/zzz", "there is no src/zzz"),
        ("nowhere/at/all", "there is no nowhere/at/all (no nowhere)"),
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


# -- secrets and the event --


async def test_secrets_are_taken_out_and_the_event_says_so(workbench: Workbench):
    workbench.write("s.env", f"KEY={SECRET}\nother\n")
    result = await workbench.ok("read_file", path="s.env")
    assert result.stdout == f"KEY={MARK}\nother\n"


async def test_the_event_tells_what_was_seen_of_which_content(workbench: Workbench):
    data = b"\xef\xbb\xbf" + "".join(f"line {number}\n" for number in range(100)).encode()
    file = workbench.write("a.txt", data)
    page = await workbench.ok("read_file", path="a.txt", line_count=10)
    kind, payload = workbench.last_event()
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
async def test_of_a_large_file_the_hash_is_that_of_the_part_that_was_seen(workbench: Workbench, mark):
    encoding = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-8"
    data = mark + ("äöü line\n" * 2000).encode(encoding)
    workbench.write("a.txt", data)
    workbench.narrow(read=5000)
    seen = []
    await workbench.pages("read_file", path="a.txt")
    for kind, payload in workbench.events():
        if kind == "tool_call.completed":
            (touch,) = payload["files"]
            part = data[touch["seen_from"] : touch["seen_to"]]
            assert (touch["hashed_from"], touch["hashed_to"]) == (touch["seen_from"], touch["seen_to"])
            assert touch["sha256"] == hashlib.sha256(part).hexdigest()
            seen.append(part)
    assert b"".join(seen) == data


async def test_a_file_that_changes_while_it_is_read_is_never_a_mixture_with_a_wrong_hash(
    workbench: Workbench,
):
    """What the event's hash covers is what was shown, also while somebody else writes."""
    file = workbench.write("a.txt", b"a" * 20_000)
    workbench.narrow(read=10_000)
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
            shown = (await workbench.ok("read_file", path="a.txt")).stdout
            (touch,) = workbench.last_event()[1]["files"]
            assert touch["sha256"] == hashlib.sha256(shown.encode()).hexdigest()
    finally:
        done.set()
        thread.join()


async def test_a_file_that_is_cut_while_it_is_read_ends_where_it_ends(workbench: Workbench):
    file = workbench.write("a.txt", b"a" * 5000)
    done = threading.Event()

    def rewrite() -> None:
        while not done.is_set():
            os.truncate(file, 100)
            os.truncate(file, 5000)

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for _ in range(30):
            result = await workbench.call("read_file", path="a.txt")
            assert result.next_page_cursor is None
    finally:
        done.set()
        thread.join()


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
