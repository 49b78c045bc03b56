"""Undoing twice, undoing an undo, and undoing what was cut short."""

import asyncio
import threading

import pytest

from interlock.events.ledger import Scope
from interlock.gates.gate import ToolCall
from interlock.gates.runner import CallContext
from interlock.infra.errors import NothingToUndo
from interlock.sandbox.changes import FileChanges
from interlock.sandbox.kept import KeptVersions
from interlock.sandbox.undo import Undo
from interlock.tools.files.undoing import UndoDesk
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.trees import tree
from tests.integration.tools.undoing import house, left, rewritten, undo, undone
from tests.integration.workbench import Workbench
from tests.unit.sandbox.conftest import open_descriptors

# -- again, and back again --


async def test_twice_is_harmless(workbench: Workbench):
    file = workbench.write("f", "one")
    await rewritten(workbench, "f", "two")
    await undone(workbench)
    with pytest.raises(NothingToUndo):
        await undo(workbench)
    assert file.read_text() == "one"


async def test_an_undo_can_be_undone_and_that_too(workbench: Workbench):
    house(workbench)
    for name in ("replaced", "deleted", "source", "over", "under"):
        workbench.write(name, name)
    (workbench.root / "link").symlink_to("x")
    first = tree(workbench.root)
    await rewritten(workbench, "replaced", "new")
    await workbench.ok("delete_file", path="deleted")
    await workbench.ok("delete_file", path="link")
    await workbench.ok("delete_file", path="d", recursive=True)
    await workbench.ok("move_file", source="source", destination="made/moved")
    await workbench.ok("move_file", source="over", destination="under", overwrite=True)
    await workbench.ok("write_file", path="made/too/created", content="x")
    second = tree(workbench.root)
    report = await undone(workbench)
    for _ in range(2):
        assert tree(workbench.root) == first
        report = await undone(workbench, report.undo_id)
        assert tree(workbench.root) == second
        report = await undone(workbench, report.undo_id)


async def test_what_was_redone_is_the_work_of_its_task_again(workbench: Workbench):
    """An undo of the task or of the session takes it back once more, whoever redid it."""
    await workbench.ok("write_file", path="f", content="one")
    for _ in range(2):
        report = await undone(workbench)
        assert tree(workbench.root) == {}
        await undone(workbench, report.undo_id)
        assert (workbench.root / "f").read_text() == "one"
        with pytest.raises(NothingToUndo):
            await undo(workbench, report.undo_id)


async def test_of_a_task_only_its_own_undo_is_redone(workbench: Workbench):
    async def session_of(task: str) -> str | None:
        return workbench.session_id if task in {"t1", "t2"} else None

    desk = UndoDesk(workbench.kept, workbench.store.log, session_of)
    for task in ("t1", "t2"):
        context = CallContext(workbench.session_id, scope=Scope(task, None))
        call = ToolCall(f"call_{task}", "write_file", {"path": task, "content": "x"})
        assert (await workbench.runner.call(call, workbench.authority(), context)).ok
    report = await desk.take_back("t1", who="test")
    for task, undo_id in (
        ("t2", report.undo_id),
        ("t1", "call_t1"),
        ("t1", "undo_0"),
        ("t3", report.undo_id),
    ):
        with pytest.raises(NothingToUndo):
            await desk.redo(task, undo_id, who="test")
    assert tree(workbench.root).keys() == {"t2"}
    again = await desk.redo("t1", report.undo_id, who="test")
    assert [outcome.path for outcome in again.outcomes] == [str(workbench.root / "t1")]
    assert tree(workbench.root).keys() == {"t1", "t2"}
    kind, started = workbench.events()[-2]
    assert (kind, started["of"]) == ("undo.started", report.undo_id)
    await desk.take_back("t1", who="test")
    assert tree(workbench.root).keys() == {"t2"}


async def test_a_brought_back_folder_that_changed_since_is_left(workbench: Workbench):
    house(workbench)
    await workbench.ok("delete_file", path="d", recursive=True)
    report = await undone(workbench)
    workbench.write("d/a/more", "mine")
    assert left(await undo(workbench, report.undo_id)) == {"d": "it was changed since"}
    assert (workbench.root / "d/a/more").read_text() == "mine"


async def test_whoever_stops_waiting_for_an_undo_has_it_told_to_its_end(workbench: Workbench, monkeypatch):
    """Somebody closes the page in the middle of it: the files are taken back, and the log says so."""
    file = workbench.write("f", "one")
    await rewritten(workbench, "f", "two")
    real, begun, go_on = Undo.take_back, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slowly(self, *arguments):
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(10)
        return real(self, *arguments)

    monkeypatch.setattr(Undo, "take_back", slowly)
    undoing = asyncio.create_task(undo(workbench))
    await begun.wait()
    undoing.cancel()
    go_on.set()
    await asyncio.wait({undoing})
    assert undoing.cancelled()
    assert file.read_text() == "one"
    kind, finished = workbench.events()[-1]
    assert (kind, finished["restored"]) == ("undo.finished", [str(file)])


