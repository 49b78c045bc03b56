"""`get_project_structure` on real folders (S2-2.1, S3-12.4)."""

import os

import pytest

from interlock.config.modes import ToolGroup, ToolMode
from interlock.gates.situation import CallLimits
from interlock.redaction.redactor import MARK, Redactor
from interlock.tools.builtins.get_project_structure import GetProjectStructureTool
from tests.integration.workbench import SECRET, Workbench


def test_get_project_structure_group_and_modes():
    tool = GetProjectStructureTool(Redactor())
    assert tool.group is ToolGroup.code
    assert tool.allowed_modes == {ToolMode.chat, ToolMode.plan, ToolMode.coding}


async def drawn(workbench: Workbench, **arguments) -> str:
    return (await workbench.ok("get_project_structure", **arguments)).stdout


async def test_a_project_is_drawn_as_a_tree(workbench: Workbench):
    for path in (
        "src/app/main.py",
        "src/app/deep/er/x",
        "src/a.py",
        "README.md",
        "node_modules/p/x",
        ".git/a",
    ):
        workbench.write(path)
    (workbench.root / "empty").mkdir()
    (workbench.root / "link").symlink_to("src")
    (workbench.root / "out").symlink_to(workbench.outside)
    os.mkfifo(workbench.root / "pipe")
    (workbench.outside / "private.txt").write_text("CANARY")
    result = await workbench.ok("get_project_structure")
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
async def test_depth(workbench: Workbench, depth, deepest):
    (workbench.root / "a/b/c/d").mkdir(parents=True)
    text = await drawn(workbench, max_depth=depth)
    assert text.splitlines()[-1] == "  " * depth + deepest


async def test_a_folder_inside_can_be_drawn(workbench: Workbench):
    workbench.write("node_modules/p/x.js")
    assert await drawn(workbench, path="node_modules") == "node_modules/\n  p/\n    x.js\n"


async def test_a_large_folder_is_shown_in_part_and_hides_nothing_else(workbench: Workbench):
    for number in range(120):
        workbench.write(f"data/{number:03}.json")
    workbench.write("src/main.py")
    text = await drawn(workbench)
    assert "    049.json\n    … and 70 more\n" in text
    assert "  src/\n    main.py\n" in text


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 13, 30, 60])
async def test_with_little_room_every_level_is_shown_before_the_next(workbench: Workbench, limit):
    for folder in "abcdef":
        for number in range(6):
            workbench.write(f"{folder}/{number}")
    result = await workbench.ok("get_project_structure", limit=limit)
    lines = result.stdout.splitlines()
    assert len(lines) <= limit
    assert result.truncated_lines == (limit < 43)
    assert bool(result.stderr) == result.truncated_lines
    if limit >= 8:
        assert [line for line in lines if line.startswith("  ") and line[2] in "abcdef"]
        assert all(any(line.startswith(f"  {folder}/") for line in lines) for folder in "abcdef")


async def test_what_has_no_room_is_cut_and_said(workbench: Workbench):
    for number in range(40):
        workbench.write(f"{'x' * 100}{number}")
    workbench.limits = CallLimits(max_output_bytes=1000)
    result = await workbench.ok("get_project_structure")
    assert len(result.stdout.encode()) <= 1000
    assert result.truncated_bytes
    assert "max_depth" in result.stderr


async def test_unusual_names_stay_on_one_line_and_secrets_are_taken_out(workbench: Workbench):
    workbench.write("new\nline")
    workbench.write(SECRET)
    assert await drawn(workbench) == f'root/\n  "new\\nline"\n  {MARK}\n'


def test_folders_without_permission_are_marked(workbench: Workbench, as_ordinary_account):
    workbench.write("closed/b")
    workbench.write("open/a")
    (workbench.root / "closed").chmod(0)
    result = as_ordinary_account("get_project_structure")
    assert result["stdout"] == "root/\n  closed/ (cannot be opened)\n  open/\n    a\n"


@pytest.mark.parametrize("path", ["file", "missing"])
async def test_what_is_not_a_folder_is_refused(workbench: Workbench, path):
    workbench.write("file")
    assert await workbench.refused("get_project_structure", path=path) == "EXECUTION_ERROR"


async def test_outside_is_denied(workbench: Workbench):
    assert await workbench.refused("get_project_structure", path="..") == "PATH_DENIED"


BAD_ARGUMENTS = [
    ({"max_depth": 0}, "max_depth"),
    ({"max_depth": "3"}, "max_depth"),
    ({"limit": 0}, "limit"),
    ({"x": 1}, "x"),
]


async def test_bad_arguments_are_refused_by_name(workbench: Workbench):
    for arguments, place in BAD_ARGUMENTS:
        result = await workbench.call("get_project_structure", arguments)
        assert result.failure is not None
        assert result.failure.error_code == "INVALID_ARGS"
        assert place in result.failure.message


async def test_drawing_leaves_no_descriptor_open(workbench: Workbench, open_descriptors):
    workbench.write("a/b/c/d/e")
    await workbench.ok("get_project_structure")
    before = open_descriptors()
    await workbench.ok("get_project_structure", max_depth=9)
    await workbench.ok("get_project_structure", limit=2)
    assert open_descriptors() == before
