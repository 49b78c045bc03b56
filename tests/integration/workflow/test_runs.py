"""What a run does and does not: its steps, its people, its limits, its files (S4-EP3, S4-E3, S4-T2)."""

import asyncio
import json
import re

import pytest

from interlock.agent.prompt_builder import NEW_TASK
from interlock.config.modes import ToolMode
from interlock.infra.errors import ModeNotOpen, PersonError, SessionNotFound
from interlock.workflow.folder import WorkflowInvalid
from interlock.workflow.machine import VisitStatus
from interlock.workflow.rows import RunNotFound, RunStatus, WrongRunStatus
from tests.integration.workflow.place import names, opened

ONE = """\
description = "One step"
start = "only"
[nodes.only]
kind = "step"
[nodes.end]
kind = "end"
[[edges]]
from = "only"
to = "end"
"""
TWO = """\
description = "Two steps"
start = "first"
[nodes.first]
kind = "step"
[nodes.second]
kind = "step"
[nodes.end]
kind = "end"
[[edges]]
from = "first"
to = "second"
[[edges]]
from = "second"
to = "end"
"""
CHOICE = """\
description = "A choice"
start = "choose"
[nodes.choose]
kind = "step"
[nodes.left]
kind = "end"
[nodes.right]
kind = "end"
[[edges]]
from = "choose"
to = "left"
label = "left"
[[edges]]
from = "choose"
to = "right"
label = "right"
"""
SIMPLE = "msg:done\n"


def said(**fields: object) -> str:
    return f"call:complete_step {json.dumps({'summary': 'said', **fields})}\n"


# -- what a step is told ------------------------------------------------------------------------------


async def test_a_step_sees_its_brief_and_what_was_handed_over_and_nothing_that_was_said_before(
    tmp_path, monkeypatch
):
    script = f"when:Step first\n{said(artifacts={'note': 'the colour is blue'})}msg:a private word\n"
    script += "when:Step second\nmsg:done\n"
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("two", TWO, first="Choose.", second="Use it.")
        done = await hall.run("two", "paint the fence")
        assert done.run.status is RunStatus.done
        told = [content for role, content in hall.messages(done.run.session_id) if role == "user"]
        assert (
            told[0] == "Step first of the workflow two, visit 1.\n\nWhat this run is for:\npaint the fence"
        )
        assert re.search(
            r"- first: done, and its summary:\n<<< (\w+)\nsaid\n>>> \1\n\n"
            r"Artifact note:\n<<< \1\nthe colour is blue\n>>> \1$",
            told[1],
        )
        counts = [fields["messages"] for _, fields in hall.events(done.run.session_id, "turn.started")]
        assert counts == [1, 3, 1]


async def test_the_prompt_of_a_step_has_persona_directive_and_brief_in_that_order(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, SIMPLE) as hall:
        hall.agent("coder", persona="You are careful.")
        hall.agent("usual", persona="You are usual.")
        head = ONE.replace('start = "only"', 'start = "only"\nagent = "usual"')
        hall.put("one", head, only="---\nagent: coder\n---\nMake it.")
        hall.put("other", head, only="Make it.")
        for workflow, persona in (("one", "You are careful."), ("other", "You are usual.")):
            session = await hall.start(workflow)
            prompt = await hall.office.prompts.prepare(session, ToolMode.coding)
            order = [name for name, _ in prompt.layers]
            assert order[:7] == [
                *("identity", "tool_policy", "tooling", "safety", "persona", "run_directive", "node_brief")
            ]
            assert persona in prompt.text
            assert "RUN_DIRECTIVE:\nYou carry out one step of the workflow" in prompt.text
            assert "NODE_BRIEF:\nMake it." in prompt.text
            assert "complete_step" in prompt.authority.exposed


async def test_outside_of_a_run_there_is_no_step_to_complete(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, said() + SIMPLE) as hall:
        session = await hall.office.runtime.sessions.create(opened_by="test", mode=ToolMode.coding)
        task = await hall.office.tasks.put(session.id, "go", who="ada")
        async with hall.office.runtime.leases.held(session.id, "test") as lease:
            await hall.office.session_work().run(lease)
        assert (await hall.office.tasks.get(task.id)).status == "done"
        (denied,) = hall.results(session.id)
        assert denied["error_code"] == "TOOL_NOT_AVAILABLE"
        assert "it belongs to the steps of a workflow" in denied["message"]


# -- where it goes -------------------------------------------------------------------------------------


