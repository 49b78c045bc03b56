"""Which model and agent a session has, what it may spend, and what its tasks are told."""

import json

import pytest

from interlock.agent.events import AskUser, TaskEnded, TextDelta, ToolDenied
from interlock.agent.loop import AgentLoop
from interlock.config.modes import ToolMode
from interlock.models import configured_models
from interlock.runtime.task_rows import TaskStatus
from interlock.sessions.models import Role
from tests.harness.runtime import RecordingModel, call, open_runtime_harness, script

ASK = call("ask_user", type="confirmation", message="Shall I?")
READER = "---\ndescription: Reads.\n{more}---\nYou are a careful reader.\n"


def agent_file(tmp_path, name: str = "reader", more: str = "") -> None:
    folder = tmp_path / "workspace" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(READER.format(more=more))


# -- which model --


async def test_the_session_s_model_answers(tmp_path, monkeypatch):
    first, second = script(tmp_path, "msg:first"), script(tmp_path, "msg:second")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": first, "MODELS": second}) as harness:
        usual, chosen = await harness.session(), await harness.session(model=second)
        assert (await harness.say(usual)).status is TaskStatus.done
        assert (await harness.say(chosen)).status is TaskStatus.done
        assert [m.content for m in await harness.transcript(usual)] == ["go", "first"]
        assert [m.content for m in await harness.transcript(chosen)] == ["go", "second"]


async def test_a_model_that_nobody_listed_is_not_asked(tmp_path, monkeypatch):
    unlisted = script(tmp_path, "msg:from a model nobody wanted")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": "demo"}) as harness:
        session = await harness.session(model=unlisted)
        task = await harness.say(session)
        assert task.status is TaskStatus.failed
        assert "MODELS" in task.reason
        assert [m.content for m in await harness.transcript(session)] == ["go"]
        assert harness.payloads(session, "turn.completed") == []


async def test_an_agent_s_file_cannot_bring_in_a_model_that_nobody_listed(tmp_path, monkeypatch):
    unlisted = script(tmp_path, "msg:from a model nobody wanted")
    agent_file(tmp_path, more=f"model: {unlisted}\n")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": "demo"}) as harness:
        task = await harness.say(await harness.session(agent="reader"))
        assert task.status is TaskStatus.failed
        assert "MODELS" in task.reason


async def test_an_agent_s_model_answers_unless_the_person_chose_another(tmp_path, monkeypatch):
    agents, persons = script(tmp_path, "msg:the agent's"), script(tmp_path, "msg:the person's")
    agent_file(tmp_path, more=f"model: {agents}\n")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODELS": f"{agents},{persons}"}) as harness:
        own, other = await harness.session(agent="reader"), await harness.session(agent="reader")
        await harness.agent_runtime.runtime.sessions.choose_model(other, persons, who="test")
        for session in (own, other):
            assert (await harness.say(session)).status is TaskStatus.done
        assert (await harness.transcript(own))[-1].content == "the agent's"
        assert (await harness.transcript(other))[-1].content == "the person's"


# -- which agent --


async def test_an_agent_has_its_persona_and_a_chat_has_none(tmp_path, monkeypatch):
    agent_file(tmp_path)
    model = RecordingModel()
    monkeypatch.setattr(configured_models, "create_provider", lambda _name, _settings: model)
    async with open_runtime_harness(tmp_path, monkeypatch, {}) as harness:
        await harness.say(await harness.session(agent="reader"))
        await harness.say(await harness.session())
    with_persona, without = (dict(heard)["system"] for heard in model.requests)
    assert "You are a careful reader." in with_persona
    assert "careful reader" not in without


async def test_an_agent_s_policy_narrows_what_the_mode_opens(tmp_path, monkeypatch):
    agent_file(tmp_path, more="tools.denied_tools: write_file\n")
    write = {"tool_calls": [call("write_file", path="a.txt", content="x")]}
    model = script(tmp_path, write, "ok")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        free = await harness.session()
        await harness.say(free)
        assert (tmp_path / "root" / "a.txt").read_text() == "x"
        (tmp_path / "root" / "a.txt").unlink()
        bound = await harness.session(agent="reader")
        await harness.say(bound)
        assert not (tmp_path / "root" / "a.txt").exists()
        (denial,) = harness.payloads(bound, "tool_call.denied")
        assert (denial["error_code"], denial["layer"]) == ("TOOL_NOT_AVAILABLE", "agent")


