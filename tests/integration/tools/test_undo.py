"""A person takes back what calls did to files (DESIGN section 6)."""

import os
import shutil
import stat
import threading
from contextlib import suppress

import pytest

from interlock.gates.gate import ToolCall
from interlock.gates.runner import CallContext
from interlock.infra.errors import NothingToUndo
from interlock.sandbox.changes import FileChanges
from interlock.sandbox.kept import KeptVersions
from interlock.tools.files.undoing import UndoReport
from tests.integration.tools.mounts import tmpfs
from tests.integration.tools.trees import tree
from tests.integration.workbench import Workbench
from tests.unit.sandbox.conftest import open_descriptors


async def undo(bench: Workbench, identity: str = "") -> UndoReport:
    return await bench.undo.take_back(identity or bench.session_id, who="test")


async def undone(bench: Workbench, identity: str = "") -> UndoReport:
    """Everything must be taken back."""
    report = await undo(bench, identity)
    assert [outcome for outcome in report.outcomes if outcome.reason is not None] == []
    return report


def left(report: UndoReport) -> dict[str, str]:
    return {
        outcome.path.rpartition("/root/")[2]: outcome.reason
        for outcome in report.outcomes
        if outcome.reason is not None
    }


def house(bench: Workbench) -> None:
    """A folder with one of everything."""
    bench.write("d/a/f", b"\0binary\xff")
    bench.write("d/run.sh", "x").chmod(0o751)
    (bench.root / "d/empty").mkdir()
    (bench.root / "d/link").symlink_to("../outside")
    os.mkfifo(bench.root / "d/pipe")
    (bench.root / "d/a").chmod(0o750)
    (bench.root / "d").chmod(0o711)


async def rewritten(bench: Workbench, path: str, content: str) -> None:
    await bench.ok("read_file", path=path)
    await bench.ok("write_file", path=path, content=content)


# -- every action --


async def test_a_created_file_goes_with_the_folders_made_for_it(workbench: Workbench):
    workbench.write("old/f", "x")
    before = tree(workbench.root)
    await workbench.ok("write_file", path="old/new/deep/f", content="x")
    await workbench.ok("write_file", path="n", content="x")
    await undone(workbench)
    assert tree(workbench.root) == before


async def test_a_folder_made_for_a_file_stays_if_something_else_came_into_it(workbench: Workbench):
    await workbench.ok("write_file", path="a/b/c/f", content="x")
    workbench.write("a/mine", "y")
    await undone(workbench)
    assert tree(workbench.root).keys() == {"a", "a/mine"}


@pytest.mark.parametrize("before", [b"old\r\n", b"", b"\xff\xfea\0", b"caf\xe9"])
async def test_replaced_edited_and_appended_text_comes_back(workbench: Workbench, before):
    file = workbench.write("f", before)
    file.chmod(0o640)
    await rewritten(workbench, "f", "new old text")
    await workbench.ok("edit_file", path="f", find="old", replace="edited")
    await workbench.ok("write_file", path="f", content="more", mode="append")
    await undone(workbench)
    assert file.read_bytes() == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


async def test_a_deleted_file_comes_back_as_it_was(workbench: Workbench):
    house(workbench)
    if os.geteuid() == 0:
        os.chown(workbench.root / "d/run.sh", 1234, 2345)
    os.utime(workbench.root / "d/a/f", ns=(10**18, 10**18 + 7))
    before = tree(workbench.root, times=True)
    owner = (workbench.root / "d/run.sh").stat().st_uid
    for path in ("d/a/f", "d/run.sh", "d/link"):
        await workbench.ok("delete_file", path=path)
    await undone(workbench)
    after = tree(workbench.root, times=True)
    for path in ("d/a/f", "d/run.sh"):
        assert after[path] == before[path]
    assert after["d/link"][:3] == before["d/link"][:3]
    assert (workbench.root / "d/run.sh").stat().st_uid == owner


