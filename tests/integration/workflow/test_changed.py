"""A store that somebody changed: a run does not go on by another graph, and the check of the log tells."""

import sqlite3
from contextlib import closing

import pytest

from interlock.config.modes import ToolMode
from interlock.wiring.projections import verify
from interlock.workflow.run_rows import RunDefinitionChanged, RunStatus
from tests.harness.workflows import open_workflow_harness
from tests.integration.workflow.graphs import ASKING, SIMPLE, TWO, said

SCRIPT = f"when:Step first\n{said(artifacts={'note': 'blue'})}{ASKING}when:Step second\n{SIMPLE}"


def change(tmp_path, statement: str) -> None:
    with closing(sqlite3.connect(tmp_path / "state" / "interlock.db")) as store, store:
        assert store.execute(statement).rowcount > 0


def faults(harness) -> list[str]:
    with harness.agent_runtime.runtime.database.reading() as connection:
        return [fault.detail for fault in verify(connection).faults]


async def test_a_run_whose_stored_workflow_was_changed_does_not_go_on_and_can_be_stopped(
    tmp_path, monkeypatch
):
    async with open_workflow_harness(tmp_path, monkeypatch, SCRIPT) as harness:
        harness.put("two", TWO, first="Ask.", second="Be careful.")
        session = (await harness.run("two")).run.session_id
        question = await harness.until_waiting(session)
        change(tmp_path, "UPDATE runs SET definition = replace(definition, 'careful', 'careless')")
        with pytest.raises(RunDefinitionChanged, match="is not the one it started with"):
            await harness.agent_runtime.prompts.prepare(session, ToolMode.coding)
        await harness.agent_runtime.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        stuck = await harness.work(session)
        assert stuck.run.status is RunStatus.paused
        assert "is not the one it started with" in stuck.run.reason
        with pytest.raises(RunDefinitionChanged):
            await harness.agent_runtime.runs.retry(session, who="ada")
        assert (await harness.agent_runtime.runs.stop(session, who="ada")).status is RunStatus.stopped


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE runs SET definition = definition || ' '", "definition"),
        ("UPDATE runs SET digest = 'x'", "digest"),
        ("UPDATE runs SET mode = 'chat'", "mode"),
        ("UPDATE runs SET credential_id = 'c_0'", "credential_id"),
        ("UPDATE runs SET status = 'paused'", "status"),
        ("UPDATE runs SET outcome = 'x'", "outcome"),
        ('UPDATE runs SET agents = \'{"a": "b"}\'', "agents"),
        ("UPDATE run_nodes SET outcome = 'x' WHERE number = 1", "outcome"),
        ("UPDATE run_nodes SET next = 'x' WHERE number = 1", "next"),
        ("UPDATE run_nodes SET ended_us = 5 WHERE number = 1", "ended_us"),
        ("UPDATE run_nodes SET artifacts = '{}' WHERE number = 1", "artifacts"),
        ("DELETE FROM run_nodes WHERE number = 2", ", 2 is missing"),
        ("UPDATE run_nodes SET number = 9 WHERE number = 3", ", 3 is missing"),
    ],
)
async def test_the_rows_of_a_run_are_held_against_its_events(tmp_path, monkeypatch, statement, told):
    async with open_workflow_harness(tmp_path, monkeypatch, SCRIPT.replace(ASKING, SIMPLE)) as harness:
        harness.put("two", TWO, first="Go.", second="Go.")
        assert (await harness.run("two")).run.status is RunStatus.done
        assert faults(harness) == []
        change(tmp_path, statement)
        (fault,) = faults(harness)
        assert fault.endswith(told)


async def test_a_run_that_was_paused_retried_and_deleted_is_no_fault(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SCRIPT) as harness:
        harness.agent("coder")
        harness.put("two", TWO, first="Ask.", second="---\nagent: coder\n---\nGo.")
        session = (await harness.run("two")).run.session_id
        assert faults(harness) == []
        other = (await harness.run("two")).run.session_id
        await harness.agent_runtime.tasks.delete_session(other, who="ada")
        assert faults(harness) == []
        question = await harness.until_waiting(session)
        harness.agent("coder", persona="You changed.")
        await harness.agent_runtime.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        assert (await harness.work(session)).run.status is RunStatus.paused
        assert faults(harness) == []
        await harness.agent_runtime.runs.retry(session, who="ada")
        assert (await harness.work(session)).run.status is RunStatus.done
        assert faults(harness) == []
        await harness.agent_runtime.tasks.delete_session(session, who="ada")
        assert faults(harness) == []
