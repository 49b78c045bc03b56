"""`list_files` on real folders (S3-11.ls, S3-12.4, S3-12.11)."""

import json
import os

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.policy.authority_inputs import CallLimits
from interlock.redaction.redactor import MARK, Redactor
from interlock.sandbox.directory_walk import MAX_DEPTH
from interlock.tools.builtins.list_files import ListFilesTool
from tests.harness.tool_calls import SECRET, ToolHarness


def test_list_files_group_and_modes():
    tool = ListFilesTool(Redactor())
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}
    assert tool.aliases == ("ls", "fs.list")


async def lines(harness: ToolHarness, **arguments) -> list[str]:
    return (await harness.ok("list_files", **arguments)).stdout.splitlines()


async def test_a_folder_is_listed_by_name_with_what_each_entry_is(harness: ToolHarness):
    for path in ("b.txt", "a/inner.txt", ".hidden", "Z"):
        harness.write(path)
    (harness.root / "link").symlink_to("a")
    (harness.root / "dangling").symlink_to("nowhere")
    os.mkfifo(harness.root / "pipe")
    result = await harness.ok("list_files")
    assert result.stdout.split() == [".hidden", "Z", "a/", "b.txt", "dangling@", "link@", "pipe="]
    assert result.meta == {"path": ".", "entries": 7}
    assert not result.truncated_lines
    assert result.next_page_cursor is None


async def test_recursive_lists_each_folder_before_what_is_in_it(harness: ToolHarness):
    for path in ("a/b/c.txt", "a/b.txt", "d.txt"):
        harness.write(path)
    found = await lines(harness, path=".", recursive=True)
    assert found == ["a/", "a/b/", "a/b/c.txt", "a/b.txt", "d.txt"]
    assert await lines(harness, path="a") == ["a/b/", "a/b.txt"]
    assert await lines(harness, path=str(harness.root / "a")) == ["a/b/", "a/b.txt"]


async def test_an_empty_folder_is_a_success(harness: ToolHarness):
    (harness.root / "empty").mkdir()
    result = await harness.ok("list_files", path="empty")
    assert (result.stdout, result.meta["entries"]) == ("", 0)


async def test_links_are_shown_and_not_followed(harness: ToolHarness):
    (harness.outside / "private.txt").write_text("CANARY")
    (harness.root / "out").symlink_to(harness.outside)
    harness.write("in/file")
    (harness.root / "loop").symlink_to(".")
    found = await lines(harness, recursive=True)
    assert found == ["in/", "in/file", "loop@", "out@"]
    assert await harness.refused("list_files", path="out") == "PATH_DENIED"
    assert await lines(harness, path="loop/in") == ["in/file"]


@pytest.mark.parametrize("limit", [1, 3, 7])
@pytest.mark.parametrize("recursive", [True, False])
async def test_pages_joined_are_the_whole_list(harness: ToolHarness, limit, recursive):
    for number in range(12):
        harness.write(f"d{number % 3}/e{number % 2}/f{number}")
        harness.write(f"g{number}")
    whole = await harness.ok("list_files", recursive=recursive)
    pages = await harness.pages("list_files", recursive=recursive, limit=limit)
    assert "".join(page.stdout for page in pages) == whole.stdout
    assert all(page.stdout.count("\n") == limit for page in pages[:-1])
    assert all(page.truncated_lines for page in pages[:-1])
    assert not pages[-1].truncated_lines


async def test_the_size_of_pages_may_change_on_the_way(harness: ToolHarness):
    for number in range(9):
        harness.write(f"f{number}")
    first = await harness.ok("list_files", limit=2)
    rest = await harness.ok("list_files", cursor=first.next_page_cursor)
    assert first.stdout + rest.stdout == "".join(f"f{number}\n" for number in range(9))


@pytest.mark.full
async def test_twenty_thousand_entries_are_paged(harness: ToolHarness):
    folder = harness.root / "many"
    folder.mkdir()
    for number in range(20_000):
        (folder / f"{number:05}").touch()
    pages = await harness.pages("list_files", path="many")
    assert len(pages) == 10
    assert "".join(page.stdout for page in pages) == "".join(f"many/{n:05}\n" for n in range(20_000))
    assert all(len(page.stdout.encode()) <= 51200 for page in pages)


async def test_pages_are_cut_by_bytes_too(harness: ToolHarness):
    for number in range(30):
        harness.write("x" * 200 + f"{number:02}")
    harness.limits = CallLimits(max_output_bytes=1000)
    pages = await harness.pages("list_files")
    assert all(len(page.stdout.encode()) <= 1000 for page in pages)
    assert all(page.truncated_bytes for page in pages[:-1])
    assert sum(page.meta["entries"] for page in pages) == 30


@pytest.mark.parametrize("change", ["add", "remove", "rename"])
async def test_a_cursor_is_stale_once_the_folder_changed(harness: ToolHarness, change):
    for name in ("a", "b", "c"):
        harness.write(f"d/{name}")
    first = await harness.ok("list_files", path="d", limit=1)
    os.utime(harness.root / "d", ns=(0, 0))
    first = await harness.ok("list_files", path="d", limit=1)
    match change:
        case "add":
            harness.write("d/x")
        case "remove":
            (harness.root / "d/a").unlink()
        case "rename":
            (harness.root / "d/a").rename(harness.root / "d/b")
    assert await harness.refused("list_files", path="d", cursor=first.next_page_cursor) == "STALE_CURSOR"