async def test_a_transition_that_no_edge_makes_is_refused_with_the_allowed_ones(tmp_path, monkeypatch):
    script = said(outcome="up") + said(outcome="right") + SIMPLE
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("choice", CHOICE, choose="Choose.")
        done = await hall.run("choice")
        assert done.run.outcome == "right"
        refused, taken = hall.results(done.run.session_id)
        assert refused["error_code"] == "E_INVALID_TRANSITION"
        assert refused["error_class"] == "validation"
        assert "allowed: left, right" in refused["message"]
        assert taken["ok"]
        (decided,) = hall.events(done.run.session_id, "node.decided")
        assert decided[1]["outcome"] == "right"


async def test_a_step_that_does_not_say_where_to_go_pauses_the_run_and_can_be_retried(
    tmp_path, monkeypatch
):
    async with opened(tmp_path, monkeypatch, f"when:visit 1\n{SIMPLE}") as hall:
        hall.put("choice", CHOICE, choose="Choose.")
        stuck = await hall.run("choice")
        assert stuck.run.status is RunStatus.paused
        assert "choose did not say which way to go on (there are: left, right)" in stuck.run.reason
        assert names(stuck) == ["choose:failed"]
        with pytest.raises(WrongRunStatus, match="retry it"):
            await hall.office.runs.resume(stuck.run.session_id, who="ada")
        (tmp_path / "script.txt").write_text(said(outcome="left") + SIMPLE)
        await hall.office.models.close()
    async with opened(tmp_path, monkeypatch) as hall:
        await hall.office.runs.retry(stuck.run.session_id, who="ada")
        done = await hall.work(stuck.run.session_id)
        assert done.run.outcome == "left"
        assert names(done) == ["choose:failed", "choose:completed", "left:completed"]
        assert done.visits[1].retry_of == 1


async def test_a_circle_ends_when_its_node_was_come_to_often_enough(tmp_path, monkeypatch):
    graph = ONE.replace('to = "end"', 'to = "only"\nlabel = "again"') + (
        '[[edges]]\nfrom = "only"\nto = "end"\nlabel = "enough"\n'
    )
    graph = graph.replace('kind = "step"', 'kind = "step"\nmax_visits = 3')
    async with opened(tmp_path, monkeypatch, said(outcome="again") + SIMPLE) as hall:
        hall.put("round", graph, only="Go round.")
        done = await hall.run("round")
        assert done.run.status is RunStatus.failed
        assert done.run.reason == "only was come to 3 times, which is as often as it may be"
        assert done.steps == 3
        (finished,) = hall.events(done.run.session_id, "run.finished")
        assert finished[1]["status"] == "failed"


async def test_a_workflow_within_a_workflow(tmp_path, monkeypatch):
    outer = TWO.replace(
        '[nodes.second]\nkind = "step"', '[nodes.second]\nkind = "subworkflow"\nworkflow = "one"'
    )
    script = f"when:Step only of the workflow one\n{said(artifacts={'inner': 'yes'})}msg:ok\n"
    script += f"when:Step first\n{SIMPLE}"
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("one", ONE, only="Inside.")
        hall.put("outer", outer, first="Before.")
        done = await hall.run("outer")
        assert done.run.status is RunStatus.done
        assert [name.partition(":")[0] for name in names(done)] == [
            *("first", "second", "second#1/only", "second#1/end", "end")
        ]
        assert done.artifacts == {"inner": "yes"}
        entered = [fields["frame"] for _, fields in hall.events(done.run.session_id, "node.entered")]
        assert entered == ["", "", "second#1/", "second#1/", ""]


async def test_a_subworkflow_whose_end_leads_nowhere_pauses_the_run_and_is_begun_anew_by_a_retry(
    tmp_path, monkeypatch
):
    graph = """\
description = "Around a choice"
start = "sub"
[nodes.sub]
kind = "subworkflow"
workflow = "choice"
[nodes.end]
kind = "end"
[[edges]]
from = "sub"
to = "end"
label = "left"
"""
    async with opened(tmp_path, monkeypatch, said(outcome="right") + SIMPLE) as hall:
        hall.put("choice", CHOICE, choose="Choose.")
        hall.put("around", graph)
        stuck = await hall.run("around")
        assert stuck.run.status is RunStatus.paused
        assert names(stuck) == ["sub:failed", "sub#1/choose:completed", "sub#1/right:completed"]
        assert stuck.at.node == "sub"
    (tmp_path / "script.txt").write_text(said(outcome="left") + SIMPLE)
    async with opened(tmp_path, monkeypatch) as hall:
        await hall.office.runs.retry(stuck.run.session_id, who="ada")
        done = await hall.work(stuck.run.session_id)
        assert done.run.status is RunStatus.done
        assert names(done)[3:] == [
            *("sub:completed", "sub#2/choose:completed", "sub#2/left:completed", "end:completed")
        ]


# -- people --------------------------------------------------------------------------------------------

