"""What a step is told, and where a run goes from it (S4-EP3, S4-E3)."""

import re

import pytest

from interlock.config.modes import ToolMode
from interlock.workflow.run_rows import RunStatus, WrongRunStatus
from tests.harness.workflows import names, open_workflow_harness
from tests.integration.workflow.graphs import CHOICE, ONE, SIMPLE, TWO, said


async def test_a_step_sees_its_brief_and_what_was_handed_over_and_nothing_that_was_said_before(
    tmp_path, monkeypatch
):
    script = f"when:Step first\n{said(artifacts={'note': 'the colour is blue'})}msg:a private word\n"
    script += "when:Step second\nmsg:done\n"
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("two", TWO, first="Choose.", second="Use it.")
        done = await harness.run("two", "paint the fence")
        assert done.run.status is RunStatus.done
        told = [content for role, content in harness.messages(done.run.session_id) if role == "user"]
        assert told[0] == (
            "Step first of the workflow two, visit 1.\n\nThe purpose of this run:\npaint the fence"
        )
        assert re.search(
            (
                "- first: done, with its summary:\\n<<< (\\w+)\\nsaid\\n>>> \\1\\n\\nArtifact "
                "note:\\n<<< \\1\\nthe colour is blue\\n>>> \\1$"
            ),
            told[1],
        )
        counts = [fields["messages"] for _, fields in harness.events(done.run.session_id, "turn.completed")]
        assert counts == [1, 3, 1]


async def test_the_prompt_of_a_step_has_persona_directive_and_brief_in_that_order(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SIMPLE) as harness:
        harness.agent("coder", persona="You are careful.")
        harness.agent("usual", persona="You are usual.")
        head = ONE.replace('start = "only"', 'start = "only"\nagent = "usual"')
        harness.put("one", head, only="---\nagent: coder\n---\nMake it.")
        harness.put("other", head, only="Make it.")
        for workflow, persona in (("one", "You are careful."), ("other", "You are usual.")):
            session = await harness.start(workflow)
            prompt = await harness.agent_runtime.prompts.prepare(session, ToolMode.coding)
            order = [name for name, _ in prompt.layers]
            assert order[:7] == [
                *("identity", "tool_policy", "tooling", "safety", "persona", "run_directive", "node_brief")
            ]
            assert persona in prompt.text
            assert "RUN_DIRECTIVE:\nYou carry out one step of the workflow" in prompt.text
            assert "NODE_BRIEF:\nMake it." in prompt.text
            assert "complete_step" in prompt.authority.exposed


async def test_outside_of_a_run_there_is_no_step_to_complete(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, said() + SIMPLE) as harness:
        session = await harness.agent_runtime.runtime.sessions.create(
            opened_by="test", mode=ToolMode.coding
        )
        task = await harness.agent_runtime.tasks.put(session.id, "go", who="ada")
        async with harness.agent_runtime.runtime.leases.held(session.id, "test") as lease:
            await harness.agent_runtime.session_runner().run(lease)
        assert (await harness.agent_runtime.tasks.get(task.id)).status == "done"
        (denied,) = harness.results(session.id)
        assert denied["error_code"] == "TOOL_NOT_AVAILABLE"
        assert "it is only for the steps of a workflow" in denied["message"]


async def test_a_transition_that_no_edge_makes_is_refused_with_the_allowed_ones(tmp_path, monkeypatch):
    script = said(outcome="up") + said(outcome="right") + SIMPLE
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("choice", CHOICE, choose="Choose.")
        done = await harness.run("choice")
        assert done.run.outcome == "right"
        refused, taken = harness.results(done.run.session_id)
        assert refused["error_code"] == "E_INVALID_TRANSITION"
        assert refused["error_class"] == "validation"
        assert "allowed: left, right" in refused["message"]
        assert taken["ok"]
        (decided,) = harness.events(done.run.session_id, "node.decided")
        assert decided[1]["outcome"] == "right"


