"""What people do with a run: they answer it, pause it, stop it, and cannot talk to it (S4-T2)."""

import asyncio

import pytest

from interlock.core.errors import UserError
from interlock.workflow.run_rows import RunNotFound, RunStatus, WrongRunStatus
from interlock.workflow.state_machine import VisitStatus
from tests.harness.workflows import names, open_workflow_harness
from tests.integration.workflow.graphs import ASKING, ONE, SIMPLE, TWO


async def test_a_run_waits_for_a_person_without_holding_anything_and_survives_a_restart(
    tmp_path, monkeypatch
):
    script = f"when:Step first\n{ASKING}when:Step second\n{SIMPLE}"
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("two", TWO, first="Ask.", second="Go.")
        waiting = await harness.run("two")
        assert waiting.run.status is RunStatus.running
        shown = await harness.agent_runtime.runs.shown(waiting.run.session_id)
        assert shown.is_waiting
        assert await harness.agent_runtime.tasks.resumable(waiting.run.session_id) is None
        assert await harness.agent_runtime.backlog.find_work(5) == []
    async with open_workflow_harness(tmp_path, monkeypatch) as harness:
        question = await harness.until_waiting(waiting.run.session_id)
        await harness.agent_runtime.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        done = await harness.work(waiting.run.session_id)
        assert done.run.status is RunStatus.done
        assert done.steps == 2


async def test_pause_lets_the_step_end_and_begins_no_other_until_it_is_resumed(tmp_path, monkeypatch):
    script = f"when:Step first\n{ASKING}when:Step second\n{SIMPLE}"
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("two", TWO, first="Ask.", second="Go.")
        session = (await harness.run("two")).run.session_id
        runs = harness.agent_runtime.runs
        assert (await runs.pause(session, who="ada")).status is RunStatus.paused
        with pytest.raises(WrongRunStatus, match="is paused; only a run that is running"):
            await runs.pause(session, who="ada")
        question = await harness.until_waiting(session)
        await harness.agent_runtime.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        paused = await harness.work(session)
        assert paused.run.status is RunStatus.paused
        assert names(paused) == ["first:completed", "second:ready"]
        assert await harness.agent_runtime.tasks.resumable(session) is None
        await runs.resume(session, who="ada")
        done = await harness.work(session)
        assert (done.run.status, done.steps) == (RunStatus.done, 2)
        kinds = [kind for kind, _ in harness.events(session, "run.paused", "run.resumed", "run.finished")]
        assert kinds == ["run.paused", "run.resumed", "run.finished"]


async def test_pause_and_resume_within_a_step_changes_nothing_else(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SIMPLE) as harness:
        harness.put("two", TWO, first="Go.", second="Go.")
        session = await harness.start("two")
        await harness.agent_runtime.runs.pause(session, who="ada")
        await harness.agent_runtime.runs.resume(session, who="ada")
        assert (await harness.work(session)).run.status is RunStatus.done


async def test_stop_ends_a_run_for_good_and_cancels_what_is_at_work(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, ASKING) as harness:
        harness.put("two", TWO, first="Ask.", second="Go.")
        waiting = await harness.run("two")
        session = waiting.run.session_id
        stopped = await harness.agent_runtime.runs.stop(session, who="ada")
        assert stopped.status is RunStatus.stopped
        standing = await harness.run_state(session)
        assert names(standing) == ["first:cancelled"]
        assert (await harness.agent_runtime.tasks.get(standing.visits[0].task_id)).status == "cancelled"
        for change in (
            harness.agent_runtime.runs.stop,
            harness.agent_runtime.runs.resume,
            harness.agent_runtime.runs.retry,
        ):
            with pytest.raises(WrongRunStatus):
                await change(session, who="ada")
        assert await harness.agent_runtime.tasks.resumable(session) is None


async def test_a_running_step_that_is_stopped_is_cancelled_by_its_worker(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, "sleep:30000\n") as harness:
        harness.put("two", TWO, first="Sleep.", second="Go.")
        session = await harness.start("two")
        worker = harness.agent_runtime.worker()
        running = asyncio.create_task(worker.run())
        while not harness.events(session, "agent.started"):
            await asyncio.sleep(0.01)
        await harness.agent_runtime.runs.stop(session, who="ada")
        while (await harness.run_state(session)).visits[0].status is VisitStatus.active:
            await asyncio.sleep(0.01)
        worker.stop()
        await running
        assert names(await harness.run_state(session)) == ["first:cancelled"]
        assert (await harness.get(session)).status is RunStatus.stopped


async def test_a_step_that_is_cancelled_pauses_the_run(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SIMPLE) as harness:
        harness.put("two", TWO, first="Go.", second="Go.")
        session = await harness.start("two")
        at = (await harness.run_state(session)).at
        await harness.agent_runtime.tasks.cancel(at.task_id, who="bob")
        paused = await harness.run_state(session)
        assert paused.run.status is RunStatus.paused
        assert "it was cancelled by bob" in paused.run.reason
        await harness.agent_runtime.runs.retry(session, who="ada")
        assert (await harness.work(session)).run.status is RunStatus.done


async def test_a_run_takes_no_messages(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SIMPLE) as harness:
        harness.put("one", ONE, only="Go.")
        session = await harness.start("one")
        with pytest.raises(UserError, match="accepts no messages"):
            await harness.agent_runtime.tasks.put(session, "do something else", who="ada")
        with pytest.raises(UserError, match="already has a run"):
            await harness.agent_runtime.runs.start(session, "one", "", who="ada")
        with pytest.raises(RunNotFound):
            await harness.agent_runtime.runs.pause("s_nowhere", who="ada")