async def test_a_deleted_folder_comes_back_whole(workbench: Workbench):
    house(workbench)
    before = tree(workbench.root, times=True)
    await workbench.ok("delete_file", path="d", recursive=True)
    assert tree(workbench.root) == {}
    await undone(workbench)
    assert tree(workbench.root, times=True) == before


async def test_a_move_goes_back(workbench: Workbench):
    house(workbench)
    workbench.write("f", "x")
    (workbench.root / "l").symlink_to("f")
    before = tree(workbench.root)
    for source, destination in (("d", "x/y/d"), ("f", "x/y/d/f"), ("l", "m"), ("x/y/d/run.sh", "run")):
        await workbench.ok("move_file", source=source, destination=destination)
    await undone(workbench)
    assert tree(workbench.root) == before


async def test_what_a_move_replaced_comes_back(workbench: Workbench):
    workbench.write("a", "new")
    workbench.write("b", "old").chmod(0o600)
    before = tree(workbench.root, times=True)
    await workbench.ok("move_file", source="a", destination="b", overwrite=True)
    await undone(workbench)
    assert tree(workbench.root, times=True) == before


async def test_a_long_story_is_told_backwards(workbench: Workbench):
    house(workbench)
    workbench.write("f", "one")
    before = tree(workbench.root)
    await rewritten(workbench, "f", "two")
    await workbench.ok("move_file", source="f", destination="d/a/g")
    await workbench.ok("write_file", path="f", content="another f")
    await rewritten(workbench, "d/a/g", "three")
    await workbench.ok("move_file", source="d", destination="e/d")
    await workbench.ok("write_file", path="e/d/a/g", content="four", mode="append")
    await workbench.ok("delete_file", path="e", recursive=True)
    await workbench.ok("write_file", path="e", content="now a file")
    await workbench.ok("move_file", source="f", destination="e", overwrite=True)
    await workbench.ok("delete_file", path="e")
    assert tree(workbench.root) == {}
    await undone(workbench)
    assert tree(workbench.root) == before


# -- what it applies to --


async def test_one_call_a_task_or_a_session(workbench: Workbench):
    async def in_task(task: str, path: str) -> str:
        from interlock.events.ledger import Scope

        workbench._count += 1
        call = f"call_{workbench._count}"
        context = CallContext(workbench.session_id, scope=Scope(task, None))
        arguments = {"path": path, "content": "x"}
        await workbench.runner.call(ToolCall(call, "write_file", arguments), workbench.authority(), context)
        return call

    first = await in_task("t1", "a")
    await in_task("t1", "b")
    await in_task("t2", "c")
    await in_task("t3", "d")
    await undone(workbench, first)
    assert tree(workbench.root).keys() == {"b", "c", "d"}
    await undone(workbench, "t1")
    assert tree(workbench.root).keys() == {"c", "d"}
    await undone(workbench)
    assert tree(workbench.root) == {}


async def test_what_two_sessions_did_to_one_file_in_one_task_goes_back_in_order(workbench: Workbench):
    from interlock.events.ledger import Scope

    other = (await workbench.store.sessions.create(opened_by="test")).id
    file = workbench.write("f", "0")
    for number, session in enumerate([workbench.session_id, other, workbench.session_id]):
        context = CallContext(session, scope=Scope("task", None))
        call = ToolCall(f"x{number}", "write_file", {"path": "f", "content": "+", "mode": "append"})
        assert (await workbench.runner.call(call, workbench.authority(), context)).ok
    assert file.read_text() == "0+++"
    await undone(workbench, "task")
    assert file.read_text() == "0"
    kinds = [kind for kind, _ in workbench.events()]
    assert kinds[-2:] == ["undo.started", "undo.finished"]


async def test_a_call_id_that_two_sessions_used_is_not_guessed_at(workbench: Workbench):
    """Providers number their calls anew in each conversation."""
    other = (await workbench.store.sessions.create(opened_by="test")).id
    for session, path in ((workbench.session_id, "a"), (other, "b")):
        call = ToolCall("call_0", "write_file", {"path": path, "content": "x"})
        assert (await workbench.runner.call(call, workbench.authority(), CallContext(session))).ok
    with pytest.raises(NothingToUndo, match="2 sessions"):
        await undo(workbench, "call_0")
    assert tree(workbench.root).keys() == {"a", "b"}


