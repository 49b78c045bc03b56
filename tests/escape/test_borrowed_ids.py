"""A model names its own calls, and takes names that something else has already."""

import pytest

from interlock.agent.context import ModelContext
from interlock.config.modes import ToolMode
from interlock.core.errors import NothingToUndo
from interlock.gates.gate import ToolCall
from interlock.log.stream_appender import EventScope
from interlock.models import scripted_provider
from interlock.models.provider import RequestedCall
from interlock.tools.tool import ToolContext
from tests.harness.runtime import RuntimeHarness, call, open_runtime_harness, script
from tests.harness.workflows import open_workflow_harness
from tests.integration.agent.test_delegate import hand, turn
from tests.integration.workflow.graphs import TWO


@pytest.fixture
def _same_names(monkeypatch):
    """A server that calls every call the same, as some do."""
    monkeypatch.setattr(
        scripted_provider,
        "RequestedCall",
        lambda _own, name, arguments: RequestedCall("call_1", name, arguments),
    )


def ids(person: RuntimeHarness, session: str) -> list[str]:
    return [told["call_id"] for told in person.payloads(session, "tool_call.started")]


@pytest.mark.usefixtures("_same_names")
async def test_a_task_that_was_handed_over_cannot_take_the_names_of_its_parents_calls(
    tmp_path, monkeypatch
):
    child = script(tmp_path, turn(call("write_file", path="a.txt", content="x\n")), "msg:written")
    parent = script(tmp_path, hand(), "msg:done")
    folder = tmp_path / "workspace" / "agents"
    folder.mkdir(parents=True)
    (folder / "helper.md").write_text(f"---\ndescription: helps\nmodel: {child}\n---\nYou help.\n")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": parent, "MODELS": child}) as ada:
        session = await ada.session(ToolMode.coding)
        assert (await ada.say(session, "go")).status == "done"
        handed, written = ids(ada, session)
        assert handed != written
        with pytest.raises(NothingToUndo):
            await ada.agent_runtime.runtime.undo.find_entries(handed)
        assert len(await ada.agent_runtime.runtime.undo.find_entries(written)) == 1


@pytest.mark.usefixtures("_same_names")
async def test_the_steps_of_a_run_cannot_take_the_names_of_one_anothers_calls(tmp_path, monkeypatch):
    both = "".join(f"when:Step {step}\ncall:current_time {{}}\nmsg:done\n" for step in ("first", "second"))
    async with open_workflow_harness(tmp_path, monkeypatch, both) as hall:
        hall.put("two", TWO, first="Look.", second="Look again.")
        done = await hall.run("two")
        told = hall.events(done.run.session_id, "tool_call.started")
        assert len({fields["call_id"] for _, fields in told}) == 2


@pytest.mark.parametrize("borrowed", ["t_0123456789abcdef", "undo_0123456789ab", "s_0123456789abcdef"])
async def test_no_call_is_named_like_a_task_an_undo_or_a_session(borrowed):
    (given,) = ModelContext().with_unique_ids([RequestedCall(borrowed, "write_file", "{}")])
    assert given.call_id != borrowed


async def test_to_undo_a_task_takes_back_no_call_that_was_named_after_it(tmp_path, monkeypatch):
    writing = turn(call("write_file", path="a.txt", content="first\n"))
    model = script(tmp_path, writing, "msg:done", turn(call("current_time")), "msg:done")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as ada:
        session, runtime = await ada.session(ToolMode.coding), ada.agent_runtime.runtime
        first = await ada.say(session, "write")
        second = await ada.say(session, "look")
        named_after = ToolCall(first.id, "write_file", {"path": "b.txt", "content": "second\n"})
        authority = await runtime.authority(ToolMode.coding)
        assert (
            await runtime.runner.call(named_after, authority, ToolContext(session, EventScope(second.id)))
        ).ok
        entries = await runtime.undo.find_entries(first.id)
        assert [entry.change.path for entry in entries] == [str(tmp_path / "root" / "a.txt")]


async def test_to_undo_an_undo_takes_back_no_call_that_was_named_after_it(tmp_path, monkeypatch):
    model = script(tmp_path, turn(call("write_file", path="a.txt", content="first\n")), "msg:done")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as ada:
        session, runtime = await ada.session(ToolMode.coding), ada.agent_runtime.runtime
        first = await ada.say(session, "write")
        undone = await runtime.undo.revert(first.id, who="ada")
        named_after = ToolCall(undone.undo_id, "write_file", {"path": "b.txt", "content": "second\n"})
        authority = await runtime.authority(ToolMode.coding)
        assert (await runtime.runner.call(named_after, authority, ToolContext(session))).ok
        entries = await runtime.undo.find_entries(undone.undo_id)
        assert [entry.change.path for entry in entries] == [str(tmp_path / "root" / "a.txt")]
