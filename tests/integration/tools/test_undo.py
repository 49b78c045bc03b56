"""A person takes back what calls did to files: every action, in any extent (DESIGN section 6)."""

import os
import stat

import pytest

from interlock.gates.gate import ToolCall
from interlock.gates.runner import CallContext
from interlock.infra.errors import NothingToUndo
from tests.integration.tools.trees import tree
from tests.integration.tools.undoing import house, rewritten, undo, undone
from tests.integration.workbench import Workbench

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


async def test_each_file_is_named_once_with_what_became_of_it(workbench: Workbench):
    workbench.write("kept", "one")
    for text in ("two", "three"):
        await rewritten(workbench, "kept", text)
    await workbench.ok("write_file", path="new", content="one")
    await rewritten(workbench, "new", "two")
    workbench.write("gone", "one")
    await rewritten(workbench, "gone", "two")
    await workbench.ok("delete_file", path="gone")
    workbench.write("old name", "one")
    await rewritten(workbench, "old name", "two")
    await workbench.ok("move_file", source="old name", destination="new name")
    await rewritten(workbench, "new name", "three")
    report = await undone(workbench)
    names = {outcome.now_at.rpartition("/")[2]: outcome.action for outcome in report.outcomes}
    assert names == {"kept": "replaced", "new": "created", "gone": "replaced", "old name": "replaced"}
    assert len(report.outcomes) == len(names)
    (_, started), (_, finished) = workbench.events()[-2:]
    assert len(started["paths"]) == len(set(started["paths"]))
    assert len(finished["restored"]) == len(set(finished["restored"])) == 4


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


async def test_a_deleted_session_can_not_be_undone(workbench: Workbench):
    workbench.write("g", "secret content")
    await workbench.ok("delete_file", path="g")
    workbench.kept.forget(workbench.session_id)
    with pytest.raises(NothingToUndo):
        await undo(workbench)


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
