"""Tasks within tasks: another agent, under the same ceiling, bounded, nested in the tree."""

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

import pytest

from interlock.agent.events import ToolProgress
from interlock.config.modes import ToolMode
from interlock.embed import tool
from interlock.gates import runner
from interlock.log.read import iter_stream
from interlock.log.timeline import read_timeline
from interlock.log.tree import build_tree
from interlock.sessions.models import Role
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, ToolContext, ToolGroup
from tests.harness.log_capture import capture_logs
from tests.harness.runtime import call, open_runtime_harness, script
from tests.integration.agent.test_office import agent_file

WRITE = call("write_file", path="a.txt", content="x\n", mode="append")


def turn(*calls: dict, msg: str = "") -> dict:
    return {"tool_calls": list(calls)} | ({"msg": msg} if msg else {})


def hand(agent: str = "helper", task: str = "Write a line.") -> dict:
    return turn(call("delegate", agent=agent, task=task))


@pytest.fixture
async def harness(tmp_path, monkeypatch):
    async def make(parent: list, child: list, *, head: str = "", **variables: str):
        models = [script(tmp_path, *parent), script(tmp_path, *child)]
        folder = tmp_path / "workspace" / "agents"
        folder.mkdir(parents=True)
        text = f"---\ndescription: helps\nmodel: {models[1]}\n{head}---\nYou help.\n"
        (folder / "helper.md").write_text(text)
        given = {"MODEL": models[0], "MODELS": models[1], "CONTROL_RETRY_SECONDS": "0.01"} | variables
        opening = open_runtime_harness(tmp_path, monkeypatch, given)
        made = await opening.__aenter__()
        closing.append(opening)
        return made

    closing: list = []
    yield make
    for each in closing:
        await each.__aexit__(None, None, None)


async def test_another_agent_does_a_part_and_its_answer_is_the_result(harness, tmp_path):
    ada = await harness([hand(), "msg:All done."], [turn(WRITE), "msg:I wrote the line."])
    session = await ada.session()
    task = await ada.say(session, "write a line")
    assert task.status == "done"
    (answer,) = [m for m in await ada.transcript(session) if m.role is Role.tool]
    result = json.loads(answer.content)
    assert (result["ok"], result["stdout"]) == (True, "I wrote the line.\n")
    assert result["meta"] == {"agent": "helper", "task_id": f"{task.id}.1"}
    assert (tmp_path / "root" / "a.txt").read_text() == "x\n"
    # What was said between the two is no part of the conversation.
    assert [m.content for m in await ada.transcript(session) if m.role is Role.user] == ["write a line"]
    assert [event.text for event in ada.shown if isinstance(event, ToolProgress)] == [
        "helper: write_file\n"
    ]


class WhoTool(BaseTool):
    """Keeps the names of the agents that call it."""

    name = "who"
    description = "Say who calls."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}
    group = ToolGroup.world
    allowed_modes = frozenset(ToolMode)

    def __init__(self) -> None:
        self.agents: list[str] = []

    async def execute(self, prepared: Any, context: ToolContext) -> ToolResult:
        self.agents.append(context.agent)
        return ToolResult()


async def test_a_tool_is_given_the_name_of_the_agent_that_calls_it(harness):
    """Rules about commands can hold for some agents only."""
    ada = await harness([turn(call("who")), hand(), "ok"], [turn(call("who")), "msg:Done."])
    tool = WhoTool()
    ada.agent_runtime.runtime.registry.register(tool)
    assert (await ada.say(await ada.session())).status == "done"
    assert tool.agents == ["", "helper"]


async def test_its_events_are_nested_under_the_call_that_handed_it_over(harness):
    ada = await harness([hand(), "msg:All done."], [turn(WRITE), "msg:Written."])
    session = await ada.session()
    task = await ada.say(session)
    with ada.agent_runtime.runtime.database.reading() as connection:
        roots = build_tree(iter_stream(connection, session))
    (queued,) = [root for root in roots if root.stored.header.kind == "task.queued"]
    path = ["task.started", "agent.started", "turn.completed", "tool_call.started", "agent.started"]
    path += ["turn.completed", "tool_call.started", "tool_call.completed"]
    node = queued
    for kind in path:
        node = next(child for child in node.children if child.stored.header.kind == kind)
    with ada.agent_runtime.runtime.database.reading() as connection:
        shown = read_timeline(connection, session_id=session, task_id=task.id, limit=500)
    assert f"{task.id}.1" in str(shown.roots)


