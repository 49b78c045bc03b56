"""An undo leaves what changed since, and says so."""

import os
import shutil

import pytest

from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.trees import tree
from tests.integration.tools.undoing import left, rewritten, undo, undone


async def test_a_file_that_was_changed_since_is_left_with_its_older_changes(harness: ToolHarness):
    file = harness.write("f", "one")
    harness.write("g", "one")
    for path in ("f", "g"):
        await rewritten(harness, path, "two")
        await rewritten(harness, path, "three")
    file.write_text("somebody's")
    report = await undo(harness)
    assert [outcome.reason for outcome in report.outcomes] == [None, "it was changed since then"]
    assert file.read_text() == "somebody's"
    assert (harness.root / "g").read_text() == "one"
    file.write_text("three")
    await undone(harness)
    assert file.read_text() == "one"


async def test_what_lies_in_or_above_something_that_was_left_is_left_too(harness: ToolHarness):
    harness.write("d/f", "one")
    await rewritten(harness, "d/f", "two")
    await harness.ok("write_file", path="d/n", content="x")
    await harness.ok("move_file", source="d", destination="e")
    harness.write("d", "in the way")
    assert left(await undo(harness)) == {
        "e": "something else is at its original path",
        "d/n": "a later change to it was kept",
        "d/f": "a later change to it was kept",
    }
    (harness.root / "d").unlink()
    await undone(harness)
    assert tree(harness.root).keys() == {"d", "d/f"}
    assert (harness.root / "d/f").read_text() == "one"


async def test_every_kind_of_change_is_left_where_something_else_is_now(harness: ToolHarness):
    harness.write("deleted", "x")
    harness.write("folder/f", "x")
    harness.write("source", "x")
    harness.write("replaced", "x")
    (harness.root / "link").symlink_to("x")
    await harness.ok("delete_file", path="deleted")
    await harness.ok("delete_file", path="folder", recursive=True)
    await harness.ok("delete_file", path="link")
    await harness.ok("move_file", source="source", destination="moved")
    await harness.ok("write_file", path="created", content="x")
    await rewritten(harness, "replaced", "y")
    (harness.root / "moved").unlink()
    for name in ("deleted", "moved", "created"):
        harness.write(name, "somebody's")
    harness.write("folder/g", "somebody's")
    (harness.root / "link").symlink_to("elsewhere")
    (harness.root / "replaced").unlink()
    before = tree(harness.root, times=True)
    assert left(await undo(harness)) == {
        "deleted": "something else is in its place",
        "folder": "something else is in its place",
        "link": "something else is in its place",
        "moved": "it was changed since then",
        "created": "it was changed since then",
        "replaced": "it no longer exists",
    }
    assert tree(harness.root, times=True) == before


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
async def test_a_file_that_became_something_else_is_left(harness: ToolHarness, kind):
    await harness.ok("write_file", path="created", content="x")
    harness.write("replaced", "x")
    await rewritten(harness, "replaced", "y")
    for name in ("created", "replaced"):
        path = harness.root / name
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to(harness.outside)
        else:
            os.mkfifo(path)
    before = tree(harness.root, times=True)
    assert left(await undo(harness)).keys() == {"created", "replaced"}
    assert tree(harness.root, times=True) == before


async def test_a_folder_that_was_moved_goes_back_with_what_came_into_it(harness: ToolHarness):
    harness.write("d/f", "one")
    await harness.ok("move_file", source="d", destination="e")
    harness.write("e/mine", "x")
    await undone(harness)
    assert tree(harness.root).keys() == {"d", "d/f", "d/mine"}


async def test_a_folder_is_left_where_a_later_change_in_it_was_left(harness: ToolHarness):
    harness.write("d/f", "one")
    await harness.ok("move_file", source="d", destination="e")
    await rewritten(harness, "e/f", "two")
    (harness.root / "e/f").write_text("somebody's")
    assert left(await undo(harness)) == {
        "e/f": "it was changed since then",
        "e": "a later change to it was kept",
    }
    assert (harness.root / "e/f").read_text() == "somebody's"


async def test_a_moved_file_that_was_written_in_its_place_is_left(harness: ToolHarness):
    """It is the same file to the system, and not what was moved."""
    harness.write("a", "one")
    await harness.ok("move_file", source="a", destination="b")
    (harness.root / "b").write_text("somebody's")
    assert left(await undo(harness)) == {"b": "it was changed since then"}
    assert not (harness.root / "a").exists()


async def test_a_copy_in_the_old_place_is_left_where_it_is(harness: ToolHarness):
    harness.write("a", "one")
    await harness.ok("move_file", source="a", destination="b")
    shutil.copy(harness.root / "b", harness.root / "a")
    assert left(await undo(harness)) == {"b": "something else is at its original path"}


async def test_what_somebody_took_back_by_hand_is_done(harness: ToolHarness):
    file = harness.write("f", "one")
    await rewritten(harness, "f", "two")
    await harness.ok("write_file", path="n", content="x")
    file.write_text("one")
    (harness.root / "n").unlink()
    await undone(harness)
    assert tree(harness.root).keys() == {"f"}


async def test_what_was_not_kept_is_left(harness: ToolHarness):
    harness.kept._max_bytes = 64 * 1024
    harness.write("big", "x" * 100_000)
    await harness.ok("delete_file", path="big")
    assert left(await undo(harness)) == {"big": "its previous content was not saved"}


async def test_a_damaged_version_is_not_put_in_place(harness: ToolHarness):
    file = harness.write("f", "one")
    harness.write("g", "one")
    harness.write("d/f", "one" * 1000)
    await rewritten(harness, "f", "two")
    await harness.ok("delete_file", path="g")
    await harness.ok("delete_file", path="d", recursive=True)
    for entry in harness.kept.entries(harness.session_id):
        data = entry.file.read_bytes()
        header, _, content = data.partition(b"\n")
        entry.file.write_bytes(header + b"\n" + content[: len(content) // 2].replace(b"o", b"0"))
    assert set(left(await undo(harness)).values()) == {"its saved content is damaged"}
    assert tree(harness.root).keys() == {"f"}
    assert file.read_text() == "two"
