"""What a run may: the mode it was started in, narrowed by the file of each step (S4-EP3)."""

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ModeNotOpen
from interlock.workflow.run_rows import RunStatus
from tests.harness.workflows import open_workflow_harness
from tests.integration.workflow.graphs import ONE, SIMPLE, TWO


async def test_a_run_has_the_mode_it_was_started_in_and_nothing_widens_it(tmp_path, monkeypatch):
    script = 'call:write_file {"path": "a.txt", "content": "x"}\nmsg:done\n'
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("one", ONE, only="---\nmode: coding\n---\nWrite.")
        session = await harness.start("one", mode=ToolMode.plan)
        # A person raises the session's mode meanwhile: the run's ceiling stays where it was.
        await harness.agent_runtime.runtime.mode_switch.switch(session, ToolMode.coding, who="ada")
        await harness.work(session)
        (denied,) = harness.results(session)
        assert denied["error_code"] == "MODE_DENIED"
        assert denied["mode"] == "plan"
        assert not (harness.root / "a.txt").exists()


async def test_a_step_may_be_wider_than_the_one_before_it_and_never_than_its_own_file(
    tmp_path, monkeypatch
):
    write = 'call:write_file {"path": "%s.txt", "content": "x"}\nmsg:done\n'
    script = f"when:Step first\n{write % 'a'}when:Step second\n{write % 'b'}"
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.agent("reader", "tools.denied_tools: bash\n")
        harness.put(
            "two",
            TWO,
            first="---\nagent: reader\ntools.denied_tools: write_file\n---\nWrite.",
            second="Write.",
        )
        done = await harness.run("two")
        denied, written = harness.results(done.run.session_id)
        assert denied["error_code"] == "TOOL_NOT_AVAILABLE"
        assert "in the policy of the workflow step" in denied["message"]
        assert written["ok"]
        assert not (harness.root / "a.txt").exists()
        assert (harness.root / "b.txt").exists()


async def test_a_stricter_step_needs_no_mode_that_is_opened_for_it(tmp_path, monkeypatch):
    """With coding alone open, a step in plan mode can read, and cannot write."""
    script = 'call:list_files {}\ncall:write_file {"path": "a.txt", "content": "x"}\nmsg:done\n'
    async with open_workflow_harness(tmp_path, monkeypatch, script, SESSION_OPEN_MODES="coding") as harness:
        harness.put("one", ONE, only="---\nmode: plan\n---\nLook.")
        done = await harness.run("one")
        listed, written = harness.results(done.run.session_id)
        assert listed["ok"]
        assert (written["error_code"], written["mode"]) == ("MODE_DENIED", "plan")
        # Nobody can switch the mode of a step.
        assert written["next_action"] == (
            "This task is fixed to plan mode; write_file needs coding mode. Continue without it, "
            "or end the task and report what is missing."
        )


async def test_where_the_runs_mode_is_not_open_the_run_pauses_instead_of_looking_done(
    tmp_path, monkeypatch
):
    script = "call:list_files {}\nmsg:done\n"
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("one", ONE, only="---\nmode: plan\n---\nLook.")
        session = await harness.start("one")
    async with open_workflow_harness(tmp_path, monkeypatch, SESSION_OPEN_MODES="chat") as harness:
        paused = await harness.work(session)
        assert paused.run.status is RunStatus.paused
        assert "needs plan mode, but only chat_safe is open to it here" in paused.run.reason
        assert harness.results(session) == []
    async with open_workflow_harness(tmp_path, monkeypatch) as harness:
        await harness.agent_runtime.runs.retry(session, who="ada")
        assert (await harness.work(session)).run.status is RunStatus.done


async def test_only_a_mode_that_is_open_can_be_asked_for(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SIMPLE, SESSION_OPEN_MODES="chat") as harness:
        harness.put("one", ONE, only="Go.")
        with pytest.raises(ModeNotOpen):
            await harness.agent_runtime.runs.create("one", opened_by="test", mode=ToolMode.coding)
