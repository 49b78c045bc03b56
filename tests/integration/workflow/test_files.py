"""The files of a run are those it began with, no secret is kept of them, and they go with it."""

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import SessionNotFound
from interlock.workflow.directory import WorkflowInvalid
from interlock.workflow.run_rows import RunNotFound, RunStatus
from tests.harness.workflows import open_workflow_harness
from tests.integration.workflow.graphs import ASKING, ONE, SIMPLE, TWO, said


async def test_a_run_goes_on_with_the_files_it_began_with(tmp_path, monkeypatch):
    script = f"when:Step first\n{ASKING}when:Step second\n{SIMPLE}"
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("two", TWO, first="Ask.", second="The brief of then.")
        session = (await harness.run("two")).run.session_id
        harness.put("two", ONE, only="Another workflow.")
        question = await harness.until_waiting(session)
        await harness.agent_runtime.runs.pause(session, who="ada")
        await harness.agent_runtime.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        await harness.work(session)
        await harness.agent_runtime.runs.resume(session, who="ada")
        prompt = await harness.agent_runtime.prompts.prepare(session, ToolMode.coding)
        assert prompt.inputs.node_brief == "The brief of then."
        done = await harness.work(session)
        assert (done.run.status, done.steps) == (RunStatus.done, 2)


async def test_an_agent_that_was_changed_pauses_the_run_and_a_retry_takes_it_as_it_is(
    tmp_path, monkeypatch
):
    async with open_workflow_harness(tmp_path, monkeypatch, SIMPLE) as harness:
        harness.agent("coder")
        harness.put("one", ONE, only="---\nagent: coder\n---\nGo.")
        session = await harness.start("one")
        harness.agent("coder", "tools.fs.enabled: false\n")
        paused = await harness.work(session)
        assert paused.run.status is RunStatus.paused
        assert "the agent 'coder' has changed since this task started" in paused.run.reason
        await harness.agent_runtime.runs.retry(session, who="ada")
        done = await harness.work(session)
        assert done.run.status is RunStatus.done
        (started,), (resumed,) = (
            harness.events(session, "run.started"),
            harness.events(session, "run.resumed"),
        )
        assert resumed[1]["agents"] == dict(done.run.agents) != started[1]["agents"]


async def test_a_secret_in_a_workflow_is_not_stored(tmp_path, monkeypatch):
    async with open_workflow_harness(
        tmp_path, monkeypatch, SIMPLE, OPENAI_API_KEY="sk-very-secret-words-123"
    ) as harness:
        harness.put("one", ONE, only="Use sk-very-secret-words-123.")
        with pytest.raises(WorkflowInvalid, match="contains a secret"):
            await harness.start("one")


async def test_a_secret_that_a_step_hands_over_is_masked_everywhere(tmp_path, monkeypatch):
    script = f"when:Step first\n{said(artifacts={'key': 'sk-very-secret-words-123'})}msg:ok\n"
    script += f"when:Step second\n{SIMPLE}"
    async with open_workflow_harness(
        tmp_path, monkeypatch, script, OPENAI_API_KEY="sk-very-secret-words-123"
    ) as harness:
        harness.put("two", TWO, first="Go.", second="Go.")
        done = await harness.run("two")
        assert done.artifacts == {"key": "***REDACTED***"}
        assert "sk-very" not in str(harness.events(done.run.session_id)) + str(
            harness.messages(done.run.session_id)
        )


async def test_with_its_session_a_run_is_gone(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SIMPLE) as harness:
        harness.put("one", ONE, only="Go.")
        session = await harness.start("one", "private words")
        await harness.agent_runtime.tasks.delete_session(session, who="ada")
        with pytest.raises(RunNotFound):
            await harness.agent_runtime.runs.pause(session, who="ada")
        with pytest.raises((RunNotFound, SessionNotFound)):
            await harness.agent_runtime.runs.start(session, "one", "", who="ada")
        with harness.agent_runtime.runtime.database.reading() as connection:
            rows = connection.query(
                "SELECT input, definition, status FROM runs WHERE session_id = ?", (session,)
            )
        ((given, definition, status),) = rows
        assert (given, status) == ("private words", "stopped")
        assert definition
        assert harness.events(session, "run.stopped") == [("run.stopped", {"who": "ada", "reason": ""})]