ASKING = 'call:ask_user {"type": "confirmation", "message": "Shall I?"}\n' + "msg:done\n"


async def test_a_run_waits_for_a_person_without_holding_anything_and_survives_a_restart(
    tmp_path, monkeypatch
):
    script = f"when:Step first\n{ASKING}when:Step second\n{SIMPLE}"
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("two", TWO, first="Ask.", second="Go.")
        waiting = await hall.run("two")
        assert waiting.run.status is RunStatus.running
        shown = await hall.office.runs.shown(waiting.run.session_id)
        assert shown.is_waiting
        assert await hall.office.tasks.resumable(waiting.run.session_id) is None
        assert await hall.office.backlog.find_work(5) == []
    async with opened(tmp_path, monkeypatch) as hall:
        question = await hall.until_waiting(waiting.run.session_id)
        await hall.office.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        done = await hall.work(waiting.run.session_id)
        assert done.run.status is RunStatus.done
        assert done.steps == 2


async def test_pause_lets_the_step_end_and_begins_no_other_until_it_is_resumed(tmp_path, monkeypatch):
    script = f"when:Step first\n{ASKING}when:Step second\n{SIMPLE}"
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("two", TWO, first="Ask.", second="Go.")
        session = (await hall.run("two")).run.session_id
        runs = hall.office.runs
        assert (await runs.pause(session, who="ada")).status is RunStatus.paused
        with pytest.raises(WrongRunStatus, match="is paused: only one that is running"):
            await runs.pause(session, who="ada")
        question = await hall.until_waiting(session)
        await hall.office.runtime.questions.answer(question, {"confirmed": True}, who="ada")
        paused = await hall.work(session)
        assert paused.run.status is RunStatus.paused
        assert names(paused) == ["first:completed", "second:ready"]
        assert await hall.office.tasks.resumable(session) is None
        await runs.resume(session, who="ada")
        done = await hall.work(session)
        assert (done.run.status, done.steps) == (RunStatus.done, 2)
        kinds = [kind for kind, _ in hall.events(session, "run.paused", "run.resumed", "run.finished")]
        assert kinds == ["run.paused", "run.resumed", "run.finished"]


async def test_pause_and_resume_within_a_step_changes_nothing_else(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, SIMPLE) as hall:
        hall.put("two", TWO, first="Go.", second="Go.")
        session = await hall.start("two")
        await hall.office.runs.pause(session, who="ada")
        await hall.office.runs.resume(session, who="ada")
        assert (await hall.work(session)).run.status is RunStatus.done


async def test_stop_ends_a_run_for_good_and_cancels_what_is_at_work(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, ASKING) as hall:
        hall.put("two", TWO, first="Ask.", second="Go.")
        waiting = await hall.run("two")
        session = waiting.run.session_id
        stopped = await hall.office.runs.stop(session, who="ada")
        assert stopped.status is RunStatus.stopped
        standing = await hall.standing(session)
        assert names(standing) == ["first:cancelled"]
        assert (await hall.office.tasks.get(standing.visits[0].task_id)).status == "cancelled"
        for change in (hall.office.runs.stop, hall.office.runs.resume, hall.office.runs.retry):
            with pytest.raises(WrongRunStatus):
                await change(session, who="ada")
        assert await hall.office.tasks.resumable(session) is None


async def test_a_running_step_that_is_stopped_is_cancelled_by_its_worker(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, "sleep:30000\n") as hall:
        hall.put("two", TWO, first="Sleep.", second="Go.")
        session = await hall.start("two")
        worker = hall.office.worker()
        running = asyncio.create_task(worker.run())
        while not hall.events(session, "turn.started"):
            await asyncio.sleep(0.01)
        await hall.office.runs.stop(session, who="ada")
        while (await hall.standing(session)).visits[0].status is VisitStatus.active:
            await asyncio.sleep(0.01)
        worker.stop()
        await running
        assert names(await hall.standing(session)) == ["first:cancelled"]
        assert (await hall.get(session)).status is RunStatus.stopped


async def test_a_step_that_is_cancelled_pauses_the_run(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, SIMPLE) as hall:
        hall.put("two", TWO, first="Go.", second="Go.")
        session = await hall.start("two")
        at = (await hall.standing(session)).at
        await hall.office.tasks.cancel(at.task_id, who="bob")
        paused = await hall.standing(session)
        assert paused.run.status is RunStatus.paused
        assert "it was cancelled by bob" in paused.run.reason
        await hall.office.runs.retry(session, who="ada")
        assert (await hall.work(session)).run.status is RunStatus.done


