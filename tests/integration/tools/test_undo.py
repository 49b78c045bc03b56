"""A person takes back what calls did to files: every action, in any extent (DESIGN section 6)."""

import os
import stat

import pytest

from interlock.core.errors import NothingToUndo
from interlock.gates.gate import ToolCall
from interlock.tools.tool import ToolContext
from tests.harness.tool_calls import ToolHarness
from tests.integration.tools.trees import tree
from tests.integration.tools.undoing import house, rewritten, undo, undone

# -- every action --


async def test_a_created_file_goes_with_the_folders_made_for_it(harness: ToolHarness):
    harness.write("old/f", "x")
    before = tree(harness.root)
    await harness.ok("write_file", path="old/new/deep/f", content="x")
    await harness.ok("write_file", path="n", content="x")
    await undone(harness)
    assert tree(harness.root) == before


async def test_a_folder_made_for_a_file_stays_if_something_else_came_into_it(harness: ToolHarness):
    await harness.ok("write_file", path="a/b/c/f", content="x")
    harness.write("a/mine", "y")
    await undone(harness)
    assert tree(harness.root).keys() == {"a", "a/mine"}


@pytest.mark.parametrize("before", [b"old\r\n", b"", b"\xff\xfea\0", b"caf\xe9"])
async def test_replaced_edited_and_appended_text_comes_back(harness: ToolHarness, before):
    file = harness.write("f", before)
    file.chmod(0o640)
    await rewritten(harness, "f", "new old text")
    await harness.ok("edit_file", path="f", find="old", replace="edited")
    await harness.ok("write_file", path="f", content="more", mode="append")
    await undone(harness)
    assert file.read_bytes() == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


async def test_a_deleted_file_comes_back_as_it_was(harness: ToolHarness):
    house(harness)
    if os.geteuid() == 0:
        os.chown(harness.root / "d/run.sh", 1234, 2345)
    os.utime(harness.root / "d/a/f", ns=(10**18, 10**18 + 7))
    before = tree(harness.root, times=True)
    owner = (harness.root / "d/run.sh").stat().st_uid
    for path in ("d/a/f", "d/run.sh", "d/link"):
        await harness.ok("delete_file", path=path)
    await undone(harness)
    after = tree(harness.root, times=True)
    for path in ("d/a/f", "d/run.sh"):
        assert after[path] == before[path]
    assert after["d/link"][:3] == before["d/link"][:3]
    assert (harness.root / "d/run.sh").stat().st_uid == owner


async def test_a_deleted_folder_comes_back_whole(harness: ToolHarness):
    house(harness)
    before = tree(harness.root, times=True)
    await harness.ok("delete_file", path="d", recursive=True)
    assert tree(harness.root) == {}
    await undone(harness)
    assert tree(harness.root, times=True) == before


async def test_a_move_goes_back(harness: ToolHarness):
    house(harness)
    harness.write("f", "x")
    (harness.root / "l").symlink_to("f")
    before = tree(harness.root)
    for source, destination in (("d", "x/y/d"), ("f", "x/y/d/f"), ("l", "m"), ("x/y/d/run.sh", "run")):
        await harness.ok("move_file", source=source, destination=destination)
    await undone(harness)
    assert tree(harness.root) == before


async def test_what_a_move_replaced_comes_back(harness: ToolHarness):
    harness.write("a", "new")
    harness.write("b", "old").chmod(0o600)
    before = tree(harness.root, times=True)
    await harness.ok("move_file", source="a", destination="b", overwrite=True)
    await undone(harness)
    assert tree(harness.root, times=True) == before


async def test_a_long_story_is_told_backwards(harness: ToolHarness):
    house(harness)
    harness.write("f", "one")
    before = tree(harness.root)
    await rewritten(harness, "f", "two")
    await harness.ok("move_file", source="f", destination="d/a/g")
    await harness.ok("write_file", path="f", content="another f")
    await rewritten(harness, "d/a/g", "three")
    await harness.ok("move_file", source="d", destination="e/d")
    await harness.ok("write_file", path="e/d/a/g", content="four", mode="append")
    await harness.ok("delete_file", path="e", recursive=True)
    await harness.ok("write_file", path="e", content="now a file")
    await harness.ok("move_file", source="f", destination="e", overwrite=True)
    await harness.ok("delete_file", path="e")
    assert tree(harness.root) == {}
    await undone(harness)
    assert tree(harness.root) == before


