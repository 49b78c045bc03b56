"""Undoing twice, undoing an undo, and undoing what was cut short."""

import asyncio
import threading

import pytest

from interlock.core.errors import NothingToUndo
from interlock.gates.gate import ToolCall
from interlock.log.stream_appender import EventScope
from interlock.sandbox.file_changer import FileChanger
from interlock.sandbox.undo import Undo
from interlock.sandbox.undo_store import UndoStore
from interlock.tools.files.undo_service import UndoService
from interlock.tools.tool import ToolContext
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.trees import tree
from tests.integration.tools.undoing import house, left, rewritten, undo, undone
from tests.unit.sandbox.conftest import open_descriptors

# -- again, and back again --


async def test_twice_is_harmless(harness: ToolHarness):
    file = harness.write("f", "one")
    await rewritten(harness, "f", "two")
    await undone(harness)
    with pytest.raises(NothingToUndo):
        await undo(harness)
    assert file.read_text() == "one"


async def test_an_undo_can_be_undone_and_that_too(harness: ToolHarness):
    house(harness)
    for name in ("replaced", "deleted", "source", "over", "under"):
        harness.write(name, name)
    (harness.root / "link").symlink_to("x")
    first = tree(harness.root)
    await rewritten(harness, "replaced", "new")
    await harness.ok("delete_file", path="deleted")
    await harness.ok("delete_file", path="link")
    await harness.ok("delete_file", path="d", recursive=True)
    await harness.ok("move_file", source="source", destination="made/moved")
    await harness.ok("move_file", source="over", destination="under", overwrite=True)
    await harness.ok("write_file", path="made/too/created", content="x")
    second = tree(harness.root)
    report = await undone(harness)
    for _ in range(2):
        assert tree(harness.root) == first
        report = await undone(harness, report.undo_id)
        assert tree(harness.root) == second
        report = await undone(harness, report.undo_id)


async def test_what_was_redone_is_the_work_of_its_task_again(harness: ToolHarness):
    """An undo of the task or of the session takes it back once more, whoever redid it."""
    await harness.ok("write_file", path="f", content="one")
    for _ in range(2):
        report = await undone(harness)
        assert tree(harness.root) == {}
        await undone(harness, report.undo_id)
        assert (harness.root / "f").read_text() == "one"
        with pytest.raises(NothingToUndo):
            await undo(harness, report.undo_id)


async def test_of_a_task_only_its_own_undo_is_redone(harness: ToolHarness):
    async def session_of(task: str) -> str | None:
        return harness.session_id if task in {"t1", "t2"} else None

    desk = UndoService(harness.kept, harness.store.log, session_of)
    for task in ("t1", "t2"):
        context = ToolContext(harness.session_id, scope=EventScope(task, None))
        call = ToolCall(f"call_{task}", "write_file", {"path": task, "content": "x"})
        assert (await harness.runner.call(call, harness.authority(), context)).ok
    report = await desk.revert("t1", who="test")
    for task, undo_id in (
        ("t2", report.undo_id),
        ("t1", "call_t1"),
        ("t1", "undo_0"),
        ("t3", report.undo_id),
    ):
        with pytest.raises(NothingToUndo):
            await desk.redo(task, undo_id, who="test")
    assert tree(harness.root).keys() == {"t2"}
    again = await desk.redo("t1", report.undo_id, who="test")
    assert [outcome.path for outcome in again.outcomes] == [str(harness.root / "t1")]
    assert tree(harness.root).keys() == {"t1", "t2"}
    kind, started = harness.events()[-2]
    assert (kind, started["of"]) == ("undo.started", report.undo_id)
    await desk.revert("t1", who="test")
    assert tree(harness.root).keys() == {"t2"}


async def test_a_brought_back_folder_that_changed_since_is_left(harness: ToolHarness):
    house(harness)
    await harness.ok("delete_file", path="d", recursive=True)
    report = await undone(harness)
    harness.write("d/a/more", "mine")
    assert left(await undo(harness, report.undo_id)) == {"d": "it was changed since then"}
    assert (harness.root / "d/a/more").read_text() == "mine"


async def test_whoever_stops_waiting_for_an_undo_has_it_told_to_its_end(harness: ToolHarness, monkeypatch):
    """Somebody closes the page in the middle of it: the files are taken back, and the log says so."""
    file = harness.write("f", "one")
    await rewritten(harness, "f", "two")
    real, begun, go_on = Undo.revert, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slowly(self, *arguments):
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(10)
        return real(self, *arguments)

    monkeypatch.setattr(Undo, "revert", slowly)
    undoing = asyncio.create_task(undo(harness))
    await begun.wait()
    undoing.cancel()
    go_on.set()
    await asyncio.wait({undoing})
    assert undoing.cancelled()
    assert file.read_text() == "one"
    kind, finished = harness.events()[-1]
    assert (kind, finished["restored"]) == ("undo.finished", [str(file)])


