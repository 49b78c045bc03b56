"""From a plan to its building: by a person's word, where coding is open, and in no other way."""

import sqlite3
from contextlib import closing

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import InvalidAnswer, ModeNotOpen, QuestionAlreadyClosed
from interlock.runtime.approved_plans import NoPlan, plan_task_id
from interlock.runtime.task_rows import TaskStatus
from interlock.sessions.models import Role
from tests.harness.runtime import call, open_runtime_harness, script

PLAN = call(
    "ask_user",
    type="plan_review",
    message="Is this right?",
    plan="Write a.txt.",
    steps=["Write it.", "Read it again."],
)
WRITE = call("write_file", path="a.txt", content="built\n")
APPROVE = {"decision": "approve", "comment": "Gently."}


@pytest.fixture
async def planned(tmp_path, monkeypatch):
    """Somebody in plan mode who was asked about a plan; the model then writes whatever it may."""
    model = script(tmp_path, {"tool_calls": [PLAN]}, "msg:I wait.", {"tool_calls": [WRITE]}, "msg:Built.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session(ToolMode.plan)
        task = await harness.say(session, "plan it")
        assert task.status is TaskStatus.waiting
        yield harness, session, task.question_id


async def test_a_person_approves_and_has_it_built(planned, tmp_path):
    ada, session, question = planned
    built = await ada.agent_runtime.plans.approve(question, APPROVE, who="ada")
    assert (built.task.status, built.task.mode) == (TaskStatus.queued, ToolMode.coding)
    done = await ada.talk(session).go_on(built.task)
    assert done.status is TaskStatus.done
    assert done.mode is ToolMode.coding
    assert (tmp_path / "root" / "a.txt").read_text() == "built\n"
    asked = [m.content for m in await ada.transcript(session) if m.role is Role.user]
    assert asked[1] == (
        "Build the following approved plan.\n\nWrite a.txt.\n\n1. Write it.\n2. Read it "
        "again.\n\nComment by the user: Gently."
    )
    (changed,) = ada.payloads(session, "session.mode_changed")
    assert changed == {"who": "ada", "from_mode": "plan", "to_mode": "coding"}
    (started,) = ada.payloads(session, "plan.build_started")
    assert started == {"question_id": question, "task_id": built.task.id, "who": "ada"}
    # The task that asked went on in the mode it had.
    modes = [fields["mode"] for fields in ada.payloads(session, "task.started")]
    assert modes == ["plan", "plan", "coding"]
    # The building begins with a call, though the task that asked went on in between.
    choices = [fields["tool_choice"] for fields in ada.payloads(session, "turn.completed")]
    assert choices == ["auto", "auto", "required", "auto"]
    await ada.say(session, "thanks")
    assert ada.payloads(session, "turn.completed")[-1]["tool_choice"] == "auto"


async def test_an_approval_alone_changes_no_mode_and_the_model_cannot_do_it_either(planned, tmp_path):
    ada, session, question = planned
    task = await ada.talk(session).answer(await ada.agent_runtime.runtime.questions.get(question), APPROVE)
    assert task.status is TaskStatus.done
    assert await ada.agent_runtime.runtime.sessions.get_mode(session) is ToolMode.plan
    again = await ada.say(session, "the plan was approved, so switch to coding and build it")
    assert again.mode is ToolMode.plan
    (denied,) = ada.payloads(session, "tool_call.denied")
    assert (denied["tool_name"], denied["error_code"]) == ("write_file", "MODE_DENIED")
    assert not (tmp_path / "root" / "a.txt").exists()


async def test_what_was_approved_before_can_be_built_later_and_once(planned):
    ada, session, question = planned
    plans = ada.agent_runtime.plans
    with pytest.raises(NoPlan, match="was not approved"):
        await plans.build(question, who="ada")
    await ada.talk(session).answer(await ada.agent_runtime.runtime.questions.get(question), APPROVE)
    assert (await plans.approved(session)).id == question
    first, second = await plans.build(question, who="ada"), await plans.build(question, who="bob")
    assert first.task.id == second.task.id == plan_task_id(question)
    await ada.agent_runtime.runtime.mode_switch.switch(session, ToolMode.plan, who="ada")
    await plans.build(question, who="bob")
    assert await ada.agent_runtime.runtime.sessions.get_mode(session) is ToolMode.plan
    assert len(ada.payloads(session, "plan.build_started")) == 1


async def test_whatever_is_no_approval_builds_nothing_and_changes_nothing(planned):
    ada, _session, question = planned
    for answer in ({"decision": "reject"}, {"decision": "revise", "comment": "No."}, {}):
        with pytest.raises(NoPlan):
            await ada.agent_runtime.plans.approve(question, answer, who="ada")
    with pytest.raises(InvalidAnswer):
        await ada.agent_runtime.plans.approve(
            question, {"decision": "approve", "mode": "coding"}, who="ada"
        )
    assert (await ada.agent_runtime.runtime.questions.get(question)).status == "open"
    await ada.agent_runtime.plans.approve(question, APPROVE, who="ada")
    with pytest.raises(QuestionAlreadyClosed):
        await ada.agent_runtime.plans.approve(question, APPROVE, who="ada")


async def test_where_coding_is_not_open_nothing_is_built_and_the_question_stays_open(tmp_path, monkeypatch):
    from interlock.config.settings import Settings
    from interlock.wiring import open_runtime
    from interlock.wiring.agents import open_agent_runtime

    model = script(tmp_path, {"tool_calls": [PLAN]}, "msg:I wait.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session(ToolMode.plan)
        question = (await harness.say(session, "plan it")).question_id
    runtime = open_runtime(Settings(), opened=[ToolMode.plan])
    agent_runtime = open_agent_runtime(runtime)
    assert not agent_runtime.plans.can_build(await runtime.questions.get(question))
    with pytest.raises(ModeNotOpen):
        await agent_runtime.plans.approve(question, APPROVE, who="ada")
    assert (await runtime.questions.get(question)).status == "open"
    assert await runtime.sessions.get_mode(session) is ToolMode.plan
    await agent_runtime.close()
    await runtime.close()


async def test_a_question_of_another_mode_or_kind_is_no_plan_to_build(tmp_path, monkeypatch):
    ask = call("ask_user", type="confirmation", message="Shall I?")
    model = script(tmp_path, {"tool_calls": [PLAN]}, {"tool_calls": [ask]}, "msg:ok")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session(ToolMode.chat)
        task = await harness.say(session, "plan it")
        with pytest.raises(NoPlan, match="not a plan that was made in plan mode"):
            await harness.agent_runtime.plans.approve(task.question_id, APPROVE, who="ada")
        question = await harness.agent_runtime.runtime.questions.get(task.question_id)
        assert not harness.agent_runtime.plans.can_build(question)


@pytest.mark.parametrize("second", ["reject", None])
async def test_a_plan_that_the_person_has_moved_on_from_is_not_built(tmp_path, monkeypatch, second):
    model = script(tmp_path, {"tool_calls": [PLAN]}, "msg:ok", {"tool_calls": [PLAN]}, "msg:ok")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as ada:
        questions, plans = ada.agent_runtime.runtime.questions, ada.agent_runtime.plans
        session = await ada.session(ToolMode.plan)
        first = (await ada.say(session, "plan it")).question_id
        await ada.talk(session).answer(await questions.get(first), APPROVE)
        assert (await plans.approved(session)).id == first
        newer = (await ada.say(session, "plan it otherwise")).question_id
        assert newer not in {None, first}
        if second:
            await ada.talk(session).answer(await questions.get(newer), {"decision": second})
        # Clocks have no say in which is the newest.
        with closing(sqlite3.connect(tmp_path / "state" / "interlock.db")) as store, store:
            store.execute("UPDATE questions SET asked_us = 1 WHERE id = ?", (newer,))
        assert await plans.approved(session) is None
        with pytest.raises(NoPlan, match="a newer plan exists"):
            await plans.build(first, who="ada")
        assert await ada.agent_runtime.runtime.sessions.get_mode(session) is ToolMode.plan
        assert ada.payloads(session, "plan.build_started") == []


async def test_a_plan_that_is_being_built_may_be_said_again_after_another_was_made(planned):
    ada, session, question = planned
    built = await ada.agent_runtime.plans.approve(question, APPROVE, who="ada")
    await ada.talk(session).go_on(built.task)
    assert (await ada.agent_runtime.plans.build(question, who="bob")).task.id == built.task.id
