"""`interlock worker` as a process: cancelled from another one, sessions side by side, messages in order."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.runtime.task_rows import TaskStatus
from tests.harness.cli_processes import ProcessHarness, ended
from tests.harness.model_answers import Delay, HangForever, ModelAnswer, called, said
from tests.harness.model_server import ModelRequest, ModelServer
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness, until

# A number that no other process has in its command line.
SLEEP = "sleep 300.0625"


@pytest.fixture
async def tasks(harness: ProcessHarness) -> AsyncIterator[TaskHarness]:
    """Puts messages as any front end does, and sees what becomes of them."""
    harness.variables |= {
        "SESSION_OPEN_MODES": "coding",
        "TOOL_ALLOWED_ROOTS": str(harness.root),
        "WORKER_POLL_SECONDS": "0.1",
    }
    store = open_store(harness.config)
    yield TaskHarness(store)
    store.close()


@asynccontextmanager
async def working(harness: ProcessHarness) -> AsyncIterator[asyncio.subprocess.Process]:
    """It is asked to stop at the end, and does."""
    process = await harness.start("worker")
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        await ended(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def running(words: str) -> list[int]:
    """The processes that have this in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if words in line and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


def last_words(asked: ModelRequest) -> str:
    """What the person said last, as far as the model was told."""
    return [message["content"] for message in asked.messages if message["role"] == "user"][-1]


async def test_a_cancel_from_another_process_ends_the_whole_tree_of_a_command(harness, server, tasks):
    tree = f"({SLEEP} & {SLEEP}) & {SLEEP}"
    server.add(called(("bash", {"cmd": tree, "timeout_seconds": 600})), said("Here I am again."))
    session = await tasks.session(ToolMode.coding)
    task = await tasks.put(session, "wait for long")
    async with working(harness):
        await until(lambda: len(running(SLEEP)) >= 3)
        told = await harness.run("tasks", "cancel", task.id)
        assert told.stdout == "cancelling; notified its worker\n"
        (cancelled,) = await tasks.ended(task.id)
        assert cancelled.status is TaskStatus.cancelled
        assert running(SLEEP) == []
        (result,) = harness.results()
        assert result["error_code"] == "CANCELLED"
        assert harness.only("tool_call.failed")["error_code"] == "CANCELLED"
        assert harness.only("task.cancelled")["task_id"] == task.id
        harness.assert_sound()
        after = await tasks.put(session, "are you there?")
        (done,) = await tasks.ended(after.id)
        assert done.status is TaskStatus.done
    assert [message["role"] for message in server.asked[-1].messages] == [
        *("system", "user", "assistant", "tool", "user"),
    ]
    assert harness.messages()[-1]["content"] == "Here I am again."
    harness.assert_sound()


async def test_a_cancel_while_the_model_thinks_hangs_up_on_it(harness, server, tasks):
    server.add(ModelAnswer(first=(HangForever(),)), said("Yes?"))
    session = await tasks.session()
    task = await tasks.put(session, "think")
    async with working(harness):
        await asyncio.wait_for(server.reached.wait(), 60)
        await harness.run("tasks", "cancel", task.id)
        await asyncio.wait_for(server.hung_up.wait(), 60)
        assert (await tasks.ended(task.id))[0].status is TaskStatus.cancelled
        after = await tasks.put(session, "are you there?")
        assert (await tasks.ended(after.id))[0].status is TaskStatus.done
    # Nothing was said to the first message, and a provider takes two of a person's in a row.
    assert [message["role"] for message in server.asked[-1].messages] == ["system", "user", "user"]
    harness.assert_sound()


async def test_a_task_that_waits_in_the_queue_is_cancelled_without_a_worker(harness, tasks):
    session = await tasks.session()
    task = await tasks.put(session, "never mind")
    assert (await harness.run("tasks", "cancel", task.id)).stdout == "cancelled\n"
    again = await harness.run("tasks", "cancel", task.id, expect=1)
    assert again.stderr == f"interlock: task {task.id} is already cancelled; nothing was changed\n"
    listed = json.loads((await harness.run("tasks", "list", "--json")).stdout)
    assert [(each["id"], each["status"]) for each in listed] == [(task.id, "cancelled")]


async def test_sessions_are_worked_on_side_by_side_and_messages_of_one_in_order(harness, tasks):
    """A message behind a running task is not told to that task's model, and is answered next."""
    both_asked = asyncio.Event()
    waiting: set[str] = set()

    def answer(asked: ModelRequest) -> ModelAnswer:
        words = last_words(asked)
        if not words.startswith("first"):
            return said(f"Answer to {words}.")
        waiting.add(words)
        if len(waiting) == 2:
            both_asked.set()
        # Long enough that the second message comes while the first is being answered.
        return ModelAnswer((Delay(1.5), *said(f"Answer to {words}.").steps))

    async with ModelServer(answer) as server:
        harness.asks(server)
        left, right = await tasks.session(), await tasks.session()
        put = [await tasks.put(left, "first left"), await tasks.put(right, "first right")]
        async with working(harness):
            await asyncio.wait_for(both_asked.wait(), 60)
            put += [
                await tasks.put(left, "second left"),
                await tasks.put(right, "second right"),
            ]
            assert {task.status for task in await tasks.ended(*(task.id for task in put))} == {
                TaskStatus.done
            }
        assert server.faults == []
        requests = {last_words(asked): asked.messages for asked in server.asked}
    assert len(server.asked) == 4
    for side, session in (("left", left), ("right", right)):
        assert [m["content"] for m in requests[f"first {side}"][1:]] == [f"first {side}"]
        assert [m["content"] for m in requests[f"second {side}"][1:]] == [
            *(f"first {side}", f"Answer to first {side}.", f"second {side}"),
        ]
        # It was stored when it came: before the answer to the first.
        assert [m["content"] for m in harness.messages(session)] == [
            *(f"first {side}", f"second {side}"),
            *(f"Answer to first {side}.", f"Answer to second {side}."),
        ]
        order = [event.kind for event in harness.events("task.started", "task.finished", session=session)]
        assert order == ["task.started", "task.finished"] * 2


async def test_what_is_said_while_a_worker_holds_the_session_is_followed(harness, server, tasks):
    """`exec --session` puts its task behind the running one, and shows how the worker answers it."""
    server.add(
        called(("bash", {"cmd": "sleep 6"})),
        said("The first is done."),
        said("The second is done."),
    )
    session = await tasks.session(ToolMode.coding)
    task = await tasks.put(session, "wait a little")
    async with working(harness):
        await tasks.reached(task.id, TaskStatus.running)
        ran = await harness.run("exec", "and then this", "--session", session)
    assert ran.stdout == "The second is done.\n"
    first, second = harness.query("SELECT who, status FROM tasks ORDER BY message_seq")
    assert (first[1], second[1]) == ("done", "done")
    started = [event.fields["worker"] for event in harness.events("task.started")]
    assert len(started) == 2
    assert len(set(started)) == 1


async def test_a_script_prints_its_own_answer_and_not_that_to_a_later_message(harness, server, tasks):
    """Who holds a session works on whatever is put into it meanwhile."""
    slow = ModelAnswer((Delay(1.5), *said("What the script asked for.").steps))
    server.add(slow, said("What somebody else asked for."))
    session = await tasks.session()
    script = await harness.start("exec", "the script's", "--session", session)
    await asyncio.wait_for(server.reached.wait(), 60)
    other = await tasks.put(session, "somebody else's")
    ran = await ended(script)
    assert ran.stdout == "What the script asked for.\n"
    assert (await tasks.ended(other.id))[0].status is TaskStatus.done
