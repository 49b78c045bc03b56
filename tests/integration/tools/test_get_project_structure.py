"""`get_project_structure` on real folders (S2-2.1, S3-12.4)."""

import os

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.policy.authority_inputs import CallLimits
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.builtins.get_project_structure import GetProjectStructureTool
from tests.harness.tool_calls import SECRET, ToolHarness


def test_get_project_structure_group_and_modes():
    tool = GetProjectStructureTool(Redactor())
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}


async def drawn(harness: ToolHarness, **arguments) -> str:
    return (await harness.ok("get_project_structure", **arguments)).stdout


async def test_a_project_is_drawn_as_a_tree(harness: ToolHarness):
    for path in (
        "src/app/main.py",
        "src/app/deep/er/x",
        "src/a.py",
        "README.md",
        "node_modules/p/x",
        ".git/a",
    ):
        harness.write(path)
    (harness.root / "empty").mkdir()
    (harness.root / "link").symlink_to("src")
    (harness.root / "out").symlink_to(harness.outside)
    os.mkfifo(harness.root / "pipe")
    (harness.outside / "private.txt").write_text("CANARY")
    result = await harness.ok("get_project_structure")
    assert result.stdout == (
        "root/\n"
        "  .git/ (1 entry)\n"
        "  empty/ (empty)\n"
        "  node_modules/ (1 entry)\n"
        "  src/\n"
        "    app/\n"
        "      deep/ (1 entry)\n"
        "      main.py\n"
        "    a.py\n"
        "  README.md\n"
        "  link@\n"
        "  out@\n"
        "  pipe=\n"
    )
    assert not result.truncated_lines
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("depth", "deepest"), [(1, "a/ (1 entry)"), (2, "b/ (1 entry)"), (4, "d/ (empty)")]
)
async def test_depth(harness: ToolHarness, depth, deepest):
    (harness.root / "a/b/c/d").mkdir(parents=True)
    text = await drawn(harness, max_depth=depth)
    assert text.splitlines()[-1] == "  " * depth + deepest


async def test_a_folder_inside_can_be_drawn(harness: ToolHarness):
    harness.write("node_modules/p/x.js")
    assert await drawn(harness, path="node_modules") == "node_modules/\n  p/\n    x.js\n"


async def test_a_large_folder_is_shown_in_part_and_hides_nothing_else(harness: ToolHarness):
    for number in range(120):
        harness.write(f"data/{number:03}.json")
    harness.write("src/main.py")
    text = await drawn(harness)
    assert "    049.json\n    … and 70 more\n" in text
    assert "  src/\n    main.py\n" in text


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 13, 30, 60])
async def test_with_little_room_every_level_is_shown_before_the_next(harness: ToolHarness, limit):
    for folder in "abcdef":
        for number in range(6):
            harness.write(f"{folder}/{number}")
    result = await harness.ok("get_project_structure", limit=limit)
    lines = result.stdout.splitlines()
    assert len(lines) <= limit
    assert result.truncated_lines == (limit < 43)
    assert bool(result.stderr) == result.truncated_lines
    if limit >= 8:
        assert [line for line in lines if line.startswith("  ") and line[2] in "abcdef"]
        assert all(any(line.startswith(f"  {folder}/") for line in lines) for folder in "abcdef")


async def test_what_has_no_room_is_cut_and_said(harness: ToolHarness):
    for number in range(40):
        harness.write(f"{'x' * 100}{number}")
    harness.limits = CallLimits(max_output_bytes=1000)
    result = await harness.ok("get_project_structure")
    assert len(result.stdout.encode()) <= 1000
    assert result.truncated_bytes
    assert "max_depth" in result.stderr


async def test_unusual_names_stay_on_one_line_and_secrets_are_taken_out(harness: ToolHarness):
    harness.write("new\nline")
    harness.write(SECRET)
    assert await drawn(harness) == f'root/\n  "new\\nline"\n  {MARK}\n'


def test_folders_without_permission_are_marked(harness: ToolHarness, as_ordinary_account):
    harness.write("closed/b")
    harness.write("open/a")
    (harness.root / "closed").chmod(0)
    result = as_ordinary_account("get_project_structure")
    assert result["stdout"] == "root/\n  closed/ (cannot be opened)\n  open/\n    a\n"


@pytest.mark.parametrize("path", ["file", "missing"])
async def test_what_is_not_a_folder_is_refused(harness: ToolHarness, path):
    harness.write("file")
    assert await harness.refused("get_project_structure", path=path) == "EXECUTION_ERROR"


async def test_outside_is_denied(harness: ToolHarness):
    assert await harness.refused("get_project_structure", path="..") == "PATH_DENIED"


BAD_ARGUMENTS = [
    ({"max_depth": 0}, "max_depth"),
    ({"max_depth": "3"}, "max_depth"),
    ({"limit": 0}, "limit"),
    ({"x": 1}, "x"),
]


async def test_bad_arguments_are_refused_by_name(harness: ToolHarness):
    for arguments, place in BAD_ARGUMENTS:
        result = await harness.call("get_project_structure", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


async def test_drawing_leaves_no_descriptor_open(harness: ToolHarness, open_descriptors):
    harness.write("a/b/c/d/e")
    await harness.ok("get_project_structure")
    before = open_descriptors()
    await harness.ok("get_project_structure", max_depth=9)
    await harness.ok("get_project_structure", limit=2)
    assert open_descriptors() == before