async def test_a_call_named_like_an_undo_is_part_of_the_sessions_work(workbench: Workbench):
    call = ToolCall("undo_000000000000", "write_file", {"path": "a", "content": "x"})
    assert (await workbench.runner.call(call, workbench.authority(), CallContext(workbench.session_id))).ok
    await undone(workbench)
    assert tree(workbench.root) == {}


@pytest.mark.parametrize("identity", ["nothing", "", "..", "/", "*", "a" * 5000, "\0", "é"])
async def test_there_is_nothing_to_take_back_of_what_is_not_known(workbench: Workbench, identity):
    with pytest.raises(NothingToUndo):
        await workbench.undo.take_back(identity, who="test")


# -- what changed since is left --


async def test_a_file_that_was_changed_since_is_left_with_its_older_changes(workbench: Workbench):
    file = workbench.write("f", "one")
    workbench.write("g", "one")
    for path in ("f", "g"):
        await rewritten(workbench, path, "two")
        await rewritten(workbench, path, "three")
    file.write_text("somebody's")
    report = await undo(workbench)
    assert [outcome.reason for outcome in report.outcomes] == [
        *(None, None),
        *("it was changed since", "a later change of it was left"),
    ]
    assert file.read_text() == "somebody's"
    assert (workbench.root / "g").read_text() == "one"
    file.write_text("three")
    await undone(workbench)
    assert file.read_text() == "one"


async def test_what_lies_in_or_above_something_that_was_left_is_left_too(workbench: Workbench):
    workbench.write("d/f", "one")
    await rewritten(workbench, "d/f", "two")
    await workbench.ok("write_file", path="d/n", content="x")
    await workbench.ok("move_file", source="d", destination="e")
    workbench.write("d", "in the way")
    assert left(await undo(workbench)) == {
        "e": "something else is where it came from",
        "d/n": "a later change of it was left",
        "d/f": "a later change of it was left",
    }
    (workbench.root / "d").unlink()
    await undone(workbench)
    assert tree(workbench.root).keys() == {"d", "d/f"}
    assert (workbench.root / "d/f").read_text() == "one"


async def test_every_kind_of_change_is_left_where_something_else_is_now(workbench: Workbench):
    workbench.write("deleted", "x")
    workbench.write("folder/f", "x")
    workbench.write("source", "x")
    workbench.write("replaced", "x")
    (workbench.root / "link").symlink_to("x")
    await workbench.ok("delete_file", path="deleted")
    await workbench.ok("delete_file", path="folder", recursive=True)
    await workbench.ok("delete_file", path="link")
    await workbench.ok("move_file", source="source", destination="moved")
    await workbench.ok("write_file", path="created", content="x")
    await rewritten(workbench, "replaced", "y")
    (workbench.root / "moved").unlink()
    for name in ("deleted", "moved", "created"):
        workbench.write(name, "somebody's")
    workbench.write("folder/g", "somebody's")
    (workbench.root / "link").symlink_to("elsewhere")
    (workbench.root / "replaced").unlink()
    before = tree(workbench.root, times=True)
    assert left(await undo(workbench)) == {
        "deleted": "something else is in its place now",
        "folder": "something else is in its place now",
        "link": "something else is in its place now",
        "moved": "it was changed since",
        "created": "it was changed since",
        "replaced": "it is not there any more",
    }
    assert tree(workbench.root, times=True) == before


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
async def test_a_file_that_became_something_else_is_left(workbench: Workbench, kind):
    await workbench.ok("write_file", path="created", content="x")
    workbench.write("replaced", "x")
    await rewritten(workbench, "replaced", "y")
    for name in ("created", "replaced"):
        path = workbench.root / name
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to(workbench.outside)
        else:
            os.mkfifo(path)
    before = tree(workbench.root, times=True)
    assert left(await undo(workbench)).keys() == {"created", "replaced"}
    assert tree(workbench.root, times=True) == before