async def test_a_child_may_not_do_what_its_parent_may_not(harness, tmp_path):
    """Its own file allows writing; the agent that hands over is not allowed to."""
    ada = await harness([hand(), "ok"], [turn(WRITE), "msg:I could not."])
    agent_file(tmp_path, "careful", "tools.denied_tools: write_file\n")
    session = await ada.session(agent="careful")
    assert (await ada.say(session)).status == "done"
    (denied,) = ada.payloads(session, "tool_call.denied")
    assert (denied["tool_name"], denied["layer"]) == ("write_file", "node")
    assert not (tmp_path / "root" / "a.txt").exists()


async def test_a_child_is_refused_what_its_own_file_denies(harness, tmp_path):
    ada = await harness(
        [hand(), "ok"], [turn(WRITE), "msg:I could not."], head="tools.denied_tools: write_file\n"
    )
    session = await ada.session()
    assert (await ada.say(session)).status == "done"
    (denied,) = ada.payloads(session, "tool_call.denied")
    assert (denied["tool_name"], denied["layer"]) == ("write_file", "agent")
    assert not (tmp_path / "root" / "a.txt").exists()


async def test_a_refused_call_of_a_child_keeps_its_arguments_and_a_masked_answer_is_told(harness):
    secret = "sk-known-secret-value"
    refused = turn(call("read", path=5, note=secret))
    ada = await harness([hand(), "ok"], [refused, f"msg:The key is {secret}."], OPENAI_API_KEY=secret)
    session = await ada.session()
    assert (await ada.say(session)).status == "done"
    (failed,) = ada.payloads(session, "tool_call.failed")
    assert (failed["tool_name"], failed["requested_name"]) == ("read_file", "read")
    assert (failed["arguments"], failed["redacted"]) == ({"path": 5, "note": "***REDACTED***"}, True)
    (handed,) = ada.payloads(session, "tool_call.completed")
    assert (handed["tool_name"], handed["redacted"]) == ("delegate", True)


async def test_a_child_cannot_ask_and_is_told_so(harness):
    ask = call("ask_user", type="confirmation", message="Shall I?")
    ada = await harness([hand(), "ok"], [turn(ask), "msg:I cannot ask."])
    session = await ada.session()
    assert (await ada.say(session)).status == "done"
    (denied,) = ada.payloads(session, "tool_call.denied")
    assert (denied["tool_name"], denied["error_code"]) == ("ask_user", "TOOL_NOT_AVAILABLE")


async def test_only_in_coding_is_there_anybody_to_hand_over_to(harness):
    ada = await harness([hand(), "ok"], ["ok"])
    session = await ada.session(ToolMode.plan)
    await ada.say(session)
    (denied,) = ada.payloads(session, "tool_call.denied")
    assert denied["error_code"] == "MODE_DENIED"


async def test_a_child_may_hand_over_once_more_and_its_child_not(harness):
    """The same script for all three: each hands over, the third is not offered it."""
    ada = await harness([hand(), "msg:first"], [hand(), "msg:deeper"])
    session = await ada.session()
    task = await ada.say(session)
    assert task.status == "done"
    started = [f["task_id"] for f in ada.payloads(session, "agent.started")]
    assert started == [task.id, f"{task.id}.1", f"{task.id}.1.1"]
    (denied,) = ada.payloads(session, "tool_call.denied")
    assert (denied["tool_name"], denied["error_code"]) == ("delegate", "TOOL_NOT_AVAILABLE")


async def test_a_task_hands_over_only_so_often(harness):
    tasks = [hand(task=f"Part {number}.") for number in range(9)]
    ada = await harness([*tasks, "ok"], ["msg:ok"])
    session = await ada.session()
    await ada.say(session)
    failed = ada.payloads(session, "tool_call.failed")
    assert [f["error"] for f in failed] == ["this task has already delegated 8 tasks, the maximum"]


async def test_tokens_of_a_child_count_for_its_parent(harness):
    ada = await harness([hand(), "ok", "ok"], ["msg:" + "many words " * 400], CONTROL_MAX_TOKENS="8000")
    session = await ada.session()
    task = await ada.say(session)
    used = [f["input_tokens"] + f["output_tokens"] for f in ada.payloads(session, "turn.completed")]
    assert len(used) == 2
    assert max(used) < 8000 <= sum(used)
    assert task.status == "failed"
    assert "the limit is 8,000" in task.reason


