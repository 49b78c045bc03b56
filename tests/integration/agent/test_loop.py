"""The loop: turns, calls, denials, limits and faults, seen in what it tells and in the log (S0-4, S3-7)."""

import asyncio
import json
from contextlib import aclosing, contextmanager
from dataclasses import replace

import pytest

from interlock.agent.events import (
    RetryAnnounced,
    TaskEnded,
    TextDelta,
    ToolCallInfo,
    ToolDenied,
    ToolResultInfo,
    TurnCompleted,
)
from interlock.agent.loop import AgentLoop
from interlock.config.modes import ToolMode
from interlock.core.errors import StoreUnavailable
from interlock.redaction.redactor import MARK
from interlock.sessions.models import Role
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect
from interlock.wiring.projections import verify
from tests.harness.agent_loop import SECRET
from tests.harness.task_limits import task_limits
from tests.harness.tools import DeclaredTool


def of(kind: type, events: list) -> list:
    return [event for event in events if isinstance(event, kind)]


def call(name: str, **arguments: object) -> str:
    return f"call:{name} {json.dumps(arguments)}"


async def test_an_answer_is_streamed_stored_and_told(harness):
    session = await harness.session(ToolMode.chat_safe)
    events = await harness.run(session, "hello", "msg:Hello there, how are you?")
    assert "".join(delta.text for delta in of(TextDelta, events)) == "Hello there, how are you?"
    assert events[-1] == TaskEnded("done")
    messages = await harness.runtime.sessions.transcript(session)
    assert [(message.role, message.content) for message in messages] == [
        (Role.user, "hello"),
        (Role.assistant, "Hello there, how are you?"),
    ]
    kinds = [row[1] for row in harness.event_rows(session)]
    assert kinds[1:] == [
        "message.appended",
        "agent.started",
        "turn.completed",
        "agent.completed",
    ]


async def test_text_is_told_where_it_stands(harness):
    session = await harness.session(ToolMode.chat_safe)
    events = await harness.run(session, "hello", "msg:" + "some words and more words " * 20)
    text = ""
    for delta in of(TextDelta, events):
        assert (delta.turn, delta.offset) == (1, len(text))
        text += delta.text


async def test_calls_run_and_their_results_go_back_to_the_model(harness):
    (harness.root / "a.txt").write_text("the content\n")
    session = await harness.session()
    script = "\n".join(
        [
            call("read_file", path="a.txt"),
            call("edit_file", path="a.txt", find="the", replace="some"),
            "msg:done",
        ]
    )
    events = await harness.run(session, "change it", script)
    assert [info.tool_name for info in of(ToolCallInfo, events)] == ["read_file", "edit_file"]
    assert [result.result["ok"] for result in of(ToolResultInfo, events)] == [True, True]
    assert (harness.root / "a.txt").read_text() == "some content\n"
    assert [turn.tool_calls for turn in of(TurnCompleted, events)] == [1, 1, 0]
    roles = [message.role.value for message in await harness.runtime.sessions.transcript(session)]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


async def test_calls_hang_under_the_turn_that_asked_for_them(harness):
    session = await harness.session()
    await harness.run(
        session, "go", "\n".join([call("list_files"), call("list_files", path="."), "msg:done"])
    )
    turns = {row[5] for row in harness.event_rows(session, "turn.completed")}
    parents = [row[3] for row in harness.event_rows(session, "tool_call.started")]
    assert len(turns) == 3
    assert len(set(parents)) == 2
    assert set(parents) <= turns
    (agent,) = harness.event_rows(session, "agent.started")
    assert {row[3] for row in harness.event_rows(session, "turn.completed")} == {agent[5]}


async def test_agent_yields_tool_denied_event(harness):
    """S1-A6: what the mode does not allow is refused, told, and the answer still comes."""
    session = await harness.session(ToolMode.chat_safe)
    events = await harness.run(
        session, "read it", "\n".join([call("read_file", path="a"), "msg:I cannot."])
    )
    (denied,) = of(ToolDenied, events)
    assert (denied.tool_name, denied.mode, denied.error_code) == ("read_file", "chat_safe", "MODE_DENIED")
    assert denied.message == "read_file is not allowed in chat_safe mode"
    assert denied.next_action
    infos = of(ToolCallInfo, events)
    assert [info.call_id for info in infos] == [denied.call_id]
    assert events.index(infos[0]) < events.index(denied)
    assert events[-1] == TaskEnded("done")
    (message,) = [m for m in await harness.runtime.sessions.transcript(session) if m.role is Role.tool]
    assert message.tool_call_id == denied.call_id
    assert json.loads(message.content)["error_code"] == "MODE_DENIED"