async def test_a_folder_that_was_moved_goes_back_with_what_came_into_it(workbench: Workbench):
    workbench.write("d/f", "one")
    await workbench.ok("move_file", source="d", destination="e")
    workbench.write("e/mine", "x")
    await undone(workbench)
    assert tree(workbench.root).keys() == {"d", "d/f", "d/mine"}


async def test_a_copy_in_the_old_place_is_left_where_it_is(workbench: Workbench):
    workbench.write("a", "one")
    await workbench.ok("move_file", source="a", destination="b")
    shutil.copy(workbench.root / "b", workbench.root / "a")
    assert left(await undo(workbench)) == {"b": "something else is where it came from"}


async def test_what_somebody_took_back_by_hand_is_done(workbench: Workbench):
    file = workbench.write("f", "one")
    await rewritten(workbench, "f", "two")
    await workbench.ok("write_file", path="n", content="x")
    file.write_text("one")
    (workbench.root / "n").unlink()
    await undone(workbench)
    assert tree(workbench.root).keys() == {"f"}


async def test_what_was_not_kept_is_left(workbench: Workbench):
    workbench.kept._max_bytes = 64 * 1024
    workbench.write("big", "x" * 100_000)
    await workbench.ok("delete_file", path="big")
    assert left(await undo(workbench)) == {"big": "what was there before was not kept"}