# -- calls that were cut short --


async def test_a_call_killed_after_its_effect_can_be_undone(workbench: Workbench, monkeypatch):
    """There is no outcome in the log, but there is an entry."""
    file = workbench.write("f", "one")
    await workbench.ok("read_file", path="f")
    real = FileChanges.replace

    def killed(self, *arguments, **more):
        real(self, *arguments, **more)
        raise SystemExit

    monkeypatch.setattr(FileChanges, "replace", killed)
    assert await workbench.refused("write_file", path="f", content="two") == "EXECUTION_ERROR"
    assert file.read_text() == "two"
    monkeypatch.undo()
    await undone(workbench)
    assert file.read_text() == "one"


async def test_a_call_killed_before_its_effect_is_nothing_to_take_back(workbench: Workbench, monkeypatch):
    """Its entry is there. What it would have changed is as it was, and earlier changes still go back."""
    house(workbench)
    workbench.write("f", "one")
    workbench.write("gone", "x")
    (workbench.root / "link").symlink_to("x")
    workbench.write("over", "x")
    before = tree(workbench.root, times=True)
    await rewritten(workbench, "f", "two")
    between = tree(workbench.root, times=True)
    monkeypatch.setattr(KeptVersions, "drop", lambda self, entry: None)
    real = workbench.kept.keep

    def killed(change, pieces=()):
        real(change, pieces)
        raise SystemExit

    monkeypatch.setattr(workbench.kept, "keep", killed)
    for name, arguments in (
        ("write_file", {"path": "f", "content": "three"}),
        ("write_file", {"path": "new/n", "content": "three"}),
        ("delete_file", {"path": "gone"}),
        ("delete_file", {"path": "link"}),
        ("delete_file", {"path": "d", "recursive": True}),
        ("move_file", {"source": "gone", "destination": "x/y"}),
        ("move_file", {"source": "gone", "destination": "over", "overwrite": True}),
    ):
        await workbench.refused(name, arguments)
    assert tree(workbench.root, times=True) == between
    monkeypatch.undo()
    report = await undone(workbench)
    assert len(report.outcomes) == 5
    after = tree(workbench.root, times=True)
    assert {path: entry[:3] for path, entry in after.items()} == {
        path: entry[:3] for path, entry in before.items()
    }
    assert after["d/a/f"] == before["d/a/f"]


async def test_an_undo_that_was_cut_short_is_finished_by_the_next(workbench: Workbench, monkeypatch):
    house(workbench)
    for name in ("f", "gone", "source", "over", "under"):
        workbench.write(name, name)
    before = tree(workbench.root)
    await rewritten(workbench, "f", "two")
    await workbench.ok("delete_file", path="gone")
    await workbench.ok("delete_file", path="d", recursive=True)
    await workbench.ok("move_file", source="source", destination="x/moved")
    await workbench.ok("move_file", source="over", destination="under", overwrite=True)
    await workbench.ok("write_file", path="n/n", content="x")
    monkeypatch.setattr(KeptVersions, "drop", lambda self, entry: None)
    await undone(workbench)
    assert tree(workbench.root) == before
    monkeypatch.undo()
    await undone(workbench)
    assert tree(workbench.root) == before


async def test_a_full_disk_leaves_what_is_there(workbench: Workbench):
    with tmpfs(workbench.root / "small", "256k"):
        workbench.write("small/f", "x" * 150_000)
        workbench.write("small/g", "new")
        workbench.write("small/d/f", "y" * 50_000)
        await workbench.ok("move_file", source="small/g", destination="small/f", overwrite=True)
        await workbench.ok("delete_file", path="small/d", recursive=True)
        workbench.write("small/filler", "z" * 240_000)
        before = tree(workbench.root)
        assert left(await undo(workbench)).keys() == {"small/f", "small/d"}
        assert tree(workbench.root) == before
        (workbench.root / "small/filler").unlink()
        await undone(workbench)
        assert (workbench.root / "small/f").read_text() == "x" * 150_000
        assert (workbench.root / "small/g").read_text() == "new"


# -- descriptors --


async def test_no_descriptor_stays_open(workbench: Workbench):
    house(workbench)
    workbench.write("f", "one")
    await rewritten(workbench, "f", "two")
    await undone(workbench)
    before = open_descriptors()
    for _ in range(2):
        await rewritten(workbench, "f", "two")
        await workbench.ok("delete_file", path="d", recursive=True)
        await workbench.ok("move_file", source="f", destination="x/f")
        report = await undone(workbench)
        for _ in range(2):
            report = await undone(workbench, report.undo_id)
        with pytest.raises(NothingToUndo):
            await undo(workbench, "nothing")
    assert open_descriptors() == before