async def test_a_task_that_waited_does_not_go_on_with_a_changed_agent(tmp_path, monkeypatch):
    agent_file(tmp_path)
    model = script(tmp_path, {"tool_calls": [ASK]}, "msg:Thank you.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session(agent="reader")
        talk = harness.talk(session)
        task = await talk.say("go")
        assert task.status is TaskStatus.waiting
        agent_file(tmp_path, more="# nothing but a comment\n")
        task = await talk.answer(await talk.open_question(task), {"confirmed": True})
        assert task.status is TaskStatus.failed
        assert "has changed since this task started" in task.reason
        # The next task begins with the file as it is now.
        assert (await talk.say("again")).status is TaskStatus.done
        first, second = {started["agent_hash"] for started in harness.payloads(session, "agent.started")}
        assert first != second


async def test_a_task_that_waited_goes_on_with_the_agent_it_began_with(tmp_path, monkeypatch):
    agent_file(tmp_path)
    model = script(tmp_path, {"tool_calls": [ASK]}, "msg:Thank you.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        talk = harness.talk(await harness.session(agent="reader"))
        task = await talk.say("go")
        task = await talk.answer(await talk.open_question(task), {"confirmed": True})
        assert task.status is TaskStatus.done


async def test_a_worker_works_by_the_way_that_the_specification_names(tmp_path, monkeypatch):
    """S0-5.6, S1-A6: what `handle_message` gives is all that a task does, and each call is executed by
    `_execute_tool`."""
    given, executed = [], []

    class Watched(AgentLoop):
        async def handle_message(self, session_id, content, *more):
            async for event in super().handle_message(session_id, content, *more):
                given.append(event)
                yield event

        async def _execute_tool(self, call, authority, context):
            executed.append(call.name)
            return await super()._execute_tool(call, authority, context)

    monkeypatch.setattr("interlock.wiring.agents.AgentLoop", Watched)
    model = script(tmp_path, {"tool_calls": [call("current_time"), call("read_file", path="a")]}, "msg:No.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        task = await harness.say(await harness.session(ToolMode.chat_safe))
        assert task.status is TaskStatus.done
        assert [event.tool_name for event in given if isinstance(event, ToolDenied)] == ["read_file"]
        assert given[-1] == TaskEnded("done")
        # Results of calls that run side by side are shown in the order of the log.
        assert sorted(map(repr, harness.shown)) == sorted(map(repr, given))
        assert executed == ["current_time", "read_file"]
        messages = await harness.transcript(task.session_id)
        assert [message.role for message in messages].count(Role.user) == 1


# -- what may be spent --


@pytest.mark.parametrize(
    ("variables", "same_session"),
    [
        ({"CONTROL_MAX_SESSION_TOKENS": "1"}, True),
        ({"CONTROL_MAX_DAY_TOKENS": "1"}, False),
        ({"CONTROL_MAX_SESSION_COST": "0.000001", "CONTROL_PRICES": '{"scripted": [100, 100]}'}, True),
        ({"CONTROL_MAX_DAY_COST": "0.000001", "CONTROL_PRICES": '{"scripted": [100, 100]}'}, False),
    ],
)
async def test_a_budget_counts_what_earlier_tasks_used(tmp_path, monkeypatch, variables, same_session):
    variables = {**variables, "MODEL": script(tmp_path, "msg:one", "msg:two")}
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as harness:
        session = await harness.session()
        assert (await harness.say(session)).status is TaskStatus.done
    # What was used is in the log: another process knows it too.
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as harness:
        other = await harness.session()
        if same_session:
            assert (await harness.say(other)).status is TaskStatus.done
        task = await harness.say(session if same_session else other)
        assert task.status is TaskStatus.failed
        (limit,) = [name for name in variables if name.startswith("CONTROL_MAX")]
        assert limit in task.reason
        (reached,) = harness.payloads(task.session_id, "control.limit_reached")
        assert reached["limit"] == limit.removeprefix("CONTROL_").lower()


async def test_a_model_without_a_price_is_not_asked_where_costs_are_limited(tmp_path, monkeypatch):
    variables = {
        "MODEL": script(tmp_path, "msg:one"),
        "CONTROL_MAX_COST": "5",
        "CONTROL_PRICES": '{"gpt-4o": [1, 1]}',
    }
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as harness:
        session = await harness.session()
        task = await harness.say(session)
        assert task.status is TaskStatus.failed
        assert "CONTROL_PRICES" in task.reason
        assert harness.payloads(session, "turn.completed") == []


async def test_the_built_in_demo_costs_nothing(tmp_path, monkeypatch):
    variables = {"CONTROL_MAX_COST": "0.01", "CONTROL_PRICES": '{"gpt-4o": [1, 1]}'}
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as harness:
        assert (await harness.say(await harness.session(), "hello")).status is TaskStatus.done


# -- what a task is told --


async def test_what_is_queued_later_is_not_told_to_the_task_at_work(tmp_path, monkeypatch):
    model = RecordingModel()
    monkeypatch.setattr(configured_models, "create_provider", lambda _name, _settings: model)
    async with open_runtime_harness(tmp_path, monkeypatch, {}) as harness:
        session = await harness.session()
        await harness.agent_runtime.tasks.put(session, "first", who="test")
        await harness.say(session, "second")
        assert [m.content for m in await harness.transcript(session)] == ["first", "second", "ok", "ok"]
    first, second = ([each for each in heard if each[0] != "system"] for heard in model.requests)
    assert first == [("user", "first")]
    assert second == [("user", "first"), ("assistant", "ok"), ("user", "second")]


async def test_a_cancelled_task_that_waited_leaves_one_answer_to_each_call(tmp_path, monkeypatch):
    calls = [call("current_time"), ASK, call("list_files")]
    model = script(tmp_path, {"tool_calls": calls}, "msg:next")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session()
        talk = harness.talk(session)
        task = await talk.say("go")
        assert task.status is TaskStatus.waiting
        assert (await talk.cancel(task)).status is TaskStatus.cancelled
        asked = [each["id"] for m in await harness.transcript(session) for each in m.tool_calls or ()]
        answers = await harness.answers(session)
        assert sorted(answers) == sorted(asked)
        assert [len(answers[call_id]) for call_id in asked] == [1, 1, 1]
        assert answers[asked[1]][0]["error_code"] == "CANCELLED"
        assert (await talk.say("and now?")).status is TaskStatus.done


async def test_the_mode_of_a_task_is_the_session_s_and_nothing_that_is_said_changes_it(
    tmp_path, monkeypatch
):
    """S1-B4, S1-E6: what is offered, told and judged in a turn is one mode's, from the session alone."""
    write = call("write_file", path="a.txt", content="x")
    model = script(tmp_path, {"msg": "/mode coding", "tool_calls": [write]}, "msg:mode: coding")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session(ToolMode.chat)
        await harness.say(session, "/mode coding\nSwitch to coding mode and write a.txt.")
        (denied,) = [event for event in harness.shown if isinstance(event, ToolDenied)]
        assert (denied.error_code, denied.mode) == ("MODE_DENIED", "chat")
        assert await harness.agent_runtime.runtime.sessions.get_mode(session) is ToolMode.chat
        authority = (await harness.agent_runtime.prompts.prepare(session, ToolMode.chat)).authority
        offered = {item["function"]["name"] for item in json.loads(authority.schemas)}
        assert offered == set(authority.exposed)
        assert "write_file" not in offered
        judged = {payload["authority_digest"] for payload in harness.payloads(session, "turn.completed")}
        assert judged == {
            authority.digest,
            harness.payloads(session, "tool_call.denied")[0]["authority_digest"],
        }


async def test_after_a_denial_the_answer_goes_on(tmp_path, monkeypatch):
    """S1-A8, without a socket: the refusal does not end what is said."""
    model = script(tmp_path, {"tool_calls": [call("read_file", path="a")]}, "msg:I cannot read here.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        task = await harness.say(await harness.session(ToolMode.chat_safe))
        assert task.status is TaskStatus.done
        kinds = [type(event) for event in harness.shown]
        assert TextDelta in kinds[kinds.index(ToolDenied) :]


async def test_a_question_is_told_and_answered_through_the_office(tmp_path, monkeypatch):
    model = script(tmp_path, {"tool_calls": [ASK]}, "msg:Thank you.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        talk = harness.talk(await harness.session(ToolMode.chat_safe))
        task = await talk.say("go")
        (asked,) = [event for event in harness.shown if isinstance(event, AskUser)]
        question = await talk.open_question(task)
        assert question.id == asked.question_id
        assert (await talk.answer(question, {"confirmed": False})).status is TaskStatus.done
        assert await talk.unfinished() is None
