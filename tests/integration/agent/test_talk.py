"""A conversation of one process while others hold its session, die, or have put tasks before."""

import asyncio
import itertools
import os
import signal
import sqlite3
from contextlib import closing, contextmanager

import pytest

from interlock.agent.events import (
    TaskEnded,
    TextDelta,
    ToolCallInfo,
    ToolDenied,
    ToolResultInfo,
    TurnCompleted,
)
from interlock.channels.terminal import local_session as talking
from interlock.core.errors import SessionBusy, StoreUnavailable
from interlock.log.writer import EventLog
from interlock.runtime.task_rows import Task, TaskStatus
from tests.harness.log_capture import capture_logs
from tests.harness.runtime import call, open_runtime_harness, script


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(talking, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(talking, "TAKE_SECONDS", 0.1)


def text_of(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_an_output_that_is_closed_ends_no_task(tmp_path, monkeypatch):
    def closed(_event):
        raise BrokenPipeError

    async with open_runtime_harness(
        tmp_path, monkeypatch, {"MODEL": script(tmp_path, "msg:Hello.")}
    ) as harness:
        session = await harness.session()
        talk = harness.talk(session)
        talk._show = closed
        with capture_logs() as logs, pytest.raises(BrokenPipeError):
            await talk.say("go")
        [task] = await harness.agent_runtime.tasks.list_tasks(session_id=session)
        assert task.status is TaskStatus.done
        assert [line for line in logs if line["log_level"] == "error"] == []


async def test_what_another_process_works_on_is_followed_by_the_log(tmp_path, monkeypatch):
    steps = {"msg": "Let me see.", "tool_calls": [call("current_time"), call("read_file", path="../x")]}
    model = script(tmp_path, steps, "msg:It is noon.")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session()
        other = await harness.agent_runtime.runtime.leases.take(session, "another")
        saying = asyncio.create_task(harness.say(session))
        while not await harness.agent_runtime.tasks.list_tasks(session_id=session):
            await asyncio.sleep(0.01)
        await harness.agent_runtime.session_runner().run(other)
        # It keeps the session, so that whoever talks can only follow.
        assert (await saying).status is TaskStatus.done
        assert text_of(harness.shown) == "Let me see.It is noon."
        # A text may come in several deltas.
        kinds = [kind for kind, _ in itertools.groupby(map(type, harness.shown))]
        assert kinds[:2] + kinds[4:] == [
            *(TextDelta, ToolCallInfo),
            *(TurnCompleted, TextDelta, TurnCompleted, TaskEnded),
        ]
        # They run side by side.
        assert set(kinds[2:4]) == {ToolResultInfo, ToolDenied}
        await harness.agent_runtime.runtime.leases.release(other)


async def test_a_session_whose_holder_died_is_taken_over(tmp_path, monkeypatch):
    variables = {"MODEL": script(tmp_path, "msg:Here I am."), "SESSION_LEASE_SECONDS": "1"}
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as harness:
        session = await harness.session()
        assert await harness.agent_runtime.runtime.leases.take(session, "somebody who dies")
        assert (await harness.say(session)).status is TaskStatus.done
        assert text_of(harness.shown) == "Here I am."


async def test_what_was_put_though_its_answer_got_lost_is_one_task(tmp_path, monkeypatch):
    async with open_runtime_harness(
        tmp_path, monkeypatch, {"MODEL": script(tmp_path, "msg:Once.")}
    ) as harness:
        session, real, asked = await harness.session(), EventLog.transact, []

        async def unheard(log, stream, work, **more):
            done = await real(log, stream, work, **more)
            if isinstance(done, Task) and not asked:
                asked.append(done.id)
                raise StoreUnavailable("the connection was lost")
            return done

        monkeypatch.setattr(EventLog, "transact", unheard)
        task = await harness.say(session)
        assert (task.status, [task.id]) == (TaskStatus.done, asked)
        assert len(await harness.agent_runtime.tasks.list_tasks(session_id=session)) == 1


async def test_a_full_queue_refuses_what_is_said(tmp_path, monkeypatch):
    async with open_runtime_harness(tmp_path, monkeypatch, {"SESSION_QUEUE_LIMIT": "1"}) as harness:
        session = await harness.session()
        await harness.agent_runtime.tasks.put(session, "one", who="test")
        with pytest.raises(SessionBusy, match="1 messages are already queued"):
            await harness.say(session, "two")


async def test_what_was_put_before_is_worked_on_first(tmp_path, monkeypatch):
    model = script(tmp_path, "msg:to one", "msg:to two")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session()
        earlier = await harness.agent_runtime.tasks.put(session, "one", who="test")
        task = await harness.say(session, "two")
        assert (await harness.agent_runtime.tasks.get(earlier.id)).status is TaskStatus.done
        assert task.status is TaskStatus.done
        assert [m.content for m in await harness.transcript(session)][-1] == "to two"


async def test_a_question_of_an_earlier_task_comes_before_what_is_said(tmp_path, monkeypatch):
    ask = {"tool_calls": [call("ask_user", type="confirmation", message="Shall I?")]}
    model = script(tmp_path, ask, "msg:to one", "msg:to two")
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session()
        earlier = await harness.agent_runtime.tasks.put(session, "one", who="test")
        talk = harness.talk(session)
        held_up = await talk.say("two")
        assert (held_up.id, held_up.status) == (earlier.id, TaskStatus.waiting)
        await talk.answer(await talk.open_question(held_up), {"confirmed": True})
        tasks = await harness.agent_runtime.tasks.list_tasks(session_id=session)
        assert [task.status for task in tasks] == [TaskStatus.done, TaskStatus.done]


async def until_asked(harness, session: str) -> None:
    while not harness.payloads(session, "agent.started"):
        await asyncio.sleep(0.01)


async def test_an_interrupt_cancels_the_task_at_work_and_nothing_after_it(tmp_path, monkeypatch):
    slow = {"sleep_ms": 60_000, "msg": "too late"}
    model = script(tmp_path, slow)
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model, "MODELS": "demo"}) as harness:
        session = await harness.session()
        talk = harness.talk(session)
        saying = asyncio.create_task(talk.say("go"))
        await until_asked(harness, session)
        os.kill(os.getpid(), signal.SIGINT)
        assert (await saying).status is TaskStatus.cancelled
        # Whoever interrupts a task twice does not wait for it; that is over with the task.
        talk._work.hurry()
        await harness.agent_runtime.runtime.sessions.choose_model(session, "demo", who="test")
        for _ in range(2):
            assert (await talk.say("hello")).status is TaskStatus.done


