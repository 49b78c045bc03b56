"""Going on from the log: after an answer, after a crash at any point, with no write repeated (S3-7)."""

import json

import pytest

from interlock.agent.events import AskUser, TaskEnded, TextDelta, ToolResultInfo
from interlock.agent.loop import TaskAssignment
from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.gates.recovery import record_interrupted_calls
from interlock.log.kinds import ToolCallStarted
from interlock.log.task_events import TurnCompletedEvent
from interlock.redaction.redactor import MARK
from interlock.sessions.models import Role
from interlock.tools.tool import ToolContext
from tests.integration.agent.test_loop import call, of

ASK = call("ask_user", type="confirmation", message="Shall I?")


async def go_on(harness, session: str, model: str, mode: ToolMode = ToolMode.coding) -> list:
    assignment = TaskAssignment(mode, attempt=2)
    return [event async for event in harness.loop(model).handle_message(session, None, assignment)]


async def answers_of(harness, session: str) -> list[dict]:
    messages = await harness.runtime.sessions.transcript(session)
    return [json.loads(message.content) for message in messages if message.role is Role.tool]


async def test_a_question_ends_the_work_and_its_answer_goes_on_with_it(harness):
    session = await harness.session()
    script = f"{ASK}\nmsg:Thank you."
    events = await harness.run(session, "go", script)
    (asked,) = of(AskUser, events)
    assert not of(TaskEnded, events)
    assert [m.role for m in await harness.runtime.sessions.transcript(session)] == [
        Role.user,
        Role.assistant,
    ]
    assert await go_on(harness, session, script) == [asked]
    await harness.runtime.questions.answer(asked.question_id, {"confirmed": True}, who="test")
    events = await go_on(harness, session, script)
    assert events[-1] == TaskEnded("done")
    (answer,) = await answers_of(harness, session)
    assert json.loads(answer["stdout"]) == {"confirmed": True}


async def test_a_question_that_was_closed_is_told_as_cancelled(harness):
    session = await harness.session()
    script = f"{ASK}\nmsg:Then not."
    (asked,) = of(AskUser, await harness.run(session, "go", script))
    await harness.runtime.questions.expire(asked.question_id, reason="nobody came", who="test")
    events = await go_on(harness, session, script)
    assert events[-1] == TaskEnded("done")
    (answer,) = await answers_of(harness, session)
    assert answer["error_code"] == "CANCELLED"


async def left_behind(harness, *calls: tuple[str, dict]) -> str:
    """A session in which the model asked for calls, and then the process ended."""
    session = await harness.session()
    await harness.runtime.sessions.append_message(session, Role.user, "go")
    asked = [
        {"id": f"c{number}", "name": name, "arguments": json.dumps(arguments)}
        for number, (name, arguments) in enumerate(calls)
    ]
    await harness.runtime.sessions.append_message(session, Role.assistant, "", tool_calls=asked)
    return session


def in_turn(harness, session: str) -> ToolContext:
    return ToolContext(session, appender=harness.runtime.log.appender(session))


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
async def test_an_answer_that_was_given_is_not_asked_for_again(harness, finish):
    """The process ended between the answer and the end of its task."""
    session = await harness.session()
    await harness.run(session, "go", "msg:The answer.")
    (turn,) = harness.event_rows(session, "turn.completed")
    ended_so = TurnCompletedEvent(**{**json.loads(turn[4]), "finish_reason": finish})
    await harness.runtime.log.append(session, ended_so)
    events = await go_on(harness, session, "err:server")
    assert events[0] == TextDelta(0, 0, "The answer.")
    assert events[-1].status == ("failed" if finish == "content_filter" else "done")
    assert bool(events[-1].sentence) is (finish != "stop")
    messages = await harness.runtime.sessions.transcript(session)
    assert [message.role for message in messages] == [Role.user, Role.assistant, Role.assistant]