async def test_each_file_is_named_once_with_what_became_of_it(harness: ToolHarness):
    harness.write("kept", "one")
    for text in ("two", "three"):
        await rewritten(harness, "kept", text)
    await harness.ok("write_file", path="new", content="one")
    await rewritten(harness, "new", "two")
    harness.write("gone", "one")
    await rewritten(harness, "gone", "two")
    await harness.ok("delete_file", path="gone")
    harness.write("old name", "one")
    await rewritten(harness, "old name", "two")
    await harness.ok("move_file", source="old name", destination="new name")
    await rewritten(harness, "new name", "three")
    report = await undone(harness)
    names = {outcome.now_at.rpartition("/")[2]: outcome.action for outcome in report.outcomes}
    assert names == {"kept": "replaced", "new": "created", "gone": "replaced", "old name": "replaced"}
    assert len(report.outcomes) == len(names)
    (_, started), (_, finished) = harness.events()[-2:]
    assert len(started["paths"]) == len(set(started["paths"]))
    assert len(finished["restored"]) == len(set(finished["restored"])) == 4


# -- what it applies to --


async def test_one_call_a_task_or_a_session(harness: ToolHarness):
    async def in_task(task: str, path: str) -> str:
        from interlock.log.stream_appender import EventScope

        harness._count += 1
        call = f"call_{harness._count}"
        context = ToolContext(harness.session_id, scope=EventScope(task, None))
        arguments = {"path": path, "content": "x"}
        await harness.runner.call(ToolCall(call, "write_file", arguments), harness.authority(), context)
        return call

    first = await in_task("t1", "a")
    await in_task("t1", "b")
    await in_task("t2", "c")
    await in_task("t3", "d")
    await undone(harness, first)
    assert tree(harness.root).keys() == {"b", "c", "d"}
    await undone(harness, "t1")
    assert tree(harness.root).keys() == {"c", "d"}
    await undone(harness)
    assert tree(harness.root) == {}


async def test_what_two_sessions_did_to_one_file_in_one_task_goes_back_in_order(harness: ToolHarness):
    from interlock.log.stream_appender import EventScope

    other = (await harness.store.sessions.create(opened_by="test")).id
    file = harness.write("f", "0")
    for number, session in enumerate([harness.session_id, other, harness.session_id]):
        context = ToolContext(session, scope=EventScope("task", None))
        call = ToolCall(f"x{number}", "write_file", {"path": "f", "content": "+", "mode": "append"})
        assert (await harness.runner.call(call, harness.authority(), context)).ok
    assert file.read_text() == "0+++"
    await undone(harness, "task")
    assert file.read_text() == "0"
    kinds = [kind for kind, _ in harness.events()]
    assert kinds[-2:] == ["undo.started", "undo.finished"]


async def test_a_call_id_that_two_sessions_used_is_not_guessed_at(harness: ToolHarness):
    """Providers number their calls anew in each conversation."""
    other = (await harness.store.sessions.create(opened_by="test")).id
    for session, path in ((harness.session_id, "a"), (other, "b")):
        call = ToolCall("call_0", "write_file", {"path": path, "content": "x"})
        assert (await harness.runner.call(call, harness.authority(), ToolContext(session))).ok
    with pytest.raises(NothingToUndo, match="2 sessions"):
        await undo(harness, "call_0")
    assert tree(harness.root).keys() == {"a", "b"}


async def test_a_call_named_like_an_undo_is_part_of_the_sessions_work(harness: ToolHarness):
    call = ToolCall("undo_000000000000", "write_file", {"path": "a", "content": "x"})
    assert (await harness.runner.call(call, harness.authority(), ToolContext(harness.session_id))).ok
    await undone(harness)
    assert tree(harness.root) == {}


@pytest.mark.parametrize("identity", ["nothing", "", "..", "/", "*", "a" * 5000, "\0", "é"])
async def test_there_is_nothing_to_take_back_of_what_is_not_known(harness: ToolHarness, identity):
    with pytest.raises(NothingToUndo):
        await harness.undo.revert(identity, who="test")


async def test_a_deleted_session_can_not_be_undone(harness: ToolHarness):
    harness.write("g", "secret content")
    await harness.ok("delete_file", path="g")
    harness.kept.files.delete_session(harness.session_id)
    with pytest.raises(NothingToUndo):
        await undo(harness)


# -- the log --


async def test_an_undo_is_told_before_and_after(harness: ToolHarness):
    file = harness.write("f", "one")
    await rewritten(harness, "f", "two")
    await harness.ok("write_file", path="n", content="x")
    file.write_text("somebody's")
    report = await undo(harness)
    (started_kind, started), (finished_kind, finished) = harness.events()[-2:]
    assert (started_kind, finished_kind) == ("undo.started", "undo.finished")
    assert started["of"] == harness.session_id
    assert started["who"] == "test"
    assert started["undo_id"] == finished["undo_id"] == report.undo_id
    assert started["paths"] == [str(harness.root / "n"), str(file)]
    assert finished["restored"] == [str(harness.root / "n")]
    assert finished["left"] == [[str(file), "it was changed since then"]]