# -- calls that were cut short --


async def test_a_call_killed_after_its_effect_can_be_undone(harness: ToolHarness, monkeypatch):
    """There is no outcome in the log, but there is an entry."""
    file = harness.write("f", "one")
    await harness.ok("read_file", path="f")
    real = FileChanger.replace

    def killed(self, *arguments, **more):
        real(self, *arguments, **more)
        raise SystemExit

    monkeypatch.setattr(FileChanger, "replace", killed)
    assert await harness.refused("write_file", path="f", content="two") == "EXECUTION_ERROR"
    assert file.read_text() == "two"
    monkeypatch.undo()
    await undone(harness)
    assert file.read_text() == "one"


async def test_a_call_killed_before_its_effect_is_nothing_to_take_back(harness: ToolHarness, monkeypatch):
    """Its entry is there. What it would have changed is as it was, and earlier changes still go back."""
    house(harness)
    harness.write("f", "one")
    harness.write("gone", "x")
    (harness.root / "link").symlink_to("x")
    harness.write("over", "x")
    before = tree(harness.root, times=True)
    await rewritten(harness, "f", "two")
    between = tree(harness.root, times=True)
    monkeypatch.setattr(UndoStore, "drop", lambda self, entry: None)
    real = harness.kept.keep

    def killed(change, pieces=()):
        real(change, pieces)
        raise SystemExit

    monkeypatch.setattr(harness.kept, "keep", killed)
    for name, arguments in (
        ("write_file", {"path": "f", "content": "three"}),
        ("write_file", {"path": "new/n", "content": "three"}),
        ("delete_file", {"path": "gone"}),
        ("delete_file", {"path": "link"}),
        ("delete_file", {"path": "d", "recursive": True}),
        ("move_file", {"source": "gone", "destination": "x/y"}),
        ("move_file", {"source": "gone", "destination": "over", "overwrite": True}),
    ):
        await harness.refused(name, arguments)
    assert tree(harness.root, times=True) == between
    monkeypatch.undo()
    report = await undone(harness)
    assert len(report.outcomes) == 5
    after = tree(harness.root, times=True)
    assert {path: entry[:3] for path, entry in after.items()} == {
        path: entry[:3] for path, entry in before.items()
    }
    assert after["d/a/f"] == before["d/a/f"]


async def test_an_undo_that_was_cut_short_is_finished_by_the_next(harness: ToolHarness, monkeypatch):
    house(harness)
    for name in ("f", "gone", "source", "over", "under"):
        harness.write(name, name)
    before = tree(harness.root)
    await rewritten(harness, "f", "two")
    await harness.ok("delete_file", path="gone")
    await harness.ok("delete_file", path="d", recursive=True)
    await harness.ok("move_file", source="source", destination="x/moved")
    await harness.ok("move_file", source="over", destination="under", overwrite=True)
    await harness.ok("write_file", path="n/n", content="x")
    monkeypatch.setattr(UndoStore, "drop", lambda self, entry: None)
    await undone(harness)
    assert tree(harness.root) == before
    monkeypatch.undo()
    await undone(harness)
    assert tree(harness.root) == before


async def test_a_full_disk_leaves_what_is_there(harness: ToolHarness):
    with tmpfs(harness.root / "small", "256k"):
        harness.write("small/f", "x" * 150_000)
        harness.write("small/g", "new")
        harness.write("small/d/f", "y" * 50_000)
        await harness.ok("move_file", source="small/g", destination="small/f", overwrite=True)
        await harness.ok("delete_file", path="small/d", recursive=True)
        harness.write("small/filler", "z" * 240_000)
        before = tree(harness.root)
        assert left(await undo(harness)).keys() == {"small/f", "small/d"}
        assert tree(harness.root) == before
        (harness.root / "small/filler").unlink()
        await undone(harness)
        assert (harness.root / "small/f").read_text() == "x" * 150_000
        assert (harness.root / "small/g").read_text() == "new"


# -- descriptors --


async def test_no_descriptor_stays_open(harness: ToolHarness):
    house(harness)
    harness.write("f", "one")
    await rewritten(harness, "f", "two")
    await undone(harness)
    before = open_descriptors()
    for _ in range(2):
        await rewritten(harness, "f", "two")
        await harness.ok("delete_file", path="d", recursive=True)
        await harness.ok("move_file", source="f", destination="x/f")
        report = await undone(harness)
        for _ in range(2):
            report = await undone(harness, report.undo_id)
        with pytest.raises(NothingToUndo):
            await undo(harness, "nothing")
    assert open_descriptors() == before