async def test_what_a_child_used_is_counted_for_its_agent_and_the_same_person(harness):
    ada = await harness([hand(), "ok"], ["msg:Nothing to write."])
    task = await ada.say(await ada.session())
    with ada.agent_runtime.runtime.database.reading() as connection:
        rows = connection.query("SELECT task, agent, actor FROM usage WHERE kind = 'turn' ORDER BY task")
    assert rows == [(task.id, "", task.who), (f"{task.id}.1", "helper", task.who)]
    assert task.who


async def test_an_unknown_agent_is_refused_with_those_there_are(harness):
    ada = await harness([hand("hlper"), "ok"], ["ok"])
    session = await ada.session()
    await ada.say(session)
    (failed,) = ada.payloads(session, "tool_call.failed")
    assert "did you mean helper?" in failed["error"]
    assert failed["next_action"] == "The agents are: helper."


async def test_a_child_that_fails_is_told_as_such_and_the_task_goes_on(harness):
    ada = await harness([hand(), "msg:I see."], ["err:invalid_request"])
    session = await ada.session()
    assert (await ada.say(session)).status == "done"
    (failed,) = ada.payloads(session, "tool_call.failed")
    assert "helper did not finish" in failed["error"]


async def test_cancelling_a_task_ends_what_it_handed_over(harness):
    ada = await harness([hand(), "ok"], ["sleep:60000"])
    session = await ada.session()
    saying = asyncio.create_task(ada.say(session))
    while len(ada.payloads(session, "agent.started")) < 2:
        await asyncio.sleep(0.01)
    (task,) = await ada.agent_runtime.tasks.list_tasks(session_id=session)
    await ada.agent_runtime.tasks.cancel(task.id, who="ada")
    assert (await asyncio.wait_for(saying, 10)).status == "cancelled"
    statuses = [f["error_code"] for f in ada.payloads(session, "tool_call.failed")]
    assert statuses == ["CANCELLED"]


@pytest.mark.parametrize("of", ["", ".1"], ids=["its task", "alone"])
async def test_what_a_child_changed_is_taken_back(harness, tmp_path, of):
    ada = await harness([hand(), "ok"], [turn(WRITE), "ok"])
    session = await ada.session()
    task = await ada.say(session)
    assert (tmp_path / "root" / "a.txt").exists()
    await ada.agent_runtime.runtime.undo.revert(f"{task.id}{of}", who="ada")
    assert not (tmp_path / "root" / "a.txt").exists()


@tool(modes=["coding"], effect="write", switches=["fs"])
async def stubborn() -> str:
    """Does not stop when it is told to."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
            return "done"


async def test_a_call_of_a_child_that_does_not_stop_has_its_outcome_before_its_task_ends(
    harness, monkeypatch
):
    """The child's own call is given up after a while, and only then the call that handed the task over."""
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.2)
    ada = await harness([hand(), "msg:Done."], [turn(call("stubborn")), "msg:Done."])
    ada.agent_runtime.runtime.registry.register(stubborn)
    session = await ada.session()
    saying = asyncio.create_task(ada.say(session))
    async with asyncio.timeout(30):
        while not ada.payloads(session, "tool_call.started")[1:]:
            await asyncio.sleep(0.01)
    [task] = await ada.agent_runtime.tasks.list_tasks(session_id=session)
    await ada.agent_runtime.tasks.cancel(task.id, who="test")
    assert (await saying).status == "cancelled"
    ended = [payload["tool_name"] for payload in ada.payloads(session, "tool_call.failed")]
    assert ended == ["stubborn", "delegate"]


async def test_a_child_that_meets_a_store_that_is_away_leaves_off_with_its_task(harness):
    """And is not told as a tool with a fault: the task goes on from the log when the store is back."""
    slow = turn(WRITE) | {"sleep_ms": 300}
    ada = await harness([hand(), "msg:I see."], [slow], DATABASE_BUSY_TIMEOUT_SECONDS="1")
    session = await ada.session()
    saying = asyncio.create_task(ada.say(session))
    while len(ada.payloads(session, "agent.started")) < 2:
        await asyncio.sleep(0.01)
    path = ada.agent_runtime.runtime.database.config.path
    with closing(sqlite3.connect(path)) as locker, capture_logs() as logs:
        locker.execute("BEGIN IMMEDIATE")
        while not {line["event"] for line in logs} & {"tool_raised", "task_left_off"}:
            await asyncio.sleep(0.01)
    task = await saying
    assert (task.status, task.attempts) == ("done", 2)
    [[told]] = (await ada.answers(session)).values()
    assert told["error_code"] == "INTERRUPTED"
    assert ada.payloads(session, "tool_call.failed") == []
    assert "tool_raised" not in {line["event"] for line in logs}