async def test_a_damaged_version_is_not_put_in_place(workbench: Workbench):
    file = workbench.write("f", "one")
    workbench.write("g", "one")
    workbench.write("d/f", "one" * 1000)
    await rewritten(workbench, "f", "two")
    await workbench.ok("delete_file", path="g")
    await workbench.ok("delete_file", path="d", recursive=True)
    for entry in workbench.kept.entries(workbench.session_id):
        data = entry.file.read_bytes()
        header, _, content = data.partition(b"\n")
        entry.file.write_bytes(header + b"\n" + content[: len(content) // 2].replace(b"o", b"0"))
    assert set(left(await undo(workbench)).values()) == {"what was kept of it is damaged"}
    assert tree(workbench.root).keys() == {"f"}
    assert file.read_text() == "two"


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


async def test_a_brought_back_folder_that_changed_since_is_left(workbench: Workbench):
    house(workbench)
    await workbench.ok("delete_file", path="d", recursive=True)
    report = await undone(workbench)
    workbench.write("d/a/more", "mine")
    assert left(await undo(workbench, report.undo_id)) == {"d": "it was changed since"}
    assert (workbench.root / "d/a/more").read_text() == "mine"


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
    assert len(report.outcomes) == 8
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


# -- the log --


async def test_an_undo_is_told_before_and_after(workbench: Workbench):
    file = workbench.write("f", "one")
    await rewritten(workbench, "f", "two")
    await workbench.ok("write_file", path="n", content="x")
    file.write_text("somebody's")
    report = await undo(workbench)
    (started_kind, started), (finished_kind, finished) = workbench.events()[-2:]
    assert (started_kind, finished_kind) == ("undo.started", "undo.finished")
    assert started["of"] == workbench.session_id
    assert started["who"] == "test"
    assert started["undo_id"] == finished["undo_id"] == report.undo_id
    assert started["paths"] == [str(workbench.root / "n"), str(file)]
    assert finished["restored"] == [str(workbench.root / "n")]
    assert finished["left"] == [[str(file), "it was changed since"]]


# -- attacks: the tree is not what it was --


async def test_nothing_outside_is_touched_when_folders_became_links(workbench: Workbench):
    """Somebody who can replace folders by links waits for a person to undo."""
    for name in ("created", "replaced", "deleted", "moved"):
        workbench.write(f"{name}/keep", "x")
    workbench.write("replaced/f", "one")
    workbench.write("deleted/f", "one")
    workbench.write("moved/f", "one")
    workbench.write("deleted/tree/f", "one")
    await workbench.ok("write_file", path="created/f", content="two")
    await rewritten(workbench, "replaced/f", "two")
    await workbench.ok("delete_file", path="deleted/f")
    await workbench.ok("delete_file", path="deleted/tree", recursive=True)
    await workbench.ok("move_file", source="moved/f", destination="to/f")
    for name in ("created", "replaced", "deleted", "moved", "to"):
        target = workbench.outside / name
        target.mkdir()
        if name not in {"deleted", "moved"}:
            (target / "f").write_text("two")
        shutil.rmtree(workbench.root / name)
        (workbench.root / name).symlink_to(target)
    outside = workbench.outside_state()
    report = await undo(workbench)
    assert len(left(report)) == 5
    assert workbench.outside_state() == outside


async def test_nothing_outside_is_touched_when_the_root_became_a_link(workbench: Workbench):
    await workbench.ok("write_file", path="f", content="two")
    workbench.write("g", "one")
    await workbench.ok("delete_file", path="g")
    shutil.rmtree(workbench.root)
    (workbench.outside / "f").write_text("two")
    workbench.root.symlink_to(workbench.outside)
    outside = workbench.outside_state()
    assert len((await undo(workbench)).outcomes) == 2
    assert workbench.outside_state() == outside
    workbench.root.unlink()


async def test_nothing_outside_is_touched_when_a_file_became_a_link(workbench: Workbench):
    workbench.write("replaced", "one")
    await workbench.ok("write_file", path="created", content="two")
    await rewritten(workbench, "replaced", "two")
    (workbench.outside / "f").write_text("two")
    for name in ("created", "replaced"):
        (workbench.root / name).unlink()
        (workbench.root / name).symlink_to(workbench.outside / "f")
    outside = workbench.outside_state()
    assert len(left(await undo(workbench))) == 2
    assert workbench.outside_state() == outside


async def attacked(bench: Workbench, rounds: int) -> int:
    """Changes and undoes while somebody swaps their folder for a link to the outside, again and again."""
    folder, link, other = (bench.root / name for name in ("d", "link", "other"))
    folder.mkdir()
    link.symlink_to(bench.outside)
    for name in ("f", "g", "t/f"):
        (bench.outside / name).parent.mkdir(exist_ok=True)
        (bench.outside / name).write_text("two")
    outside, is_over = bench.outside_state(), threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for source, destination in ((folder, other), (link, folder), (folder, link), (other, folder)):
                with suppress(OSError):
                    source.rename(destination)

    swapping = threading.Thread(target=swap)
    swapping.start()
    worked = 0
    try:
        for number in range(rounds):
            for name, arguments in (
                ("write_file", {"path": "d/f", "content": "two"}),
                ("write_file", {"path": "d/t/f", "content": "two", "mode": "append"}),
                ("move_file", {"source": "d/f", "destination": "d/g", "overwrite": True}),
                ("delete_file", {"path": "d/t", "recursive": True}),
                ("delete_file", {"path": "d/g"}),
            ):
                worked += (await bench.call(name, arguments)).ok
            if number % 3 == 2:
                with suppress(NothingToUndo):
                    await undo(bench)
    finally:
        is_over.set()
        swapping.join()
    assert bench.outside_state() == outside
    return worked


async def test_nothing_outside_is_touched_while_somebody_swaps_folders(workbench: Workbench):
    assert await attacked(workbench, 12)


@pytest.mark.full
async def test_nothing_outside_is_touched_however_long_somebody_swaps_folders(workbench: Workbench):
    assert await attacked(workbench, 600)


async def test_a_root_that_is_gone_is_told(workbench: Workbench):
    workbench.write("g", "one")
    await workbench.ok("delete_file", path="g")
    shutil.rmtree(workbench.root)
    (reason,) = [outcome.reason for outcome in (await undo(workbench)).outcomes]
    assert reason
    assert not workbench.root.exists()


async def test_a_deleted_session_can_not_be_undone(workbench: Workbench):
    workbench.write("g", "secret content")
    await workbench.ok("delete_file", path="g")
    workbench.kept.forget(workbench.session_id)
    with pytest.raises(NothingToUndo):
        await undo(workbench)


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
