"""The files of a run are those it began with, no secret is kept of them, and they go with it."""

import pytest

from interlock.agent.prompt_builder import Earlier
from interlock.config.modes import ToolMode
from interlock.infra.errors import SessionNotFound
from interlock.workflow.folder import WorkflowInvalid
from interlock.workflow.rows import RunNotFound, RunStatus
from tests.integration.workflow.graphs import ASKING, ONE, SIMPLE, TWO, said
from tests.integration.workflow.place import opened


async def test_a_run_goes_on_with_the_files_it_began_with(tmp_path, monkeypatch):
    script = f"when:Step first\n{ASKING}when:Step second\n{SIMPLE}"
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("two", TWO, first="Ask.", second="The brief of then.")
        session = (await hall.run("two")).run.session_id
        hall.put("two", ONE, only="Another workflow.")
        question = await hall.until_waiting(session)
        await hall.office.runs.pause(session, who="ada")
        await hall.office.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        await hall.work(session)
        await hall.office.runs.resume(session, who="ada")
        inputs = await hall.office.prompts._inputs_of(session, ToolMode.coding, Earlier())
        assert inputs.node_brief == "The brief of then."
        done = await hall.work(session)
        assert (done.run.status, done.steps) == (RunStatus.done, 2)


async def test_an_agent_that_was_changed_pauses_the_run_and_a_retry_takes_it_as_it_is(
    tmp_path, monkeypatch
):
    async with opened(tmp_path, monkeypatch, SIMPLE) as hall:
        hall.agent("coder")
        hall.put("one", ONE, only="---\nagent: coder\n---\nGo.")
        session = await hall.start("one")
        hall.agent("coder", "tools.fs.enabled: false\n")
        paused = await hall.work(session)
        assert paused.run.status is RunStatus.paused
        assert "the agent 'coder' was changed since this task began" in paused.run.reason
        await hall.office.runs.retry(session, who="ada")
        done = await hall.work(session)
        assert done.run.status is RunStatus.done
        (started,), (resumed,) = hall.events(session, "run.started"), hall.events(session, "run.resumed")
        assert resumed[1]["agents"] == dict(done.run.agents) != started[1]["agents"]


async def test_a_secret_in_a_workflow_is_not_stored(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, SIMPLE, OPENAI_API_KEY="sk-very-secret-words-123") as hall:
        hall.put("one", ONE, only="Use sk-very-secret-words-123.")
        with pytest.raises(WorkflowInvalid, match="holds a secret"):
            await hall.start("one")


async def test_a_secret_that_a_step_hands_over_is_masked_everywhere(tmp_path, monkeypatch):
    script = f"when:Step first\n{said(artifacts={'key': 'sk-very-secret-words-123'})}msg:ok\n"
    script += f"when:Step second\n{SIMPLE}"
    async with opened(tmp_path, monkeypatch, script, OPENAI_API_KEY="sk-very-secret-words-123") as hall:
        hall.put("two", TWO, first="Go.", second="Go.")
        done = await hall.run("two")
        assert done.artifacts == {"key": "***REDACTED***"}
        assert "sk-very" not in str(hall.events(done.run.session_id)) + str(
            hall.messages(done.run.session_id)
        )


async def test_with_its_session_a_run_is_gone(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, SIMPLE) as hall:
        hall.put("one", ONE, only="Go.")
        session = await hall.start("one", "private words")
        await hall.office.tasks.delete_session(session, who="ada")
        with pytest.raises(RunNotFound):
            await hall.office.runs.pause(session, who="ada")
        with pytest.raises((RunNotFound, SessionNotFound)):
            await hall.office.runs.start(session, "one", "", who="ada")
        with hall.office.runtime.database.reading() as connection:
            rows = connection.query(
                "SELECT input, definition, status FROM runs WHERE session_id = ?", (session,)
            )
        ((given, definition, status),) = rows
        assert (given, status) == ("private words", "stopped")
        assert definition
        assert hall.events(session, "run.stopped") == [("run.stopped", {"who": "ada", "reason": ""})]