async def test_calls_that_never_began_are_run(harness):
    session = await left_behind(harness, ("write_file", {"path": "x", "content": "1"}), ("list_files", {}))
    events = await go_on(harness, session, "ok\nmsg:done")
    assert [result.result["ok"] for result in of(ToolResultInfo, events)] == [True, True]
    assert (harness.root / "x").read_text() == "1"
    assert events[-1] == TaskEnded("done")


@pytest.mark.parametrize(("tool", "runs_again"), [("list_files", True), ("write_file", False)])
async def test_what_was_interrupted_is_run_again_only_if_it_merely_looks(harness, tool, runs_again):
    arguments = {} if tool == "list_files" else {"path": "x", "content": "1"}
    session = await left_behind(harness, (tool, arguments))
    await begin(harness, session, tool, arguments)
    await record_interrupted_calls(harness.runtime.log, session, token=None)
    events = await go_on(harness, session, "ok\nmsg:done")
    (answer,) = await answers_of(harness, session)
    assert answer["ok"] is runs_again
    assert bool(of(ToolResultInfo, events)) is runs_again
    assert not (harness.root / "x").exists()
    if not runs_again:
        assert answer["error_code"] == "INTERRUPTED"
        assert "not known" in answer["message"]


async def begin(harness, session: str, tool: str, arguments: dict) -> None:
    """As a process that dies right behind the intent leaves it."""
    authority = await harness.runtime.authority(ToolMode.coding)
    entry = harness.runtime.registry.entry(tool)
    await harness.runtime.log.append(
        session,
        ToolCallStarted(
            call_id="c0",
            tool_name=tool,
            mode="coding",
            authority_digest=authority.digest,
            requested_name=tool,
            arguments=arguments,
            effect=entry.tool.effect.value,
            timeout_seconds=30.0,
            sandbox="none",
        ),
    )


async def test_what_was_done_and_not_told_is_not_done_again(harness):
    """The process ended after the outcome, which has the result."""
    session = await left_behind(harness, ("write_file", {"path": "x", "content": "1"}))
    authority = await harness.runtime.authority(ToolMode.coding)
    done = await harness.runtime.runner.call(
        ToolCall("c0", "write_file", {"path": "x", "content": "1"}), authority, in_turn(harness, session)
    )
    assert done.ok
    (harness.root / "x").write_text("changed since")
    await go_on(harness, session, "ok\nmsg:done")
    (answer,) = await answers_of(harness, session)
    assert answer == done.as_dict()
    assert (harness.root / "x").read_text() == "changed since"
    assert len(harness.event_rows(session, "tool_call.started")) == 1


async def test_a_refusal_that_was_not_told_is_told_as_it_was(harness):
    session = await left_behind(harness, ("read_file", {"path": "/etc/passwd"}))
    authority = await harness.runtime.authority(ToolMode.coding)
    refused = await harness.runtime.runner.call(
        ToolCall("c0", "read_file", {"path": "/etc/passwd"}), authority, in_turn(harness, session)
    )
    await go_on(harness, session, "ok\nmsg:done")
    (answer,) = await answers_of(harness, session)
    assert answer == refused.as_dict()


async def test_a_call_whose_arguments_held_a_secret_is_not_run_with_its_mask(harness):
    session = await left_behind(harness, ("write_file", {"path": "x", "content": f"key {MARK}"}))
    await go_on(harness, session, "ok\nmsg:done")
    (answer,) = await answers_of(harness, session)
    assert "secret" in answer["message"]
    assert not (harness.root / "x").exists()


async def test_a_long_conversation_is_told_in_short_and_stays_so(harness):
    harness.context_tokens = 400
    session = await harness.session(ToolMode.chat_safe)
    for number in range(6):
        await harness.run(session, f"question {number} " + "x" * 300, "\n".join(["msg:" + "y" * 300] * 9))
    compacted = [json.loads(row[4]) for row in harness.event_rows(session, "context.compacted")]
    assert compacted
    assert all(each["tokens_after"] < each["tokens_before"] for each in compacted)
    assert len(await harness.runtime.sessions.transcript(session)) == 12