async def test_a_folder_that_is_replaced_below_makes_the_cursor_stale(harness: ToolHarness):
    for name in ("a", "b", "c"):
        harness.write(f"d/{name}")
    first = await harness.ok("list_files", recursive=True, limit=2)
    assert first.stdout == "d/\nd/a\n"
    (harness.root / "d").rename(harness.outside / "moved")
    (harness.root / "d").symlink_to(harness.outside / "moved")
    code = await harness.refused("list_files", recursive=True, cursor=first.next_page_cursor)
    assert code == "STALE_CURSOR"


async def test_a_cursor_of_another_call_is_refused(harness: ToolHarness):
    for name in ("a", "b", "d/c"):
        harness.write(name)
    cursor = (await harness.ok("list_files", limit=1)).next_page_cursor
    for other in ({"path": "d"}, {"recursive": True}):
        assert await harness.refused("list_files", cursor=cursor, **other) == "INVALID_ARGS"
    assert await harness.refused("find_files", name_pattern="*", cursor=cursor) == "INVALID_ARGS"
    assert await harness.refused("list_files", cursor="garbage") == "INVALID_ARGS"


@pytest.mark.parametrize(
    "name", ["new\nline", "tab\t", "\x1b[31mred", "right\u202eleft", "zero\u200bwidth"]
)
async def test_a_name_stays_on_one_line_and_can_be_given_back(harness: ToolHarness, name):
    harness.write(name, "content")
    harness.write("~")
    shown, last = await lines(harness)
    assert last == "~"
    assert json.loads(shown) == name
    assert (await harness.ok("read_file", path=json.loads(shown))).stdout == "content"


async def test_names_that_are_no_text_are_listed_page_by_page(harness: ToolHarness):
    for number in range(5):
        (harness.root / os.fsdecode(b"bad-\xff-%d" % number)).touch()
    pages = await harness.pages("list_files", limit=1)
    assert [json.loads(page.stdout) for page in pages] == [f"bad-\udcff-{n}" for n in range(5)]


async def test_secret_names_are_not_shown_and_do_not_break_the_pages(harness: ToolHarness):
    for number in range(4):
        harness.write(f"{SECRET}-{number}")
    pages = await harness.pages("list_files", limit=1)
    assert "".join(page.stdout for page in pages) == "".join(f"{MARK}-{n}\n" for n in range(4))


async def test_long_paths_do_not_break_the_pages(harness: ToolHarness):
    folder = os.open(harness.root, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("x" * 200, dir_fd=folder)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    pages = await harness.pages("list_files", recursive=True, limit=9)
    assert sum(page.meta["entries"] for page in pages) == 40


async def test_deeper_than_can_be_shown_is_said(harness: ToolHarness):
    folder = os.open(harness.root, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 3):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    pages = await harness.pages("list_files", recursive=True, limit=150)
    assert sum(page.meta["entries"] for page in pages) == MAX_DEPTH
    assert f"more than {MAX_DEPTH} levels" in pages[-1].stderr


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a.txt", "a.txt is not a folder"),
        ("a.txt/b", "a.txt/b is not a folder"),
        ("missing", "there is no missing"),
        ("src/tol", "there is no src/tol; did you mean src/tools?"),
    ],
)
async def test_what_is_not_a_folder_is_refused_with_a_reason(harness: ToolHarness, path, said):
    harness.write("a.txt")
    harness.write("src/tools/x")
    result = await harness.call("list_files", path=path)
    assert result.failure is not None
    assert result.failure.message == said


def test_folders_without_permission_are_named(harness: ToolHarness, as_ordinary_account):
    for path in ("open/a", "closed/b"):
        harness.write(path)
    (harness.root / "closed").chmod(0)
    result = as_ordinary_account("list_files", recursive=True)
    assert result["stdout"] == "closed/\nopen/\nopen/a\n"
    assert result["stderr"] == "no permission to read: closed\n"
    result = as_ordinary_account("list_files", path="closed")
    assert result["message"] == "closed: Interlock's account has no permission"


BAD_ARGUMENTS = [
    ({"recursive": "false"}, "recursive"),
    ({"recursive": 1}, "recursive"),
    ({"limit": "5"}, "limit"),
    ({"limit": 0}, "limit"),
    ({"limit": True}, "limit"),
    ({"path": None}, "path"),
    ({"depth": 1}, "depth"),
]


async def test_bad_arguments_are_refused_by_name(harness: ToolHarness):
    for arguments, place in BAD_ARGUMENTS:
        result = await harness.call("list_files", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


async def test_a_list_that_takes_too_long_is_stopped(harness: ToolHarness):
    folder = harness.root / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number:05}").mkdir()
    harness.limits = CallLimits(max_output_lines=100_000, max_output_bytes=10_000_000)
    assert await harness.refused("list_files", recursive=True, timeout=0.001) == "TIMEOUT"


async def test_listing_leaves_no_descriptor_open(harness: ToolHarness, open_descriptors):
    for number in range(10):
        harness.write(f"a/b{number}/c")
    await harness.ok("list_files")
    before = open_descriptors()
    await harness.pages("list_files", recursive=True, limit=2)
    await harness.refused("list_files", path="a/b1/c")
    cursor = (await harness.ok("list_files", recursive=True, limit=3)).next_page_cursor
    harness.write("a/new")
    await harness.refused("list_files", recursive=True, cursor=cursor)
    assert open_descriptors() == before