async def test_a_run_takes_no_messages(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, SIMPLE) as hall:
        hall.put("one", ONE, only="Go.")
        session = await hall.start("one")
        with pytest.raises(PersonError, match="takes no messages"):
            await hall.office.tasks.put(session, "do something else", who="ada")
        with pytest.raises(PersonError, match="has its run already"):
            await hall.office.runs.start(session, "one", "", who="ada")
        with pytest.raises(RunNotFound):
            await hall.office.runs.pause("s_nowhere", who="ada")


# -- what it may ---------------------------------------------------------------------------------------


async def test_a_run_has_the_mode_it_was_started_in_and_nothing_widens_it(tmp_path, monkeypatch):
    script = 'call:write_file {"path": "a.txt", "content": "x"}\nmsg:done\n'
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("one", ONE, only="---\nmode: coding\n---\nWrite.")
        session = await hall.start("one", mode=ToolMode.plan)
        # A person raises the session's mode meanwhile: the run's ceiling stays where it was.
        await hall.office.runtime.mode_switch.switch(session, ToolMode.coding, who="ada")
        await hall.work(session)
        (denied,) = hall.results(session)
        assert denied["error_code"] == "MODE_DENIED"
        assert denied["mode"] == "plan"
        assert not (hall.root / "a.txt").exists()


async def test_a_step_may_be_wider_than_the_one_before_it_and_never_than_its_own_file(
    tmp_path, monkeypatch
):
    write = 'call:write_file {"path": "%s.txt", "content": "x"}\nmsg:done\n'
    script = f"when:Step first\n{write % 'a'}when:Step second\n{write % 'b'}"
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.agent("reader", "tools.denied_tools: bash\n")
        hall.put(
            "two",
            TWO,
            first="---\nagent: reader\ntools.denied_tools: write_file\n---\nWrite.",
            second="Write.",
        )
        done = await hall.run("two")
        denied, written = hall.results(done.run.session_id)
        assert denied["error_code"] == "TOOL_NOT_AVAILABLE"
        assert "in the policy of the workflow step" in denied["message"]
        assert written["ok"]
        assert not (hall.root / "a.txt").exists()
        assert (hall.root / "b.txt").exists()


async def test_a_stricter_step_needs_no_mode_that_is_opened_for_it(tmp_path, monkeypatch):
    """With coding alone open, a step in plan mode can read, and cannot write."""
    script = 'call:list_files {}\ncall:write_file {"path": "a.txt", "content": "x"}\nmsg:done\n'
    async with opened(tmp_path, monkeypatch, script, SESSION_OPEN_MODES="coding") as hall:
        hall.put("one", ONE, only="---\nmode: plan\n---\nLook.")
        done = await hall.run("one")
        listed, written = hall.results(done.run.session_id)
        assert listed["ok"]
        assert (written["error_code"], written["mode"]) == ("MODE_DENIED", "plan")


async def test_where_the_runs_mode_is_not_open_the_run_pauses_instead_of_looking_done(
    tmp_path, monkeypatch
):
    script = "call:list_files {}\nmsg:done\n"
    async with opened(tmp_path, monkeypatch, script) as hall:
        hall.put("one", ONE, only="---\nmode: plan\n---\nLook.")
        session = await hall.start("one")
    async with opened(tmp_path, monkeypatch, SESSION_OPEN_MODES="chat") as hall:
        paused = await hall.work(session)
        assert paused.run.status is RunStatus.paused
        assert "is to be done in plan mode, and only chat_safe is open to it here" in paused.run.reason
        assert hall.results(session) == []
    async with opened(tmp_path, monkeypatch) as hall:
        await hall.office.runs.retry(session, who="ada")
        assert (await hall.work(session)).run.status is RunStatus.done


async def test_only_a_mode_that_is_open_can_be_asked_for(tmp_path, monkeypatch):
    async with opened(tmp_path, monkeypatch, SIMPLE, SESSION_OPEN_MODES="chat") as hall:
        hall.put("one", ONE, only="Go.")
        with pytest.raises(ModeNotOpen):
            await hall.office.runs.create("one", opened_by="test", mode=ToolMode.coding)


# -- its files -----------------------------------------------------------------------------------------


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
        inputs = await hall.office.prompts._inputs_of(session, ToolMode.coding, NEW_TASK)
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
        await hall.office.runtime.sessions.delete(session, who="ada")
        with pytest.raises(RunNotFound):
            await hall.office.runs.pause(session, who="ada")
        with pytest.raises((RunNotFound, SessionNotFound)):
            await hall.office.runs.start(session, "one", "", who="ada")
        with hall.office.runtime.database.reading() as connection:
            rows = connection.query(
                "SELECT input, definition, status FROM runs WHERE session_id = ?", (session,)
            )
        assert rows == [(None, None, "stopped")]