async def test_an_interrupt_cancels_what_runs_and_not_what_is_queued_behind_it(tmp_path, monkeypatch):
    model = script(tmp_path, {"sleep_ms": 60_000, "msg": "too late"})
    async with open_runtime_harness(tmp_path, monkeypatch, {"MODEL": model}) as harness:
        session = await harness.session()
        earlier = await harness.agent_runtime.tasks.put(session, "one", who="test")
        saying = asyncio.create_task(harness.say(session, "two"))
        await until_asked(harness, session)
        os.kill(os.getpid(), signal.SIGINT)
        while not (await harness.agent_runtime.tasks.get(earlier.id)).status.is_end:
            await asyncio.sleep(0.01)
        assert (await harness.agent_runtime.tasks.get(earlier.id)).status is TaskStatus.cancelled
        while len(harness.payloads(session, "agent.started")) < 2:
            await asyncio.sleep(0.01)
        assert not saying.done()
        os.kill(os.getpid(), signal.SIGINT)
        assert (await saying).status is TaskStatus.cancelled


@contextmanager
def locked(harness):
    """The store is another process's for a while."""
    with closing(sqlite3.connect(harness.agent_runtime.runtime.database.config.path)) as locker:
        locker.execute("BEGIN IMMEDIATE")
        yield


def events_in(logs) -> list[str]:
    return [line["event"] for line in logs]