async def test_a_step_that_does_not_say_where_to_go_pauses_the_run_and_can_be_retried(
    tmp_path, monkeypatch
):
    async with open_workflow_harness(tmp_path, monkeypatch, f"when:visit 1\n{SIMPLE}") as harness:
        harness.put("choice", CHOICE, choose="Choose.")
        stuck = await harness.run("choice")
        assert stuck.run.status is RunStatus.paused
        assert "choose did not choose an edge (valid: left, right)" in stuck.run.reason
        assert names(stuck) == ["choose:failed"]
        with pytest.raises(WrongRunStatus, match="retry it"):
            await harness.agent_runtime.runs.resume(stuck.run.session_id, who="ada")
        (tmp_path / "script.txt").write_text(said(outcome="left") + SIMPLE)
        await harness.agent_runtime.models.close()
    async with open_workflow_harness(tmp_path, monkeypatch) as harness:
        await harness.agent_runtime.runs.retry(stuck.run.session_id, who="ada")
        done = await harness.work(stuck.run.session_id)
        assert done.run.outcome == "left"
        assert names(done) == ["choose:failed", "choose:completed", "left:completed"]
        assert done.visits[1].retry_of == 1


async def test_a_circle_ends_when_its_node_was_come_to_often_enough(tmp_path, monkeypatch):
    graph = ONE.replace('to = "end"', 'to = "only"\nlabel = "again"') + (
        '[[edges]]\nfrom = "only"\nto = "end"\nlabel = "enough"\n'
    )
    graph = graph.replace('kind = "step"', 'kind = "step"\nmax_visits = 3')
    async with open_workflow_harness(tmp_path, monkeypatch, said(outcome="again") + SIMPLE) as harness:
        harness.put("round", graph, only="Go round.")
        done = await harness.run("round")
        assert done.run.status is RunStatus.failed
        assert done.run.reason == "only was visited 3 times, the maximum"
        assert done.steps == 3
        (finished,) = harness.events(done.run.session_id, "run.finished")
        assert finished[1]["status"] == "failed"


async def test_a_workflow_within_a_workflow(tmp_path, monkeypatch):
    outer = TWO.replace(
        '[nodes.second]\nkind = "step"', '[nodes.second]\nkind = "subworkflow"\nworkflow = "one"'
    )
    script = f"when:Step only of the workflow one\n{said(artifacts={'inner': 'yes'})}msg:ok\n"
    script += f"when:Step first\n{SIMPLE}"
    async with open_workflow_harness(tmp_path, monkeypatch, script) as harness:
        harness.put("one", ONE, only="Inside.")
        harness.put("outer", outer, first="Before.")
        done = await harness.run("outer")
        assert done.run.status is RunStatus.done
        assert [name.partition(":")[0] for name in names(done)] == [
            *("first", "second", "second#1/only", "second#1/end", "end")
        ]
        assert done.artifacts == {"inner": "yes"}
        entered = [fields["frame"] for _, fields in harness.events(done.run.session_id, "node.entered")]
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
    async with open_workflow_harness(tmp_path, monkeypatch, said(outcome="right") + SIMPLE) as harness:
        harness.put("choice", CHOICE, choose="Choose.")
        harness.put("around", graph)
        stuck = await harness.run("around")
        assert stuck.run.status is RunStatus.paused
        assert names(stuck) == ["sub:failed", "sub#1/choose:completed", "sub#1/right:completed"]
        assert stuck.at.node == "sub"
    (tmp_path / "script.txt").write_text(said(outcome="left") + SIMPLE)
    async with open_workflow_harness(tmp_path, monkeypatch) as harness:
        await harness.agent_runtime.runs.retry(stuck.run.session_id, who="ada")
        done = await harness.work(stuck.run.session_id)
        assert done.run.status is RunStatus.done
        assert names(done)[3:] == [
            *("sub:completed", "sub#2/choose:completed", "sub#2/left:completed", "end:completed")
        ]
