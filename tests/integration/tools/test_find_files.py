"""`find_files` on real folders (S3-11.find, S3-12.4, S3-12.12)."""

import time

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.find_files import FindFilesTool
from tests.harness.tool_calls import ToolHarness

TREE = (
    *("README.md", "setup.py", "src/app.py", "src/app.ts", "src/deep/er/app.py", "src/deep/util.py"),
    *(".env", "-dash.py", "!bang.py", "a b.py", "[x].py", "{y}.py", "tests/test_app.py", "docs/Guide.MD"),
)


def test_find_files_group_and_modes():
    tool = FindFilesTool(Redactor())
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}
    assert tool.aliases == ("find",)


@pytest.fixture
def tree(harness: ToolHarness) -> ToolHarness:
    for path in TREE:
        harness.write(path)
    return harness


PATTERNS = [
    ("app.py", ["src/app.py", "src/deep/er/app.py"]),
    ("app.*", ["src/app.py", "src/app.ts", "src/deep/er/app.py"]),
    ("src/*.py", ["src/app.py"]),
    ("src/**/*.py", ["src/app.py", "src/deep/er/app.py", "src/deep/util.py"]),
    ("**/er/*", ["src/deep/er/app.py"]),
    ("*.{ts,md}", ["README.md", "src/app.ts"]),
    ("{src,tests}/*.py", ["src/app.py", "tests/test_app.py"]),
    ("[st]*.py", ["setup.py", "tests/test_app.py"]),
    ("[!a-z]*.md", ["README.md"]),
    ("???????.md", []),
    (".env", [".env"]),
    ("-dash*", ["-dash.py"]),
    ("!*", ["!bang.py"]),
    ("* *", ["a b.py"]),
    ("{y}.py", ["{y}.py"]),
    ("[[]x].py", ["[x].py"]),
    ("*.MD", ["docs/Guide.MD"]),
    ("deep", ["src/deep/"]),
    ("src/deep/", ["src/deep/"]),
    ("--help", []),
    ("nothing-like-it", []),
]


async def test_patterns(tree: ToolHarness):
    """No match is a success with no results."""
    for pattern, found in PATTERNS:
        result = await tree.ok("find_files", name_pattern=pattern)
        assert result.stdout.splitlines() == found
        assert result.meta["entries"] == len(found)
        assert not result.truncated_lines


async def test_the_folder_to_look_in(tree: ToolHarness):
    result = await tree.ok("find_files", path="src", name_pattern="deep/*.py")
    assert result.stdout == "src/deep/util.py\n"
    assert await tree.refused("find_files", path="setup.py", name_pattern="*") == "EXECUTION_ERROR"
    assert await tree.refused("find_files", path="missing", name_pattern="*") == "EXECUTION_ERROR"
    assert await tree.refused("find_files", path="..", name_pattern="*") == "PATH_DENIED"


@pytest.mark.parametrize(("depth", "count"), [(1, 6), (2, 8), (3, 9), (4, 10), (200, 10)])
async def test_depth(tree: ToolHarness, depth, count):
    result = await tree.ok("find_files", name_pattern="*.py", max_depth=depth)
    assert result.meta["entries"] == count


@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_pages_joined_are_everything(tree: ToolHarness, limit):
    whole = await tree.ok("find_files", name_pattern="*.py")
    pages = await tree.pages("find_files", name_pattern="*.py", limit=limit)
    assert "".join(page.stdout for page in pages) == whole.stdout
    assert all(page.truncated_lines == (page.next_page_cursor is not None) for page in pages)


async def test_a_cursor_belongs_to_its_pattern_and_goes_stale(tree: ToolHarness):
    cursor = (await tree.ok("find_files", name_pattern="*.py", limit=1)).next_page_cursor
    assert await tree.refused("find_files", name_pattern="*.ts", cursor=cursor) == "INVALID_ARGS"
    tree.write("new.py")
    assert await tree.refused("find_files", name_pattern="*.py", cursor=cursor) == "STALE_CURSOR"


@pytest.mark.parametrize(
    "pattern",
    [
        *("../*", "/etc/*", "{..,src}/*", "src/../../*", "out_link/**", "out_link/x", "{out_link,src}/*"),
        *("./../*", "src/./../../outside/*", "**/..", "//etc"),
    ],
)
async def test_a_pattern_that_leads_out_is_denied(tree: ToolHarness, pattern):
    (tree.outside / "x").write_text("CANARY")
    (tree.root / "out_link").symlink_to(tree.outside)
    result = await tree.call("find_files", name_pattern=pattern)
    assert result.failure is not None
    assert result.failure.error_code == "PATH_DENIED"
    assert result.failure.is_denial


@pytest.mark.parametrize("pattern", ["*/*", "**", "**/*", "out_lin?/*", "*/x", "o*/**"])
async def test_a_pattern_never_follows_a_link(tree: ToolHarness, pattern):
    (tree.outside / "x").write_text("CANARY")
    (tree.root / "out_link").symlink_to(tree.outside)
    assert "out_link/" not in (await tree.ok("find_files", name_pattern=pattern)).stdout


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 300 + "b",
        "{a,b}" * 6,
        "**/" * 300 + "x",
        "[" * 900,
        "{" * 900,
        "?" * 900,
        "*" * 900,
        "[!" * 400,
    ],
)
async def test_hostile_patterns_are_fast(tree: ToolHarness, pattern):
    tree.write("a" * 250)
    began = time.perf_counter()
    result = await tree.call("find_files", name_pattern=pattern)
    assert time.perf_counter() - began < 10
    assert result.failure is None or result.failure.error_code == "INVALID_ARGS"


BAD_ARGUMENTS = [
    ({}, "name_pattern"),
    ({"name_pattern": ""}, "name_pattern"),
    ({"name_pattern": "a\0"}, "name_pattern"),
    ({"name_pattern": "{a,b}" * 10}, "name_pattern"),
    ({"name_pattern": "."}, "name_pattern"),
    ({"name_pattern": ["*"]}, "name_pattern"),
    ({"name_pattern": "*", "max_depth": 0}, "max_depth"),
    ({"name_pattern": "*", "max_depth": "2"}, "max_depth"),
    ({"name_pattern": "*", "limit": 0}, "limit"),
    ({"name_pattern": "*", "pattern": "*"}, "pattern"),
]


async def test_bad_arguments_are_refused_by_name(harness: ToolHarness):
    for arguments, place in BAD_ARGUMENTS:
        result = await harness.call("find_files", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


async def test_a_long_walk_without_a_match_is_stopped(harness: ToolHarness):
    for number in range(2000):
        harness.write(f"d/{number}")
    result = await harness.call("find_files", name_pattern="nothing", timeout=0.001)
    assert result.failure is not None
    assert result.failure.error_code == "TIMEOUT"