async def test_a_cancel_of_what_another_process_works_on_waits_for_the_store(tmp_path, monkeypatch):
    variables = {"MODEL": script(tmp_path, "msg:never"), "DATABASE_BUSY_TIMEOUT_SECONDS": "0.1"}
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as harness:
        session = await harness.session()
        other = await harness.agent_runtime.runtime.leases.take(session, "another")
        saying = asyncio.create_task(harness.say(session))
        while not (tasks := await harness.agent_runtime.tasks.list_tasks(session_id=session)):
            await asyncio.sleep(0.01)
        await harness.agent_runtime.tasks.start(tasks[0].id, other)
        with locked(harness), capture_logs() as logs:
            os.kill(os.getpid(), signal.SIGINT)
            while "cancel_waits_for_the_store" not in events_in(logs):
                await asyncio.sleep(0.01)
        while not (await harness.agent_runtime.tasks.get(tasks[0].id)).is_cancel_requested:
            await asyncio.sleep(0.01)
        await harness.agent_runtime.session_runner().run(other)
        assert (await saying).status is TaskStatus.cancelled
        await harness.agent_runtime.runtime.leases.release(other)


async def followed(harness, session: str, **how: bool):
    """Somebody else works on a task, and another one is said behind it."""
    other = await harness.agent_runtime.runtime.leases.take(session, "another")
    ahead = await harness.agent_runtime.tasks.put(session, "one", who="test")
    await harness.agent_runtime.tasks.start(ahead.id, other)
    saying = asyncio.create_task(harness.talk(session).say("two", **how))
    while len(found := await harness.agent_runtime.tasks.list_tasks(session_id=session)) < 2:
        await asyncio.sleep(0.01)
    # Until whoever said it knows of it as well.
    await asyncio.sleep(0.1)
    return other, ahead.id, found[0].id, saying


async def test_an_interrupt_of_who_follows_cancels_what_runs_and_then_what_was_said(tmp_path, monkeypatch):
    async with open_runtime_harness(
        tmp_path, monkeypatch, {"MODEL": script(tmp_path, "msg:never")}
    ) as harness:
        tasks, session = harness.agent_runtime.tasks, await harness.session()
        other, ahead, said, saying = await followed(harness, session)
        os.kill(os.getpid(), signal.SIGINT)
        while not (await tasks.get(ahead)).is_cancel_requested:
            await asyncio.sleep(0.01)
        assert (await tasks.get(said)).status is TaskStatus.queued
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        assert (await saying).status is TaskStatus.cancelled
        await harness.agent_runtime.runtime.leases.release(other)


async def test_whoever_gives_up_one_task_alone_gives_up_that_one(tmp_path, monkeypatch):
    async with open_runtime_harness(
        tmp_path, monkeypatch, {"MODEL": script(tmp_path, "msg:never")}
    ) as harness:
        session = await harness.session()
        other, ahead, said, saying = await followed(harness, session, leaves_nothing=True)
        os.kill(os.getpid(), signal.SIGINT)
        ended = await saying
        assert (ended.id, ended.status) == (said, TaskStatus.cancelled)
        assert not (await harness.agent_runtime.tasks.get(ahead)).is_cancel_requested
        await harness.agent_runtime.runtime.leases.release(other)


async def test_whoever_interrupts_again_leaves_and_is_told_what_was_not_written(tmp_path, monkeypatch):
    heard = []
    monkeypatch.setattr(signal, "default_int_handler", lambda *_: heard.append("left"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    variables = {"MODEL": script(tmp_path, "msg:never"), "DATABASE_BUSY_TIMEOUT_SECONDS": "0.1"}
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as harness:
        session = await harness.session()
        other = await harness.agent_runtime.runtime.leases.take(session, "another")
        saying = asyncio.create_task(harness.say(session))
        while not await harness.agent_runtime.tasks.list_tasks(session_id=session):
            await asyncio.sleep(0.01)
        with locked(harness), capture_logs() as logs:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(0.05)
            assert heard == ["left"]
            # As the runner of a program does it then.
            saying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saying
        assert events_in(logs)[-1] == "cancel_not_written"
        await harness.agent_runtime.runtime.leases.release(other)
    # What was there before is there again.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)