async def test_a_limit_of_turns_ends_it_with_a_sentence(harness):
    harness.limits = task_limits(max_turns=3)
    session = await harness.session()
    for index in range(6):
        (harness.root / f"{index}.txt").write_text(str(index))
    events = await harness.run(
        session, "go", "\n".join(call("read_file", path=f"{n}.txt") for n in range(6))
    )
    assert events[-1].status == "failed"
    assert "CONTROL_MAX_TURNS" in events[-1].sentence
    assert len(of(TurnCompleted, events)) == 3


async def test_the_same_call_again_and_again_is_no_progress(harness):
    session = await harness.session()
    events = await harness.run(session, "go", "\n".join([call("list_files")] * 5))
    assert events[-1].status == "failed"
    assert len(of(ToolResultInfo, events)) == 3
    (stalled,) = harness.event_rows(session, "progress.stalled")
    assert json.loads(stalled[4]) == {"tool_name": "list_files", "times": 3}


async def test_a_fault_that_may_pass_is_tried_again(harness):
    session = await harness.session(ToolMode.chat_safe)
    events = await harness.run(session, "hello", "err:server\nerr:rate_limited\nmsg:now")
    assert len(of(RetryAnnounced, events)) == 2
    assert events[-1] == TaskEnded("done")
    scheduled = [json.loads(row[4]) for row in harness.event_rows(session, "retry.scheduled")]
    assert [(each["attempt"], each["error_class"]) for each in scheduled] == [
        (1, "server"),
        (2, "rate_limited"),
    ]


async def test_a_fault_that_cannot_pass_ends_it(harness):
    session = await harness.session(ToolMode.chat_safe)
    events = await harness.run(session, "hello", "err:auth\nmsg:never")
    assert events[-1].status == "failed"
    assert not of(RetryAnnounced, events)
    (failed,) = harness.event_rows(session, "agent.failed")
    assert json.loads(failed[4])["error_class"] == "auth"


async def test_secrets_of_the_model_are_neither_shown_nor_stored(harness):
    session = await harness.session()
    script = "\n".join([call("write_file", path="x", content=SECRET), f"msg:I wrote {SECRET} for you"])
    events = await harness.run(session, f"remember {SECRET}", script)
    assert SECRET not in repr(events)
    assert "".join(delta.text for delta in of(TextDelta, events)) == f"I wrote {MARK} for you"
    assert SECRET not in repr(harness.event_rows(session))
    assert SECRET not in repr(await harness.runtime.sessions.transcript(session))
    assert (harness.root / "x").read_text() == SECRET


async def test_bad_arguments_and_unknown_tools_go_back_to_the_model(harness):
    session = await harness.session()
    events = await harness.run(
        session, "go", "\n".join(["call:read_file not json", call("no_such_tool"), "msg:sorry"])
    )
    codes = [result.result["error_code"] for result in of(ToolResultInfo, events)]
    assert codes == ["INVALID_ARGS", "TOOL_NOT_FOUND"]
    assert events[-1] == TaskEnded("done")


MISTAKES = {
    "a missing file": [call("read_file", path=f"missing{n}.txt") for n in range(6)],
    "a folder": [call("edit_file", path="folder", find=f"no {n}", replace="x") for n in range(6)],
    "no folder": [call("list_files", path="a.txt", limit=n + 1) for n in range(6)],
    "no text": [call("read_file", path="a.bin", offset=n + 1) for n in range(6)],
    "a part that is no folder": [call("read_file", path=f"a.txt/{n}") for n in range(6)],
    "a bad pattern": [call("search_files", pattern=f"({n}") for n in range(6)],
    "nothing to replace": [call("edit_file", path="a.txt", find=f"no {n}", replace="x") for n in range(6)],
    "in the way": [call("move_file", source="a.txt", destination="a.bin", overwrite=False)] * 6,
}


@pytest.mark.parametrize("mistakes", MISTAKES.values(), ids=list(MISTAKES))
async def test_what_a_model_asks_for_wrongly_opens_no_circuit(harness, mistakes):
    harness.limits = task_limits(max_repeats=99)
    (harness.root / "folder").mkdir()
    (harness.root / "a.txt").write_text("the content\n")
    (harness.root / "a.bin").write_bytes(bytes(range(256)))
    session = await harness.session()
    events = await harness.run(
        session, "go", "\n".join([call("read_file", path="a.txt"), *mistakes, "msg:sorry"])
    )
    assert [each.result["ok"] for each in of(ToolResultInfo, events)] == [True] + [False] * 6
    assert not harness.event_rows(session, "circuit.opened")
    assert not any("is suspended for a while" in repr(event) for event in events)


async def test_every_call_has_one_answer_when_the_task_is_cancelled(harness):
    """Whatever ends a task, the transcript stays valid for every provider."""
    session = await harness.session()
    item = {
        "msg": "",
        "tool_calls": [
            {"name": "write_file", "arguments": {"path": "one", "content": "1"}},
            {"name": "write_file", "arguments": {"path": "two", "content": "2"}},
        ],
    }
    working = harness.loop(json.dumps([item, "msg:never"])).handle_message(session, "go")
    async for event in working:
        if isinstance(event, ToolResultInfo):
            break
    await working.aclose()
    messages = await harness.runtime.sessions.transcript(session)
    asked = [each["id"] for message in messages for each in message.tool_calls or ()]
    answered = [message.tool_call_id for message in messages if message.role is Role.tool]
    assert sorted(asked) == sorted(answered)
    assert (harness.root / "one").read_text() == "1"
    assert not (harness.root / "two").exists()
    assert json.loads(messages[-1].content)["error_code"] == "CANCELLED"


async def test_a_cancelled_task_stops_its_running_call(harness):
    session = await harness.session()
    script = "\n".join([call("list_files"), "sleep:60000"])

    async def work() -> None:
        async for _ in harness.loop(script).handle_message(session, "go"):
            pass

    running = asyncio.create_task(work())
    while not harness.event_rows(session, "tool_call.completed"):
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    roles = [message.role for message in await harness.runtime.sessions.transcript(session)]
    assert roles == [Role.user, Role.assistant, Role.tool]


@contextmanager
def counted_tasks():
    """The names of the coroutines that become asyncio tasks."""
    loop, names = asyncio.get_running_loop(), []

    def make(loop, coroutine, **more):
        names.append(getattr(coroutine, "__qualname__", ""))
        return asyncio.Task(coroutine, loop=loop, **more)

    loop.set_task_factory(make)
    try:
        yield names
    finally:
        loop.set_task_factory(None)


async def test_a_task_of_single_reads_is_one_asyncio_task(harness):
    (harness.root / "a.txt").write_text("the content\n")
    session = await harness.session()
    script = "\n".join([*(call("read_file", path="a.txt", offset=number) for number in range(8)), "msg:ok"])
    with counted_tasks() as names:
        events = await harness.run(session, "go", script)
    assert len(of(ToolResultInfo, events)) == 8
    assert events[-1] == TaskEnded("done")
    assert [name for name in names if name] == ["AgentLoop.run_task"]


async def test_reads_of_one_turn_run_together_and_what_changes_something_alone(harness):
    running, most = set(), {}

    def tool(name: str, effect: Effect) -> DeclaredTool:
        async def run(_arguments, context):
            running.add(context.call_id)
            await asyncio.sleep(0.05)
            most[name] = max(most.get(name, 0), len(running))
            running.discard(context.call_id)
            return ToolResult()

        return DeclaredTool(name, effect=effect, run=run)

    harness.runtime.registry.register(tool("look", Effect.read))
    harness.runtime.registry.register(tool("change", Effect.write))
    session = await harness.session()
    names = ["look", "look", "look", "change", "change", "look"]
    model = json.dumps([{"tool_calls": [{"name": name, "arguments": {}} for name in names]}, "msg:ok"])
    events = await harness.run(session, "go", model)
    assert [result.tool_name for result in of(ToolResultInfo, events)] == names
    assert most == {"look": 3, "change": 1}


async def test_between_turns_the_work_waits_for_its_reader(harness):
    """Whoever stops reading after a turn stops the task there."""
    session = await harness.session()
    script = "\n".join([call("list_files"), call("list_files", limit=5), "msg:done"])
    async with aclosing(harness.loop(script).handle_message(session, "go")) as events:
        async for event in events:
            if isinstance(event, TurnCompleted):
                await asyncio.sleep(0.2)
                break
    assert len(harness.event_rows(session, "tool_call.started")) == 1


async def test_an_error_of_the_work_reaches_its_reader(harness):
    session = await harness.session()

    class Failing:
        async def begin(self, *_task):
            raise StoreUnavailable("the store is away")

    loop = harness.loop("msg:never")
    services = replace(loop._services, prompts=loop._services.prompts.with_source(Failing()))
    with pytest.raises(StoreUnavailable):
        async for _ in AgentLoop(services).handle_message(session, "go"):
            pass


async def test_the_log_of_all_this_verifies(harness):
    session = await harness.session()
    await harness.run(session, "go", "\n".join([call("list_files"), "msg:done"]))
    with harness.runtime.database.reading() as connection:
        assert verify(connection).ok
