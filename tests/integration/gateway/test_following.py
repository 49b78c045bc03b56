"""Following a session: nothing missed, nothing doubled, the running text included."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from interlock.log.hash_chain import now_us
from interlock.log.retention import RetentionSweeper
from interlock.sessions.models import Role
from interlock.wiring import open_runtime
from tests.harness.gateway import ends, task_of, text_of
from tests.harness.model_answers import Delay, HangForever, called, said
from tests.harness.model_server import KEY, ModelServer

SCRIPT = json.dumps(
    [
        "call:current_time {}",
        {"msg": "Let me look.", "tool_calls": [{"name": "read_file", "arguments": {"path": "a"}}]},
        "msg:That is all.",
    ]
)


@asynccontextmanager
async def answering(open_harness, *answers, **more: str):
    """A house whose model is a server on a socket of its own."""
    async with ModelServer(list(answers)) as server:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url, "OPENAI_MODEL": "m"}
        yield await open_harness(MODEL="openai", **environment, **more)


async def new_session(client) -> str:
    return (await client.ask("session.create", title="t"))["session"]["id"]


def told(frames, session_id: str) -> list[dict]:
    """What belongs to the session, without what differs from socket to socket."""
    kept = [frame for frame in frames if frame["session_id"] == session_id]
    return [{name: value for name, value in frame.items() if name != "id"} for frame in kept]


def stored(frames) -> list[tuple]:
    """Frames as they are told from the log alone: live pieces of text taken into the one they end in."""
    return [
        (frame["type"], frame["seq"], frame["data"].get("call_id"))
        for frame in frames
        if frame["seq"] is not None or frame["type"] != "stream_chunk"
    ]


def numbers(frames) -> list[int]:
    return [frame["seq"] for frame in frames if frame["seq"] is not None]


async def test_the_numbers_that_arrive_have_no_gaps(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    client = await harness.connect()
    session_id = await new_session(client)
    await client.ask("session.subscribe", session_id=session_id)
    await client.talk(session_id, "go")
    last = (await client.ask("session.get", session_id=session_id))["session"]["last_seq"]
    await client.until(lambda frame: frame["seq"] == last)
    assert numbers(told(client.frames, session_id)) == list(range(1, last + 1))


async def test_only_who_asked_sees_the_id(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    one, other = await harness.connect(), await harness.connect()
    session_id = await new_session(one)
    await other.ask("session.subscribe", session_id=session_id)
    frames = await one.talk(session_id, "go")
    task_id = task_of(frames)
    end = await other.until_end(task_id)
    assert end["id"] is None
    assert all(frame["id"] is None for frame in other.frames if frame["session_id"] == session_id)
    kinds = {frame["type"] for frame in frames}
    assert {"response", "event", "stream_chunk", "tool_call", "tool_result", "tool_denied"} <= kinds


async def test_two_windows_are_told_the_same(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    one, other = await harness.connect(), await harness.connect()
    session_id = await new_session(one)
    for client in (one, other):
        await client.ask("session.subscribe", session_id=session_id)
    await one.talk(session_id, "go")
    last = (await one.ask("session.get", session_id=session_id))["session"]["last_seq"]
    for client in (one, other):
        await client.until(lambda frame: frame["seq"] == last)
    assert told(one.frames, session_id) == told(other.frames, session_id)


async def test_who_comes_back_goes_on_where_it_was(open_harness):
    """Cut off after every single number in turn, it ends up with what an uninterrupted one has."""
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    witness = await harness.connect()
    session_id = await new_session(witness)
    await witness.ask("session.subscribe", session_id=session_id)
    await witness.talk(session_id, "go")
    last = (await witness.ask("session.get", session_id=session_id))["session"]["last_seq"]
    await witness.until(lambda frame: frame["seq"] == last)
    whole = stored(told(witness.frames, session_id))
    for cut in range(last + 1):
        client = await harness.connect()
        await client.ask("session.subscribe", session_id=session_id, after_seq=cut)
        if cut < last:
            await client.until(lambda frame: frame["seq"] == last)
        rest = stored(told(client.frames, session_id))
        begin = next((at + 1 for at, frame in enumerate(whole) if frame[1] == cut), 0)
        assert rest == whole[begin:]
        await client.close()


async def test_reload_in_the_middle_of_an_answer(open_harness):
    """The newcomer is given the text from its beginning, and the rest as it comes; once each."""
    text = "The answer is long. " * 40
    answer = said(text, size=20)
    slow = answer.steps[:10] + tuple(step for each in answer.steps[10:] for step in (Delay(0.02), each))
    async with answering(open_harness, type(answer)(slow)) as harness:
        one = await harness.connect()
        session_id = await new_session(one)
        identity = await one.send("chat.send", session_id=session_id, content="tell me")
        task_id = (await one.answer_to(identity))["task"]["id"]
        await one.until(lambda frame: frame["type"] == "stream_chunk" and frame["data"]["offset"] > 100)
        seq = max(numbers(one.frames))
        reloaded = await harness.connect()
        await reloaded.ask("session.subscribe", session_id=session_id, after_seq=seq)
        await one.close()
        await reloaded.until_end(task_id)
    pieces = [frame for frame in reloaded.frames if frame["type"] == "stream_chunk"]
    assert pieces[0]["data"]["offset"] == 0
    assert len(pieces[0]["data"]["content"]) > 100
    assert text_of(reloaded.frames) == text
    at = 0
    for piece in pieces[:-1]:
        assert piece["data"]["offset"] == at, "a piece was missed or told twice"
        at += len(piece["data"]["content"])
    assert at == len(text)


async def test_text_never_comes_before_what_led_to_it(open_harness):
    """The result of a call, and the turn that follows it, are told before that turn's text."""
    answers = [called(("current_time", {}), ids="one"), said("It is late. " * 20, size=3)]
    async with answering(open_harness, *answers) as harness:
        client = await harness.connect()
        session_id = await new_session(client)
        frames = await client.talk(session_id, "what time is it")
    order = [
        "result" if frame["type"] == "tool_result" else "text" if frame["type"] == "stream_chunk" else ""
        for frame in frames
    ]
    assert "result" in order
    assert "text" not in order[: order.index("result")]


async def test_a_result_is_told_once_although_the_model_gets_it_with_a_note(open_harness):
    """A model that repeats a call is given its result with a hint, in place of the outcome's own."""
    answers = [called(("current_time", {}), ids=f"again {number}") for number in range(2)]
    async with answering(open_harness, *answers, said("Done.")) as harness:
        client = await harness.connect()
        session_id = await new_session(client)
        frames = await client.talk(session_id, "look again and again")
        transcript = await harness.runtime.sessions.transcript(session_id)
    results = [frame["data"]["call_id"] for frame in frames if frame["type"] == "tool_result"]
    assert len(results) == len(set(results)) == 2
    assert '"note"' in [message.content for message in transcript if message.role == "tool"][-1]


async def test_what_another_process_writes_is_told_too(harness, monkeypatch):
    client = await harness.connect()
    session_id = await new_session(client)
    await client.ask("session.subscribe", session_id=session_id)
    other = open_runtime(harness.runtime.settings)
    try:
        await other.sessions.append_message(session_id, Role.user, "from elsewhere")
    finally:
        await other.close()
    frame = await client.until(lambda frame: frame["data"].get("kind") == "message.appended")
    assert frame["data"]["message"] == {"role": "user", "content": "from elsewhere"}


async def test_only_the_newest_are_told_when_asked_so(harness):
    client = await harness.connect()
    session_id = await new_session(client)
    for number in range(30):
        await client.ask("session.rename", session_id=session_id, title=f"title {number}")
    second = await harness.connect()
    given = await second.ask("session.subscribe", session_id=session_id, last=5)
    assert given == {"from_seq": 26, "last_seq": 31}
    assert numbers(told(second.frames, session_id)) == [27, 28, 29, 30, 31]
    earlier = await second.ask("session.earlier", session_id=session_id, before_seq=27, limit=10)
    assert [frame["seq"] for frame in earlier["frames"]] == list(range(17, 27))
    assert earlier["from_seq"] == 16


async def test_a_message_sent_while_it_joins_does_not_tell_anything_twice(open_harness):
    """Subscribing from far back and sending at once, on one socket: every number once, in order."""
    harness = await open_harness(MODEL="scripted:" + json.dumps(["msg:ok"] * 50))
    one = await harness.connect()
    session_id = await new_session(one)
    for number in range(20):
        await one.ask("session.rename", session_id=session_id, title=f"title {number}")
    for _ in range(5):
        client = await harness.connect()
        joining = await client.send("session.subscribe", session_id=session_id, after_seq=0)
        sending = await client.send("chat.send", session_id=session_id, content="go")
        await client.answer_to(joining)
        task = (await client.answer_to(sending))["task"]
        end = await client.until_end(task["id"])
        seen = numbers(told(client.frames, session_id))
        assert seen == list(range(1, end["seq"] + 1))
        await client.close()


async def test_what_is_asked_about_following_is_done_in_order(harness):
    client = await harness.connect()
    session_id = await new_session(client)
    for _ in range(10):
        await client.send("session.subscribe", session_id=session_id)
        leaving = await client.send("session.unsubscribe", session_id=session_id)
        await client.answer_to(leaving)
    before = len(client.frames)
    await client.ask("session.rename", session_id=session_id, title="another")
    await asyncio.sleep(0.7)
    assert [frame["type"] for frame in client.frames[before:]] == ["response"]


async def test_who_left_hears_no_more(harness):
    client = await harness.connect()
    session_id = await new_session(client)
    await client.ask("session.subscribe", session_id=session_id)
    await client.ask("session.unsubscribe", session_id=session_id)
    before = len(client.frames)
    await client.ask("session.rename", session_id=session_id, title="another")
    await asyncio.sleep(0.7)
    assert [frame["type"] for frame in client.frames[before:]] == ["response"]


async def test_a_message_sent_twice_is_one_task(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    client = await harness.connect()
    session_id = await new_session(client)
    given = {"session_id": session_id, "content": "go", "task_id": "t_00112233445566aa"}
    first, second = await asyncio.gather(client.ask("chat.send", **given), client.ask("chat.send", **given))
    assert first["task"]["id"] == second["task"]["id"] == given["task_id"]
    await client.until_end(given["task_id"])
    again = await client.ask("chat.send", **given)
    assert again["task"]["status"] == "done"
    assert len((await client.ask("tasks.list", session_id=session_id))["tasks"]) == 1


@pytest.mark.parametrize(
    ("script", "environment", "code"),
    [
        (["err:auth"], {}, "LLM_ERROR"),
        (["call:current_time {}"] * 5, {"CONTROL_MAX_TURNS": "2"}, "LIMIT_REACHED"),
    ],
)
async def test_how_a_task_fails_is_told_by_its_code(open_harness, script, environment, code):
    harness = await open_harness(MODEL=f"scripted:{json.dumps(script)}", **environment)
    client = await harness.connect()
    frames = await client.talk(await new_session(client), "go")
    assert frames[-1]["type"] == "error"
    assert frames[-1]["data"]["code"] == code
    assert frames[-1]["data"]["message"]


async def test_refused_calls_end_in_an_answer(open_harness):
    """S0-4.2.4: no error, but text; the limit is told by its event."""
    refused = [f'call:read_file {{"path": "{name}"}}' for name in "abc"]
    harness = await open_harness(MODEL=f"scripted:{json.dumps([*refused, 'msg:I may not read here.'])}")
    client = await harness.connect()
    session_id = await new_session(client)
    frames = await client.talk(session_id, "go")
    kinds = [frame["type"] for frame in frames]
    assert kinds.count("tool_denied") == 3
    assert "error" not in kinds
    assert (frames[-1]["type"], frames[-1]["data"]["done"]) == ("stream_chunk", True)
    assert text_of(frames[len(kinds) - 1 - kinds[::-1].index("tool_denied") :]) == "I may not read here."
    events = [frame["data"]["kind"] for frame in frames if frame["type"] == "event"]
    assert events.count("control.limit_reached") == 1


async def test_a_model_that_fails_after_refused_calls_is_told_as_the_models_fault(open_harness):
    refused = [f'call:read_file {{"path": "{name}"}}' for name in "abc"]
    harness = await open_harness(MODEL=f"scripted:{json.dumps([*refused, 'err:auth'])}")
    client = await harness.connect()
    frames = await client.talk(await new_session(client), "go")
    assert frames[-1]["data"]["code"] == "LLM_ERROR"


async def test_a_cancelled_task_ends_with_an_error(open_harness):
    harness = await open_harness(MODEL='scripted:["sleep:20000"]')
    client = await harness.connect()
    session_id = await new_session(client)
    identity = await client.send("chat.send", session_id=session_id, content="go")
    task = (await client.answer_to(identity))["task"]
    await client.until(lambda frame: frame["data"].get("kind") == "agent.started")
    await client.ask("chat.cancel", session_id=session_id)
    end = await client.until_end(task["id"])
    assert (end["id"], end["data"]["code"]) == (identity, "CANCELLED")


async def test_what_was_shown_before_a_cancel_stays(open_harness):
    answer = said("This much was said. ", size=4)
    async with answering(open_harness, type(answer)((*answer.steps[:5], HangForever()))) as harness:
        client = await harness.connect()
        session_id = await new_session(client)
        task = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]
        await client.until(lambda frame: text_of(client.frames).startswith("This much was "))
        await client.ask("chat.cancel", session_id=session_id)
        await client.until_end(task["id"])
        later = await harness.connect()
        await later.ask("session.subscribe", session_id=session_id)
        assert text_of(later.frames) == text_of(client.frames)
        history = (await later.ask("chat.history", session_id=session_id))["messages"]
        assert [message["content"] for message in history] == ["go", text_of(client.frames)]


async def test_of_what_was_erased_only_the_numbers_are_told(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    client = await harness.connect()
    session_id = await new_session(client)
    await client.talk(session_id, "go")
    runtime, in_a_month = harness.runtime, now_us() + 30 * 86_400_000_000
    swept = await RetentionSweeper(runtime.log, runtime.database, 7, clock_us=lambda: in_a_month).sweep()
    assert swept.events > 8
    later = await harness.connect()
    given = await later.ask("session.subscribe", session_id=session_id)
    frames = told(later.frames, session_id)
    assert numbers(frames) == list(range(1, given["last_seq"] + 1))
    assert {frame["type"] for frame in frames} == {"event"}
    assert (await later.ask("chat.history", session_id=session_id))["messages"] == []
    [task] = (await later.ask("tasks.list", session_id=session_id))["tasks"]
    assert task["status"] == "done"


async def test_an_answer_brings_the_task_back(open_harness):
    question = {"type": "confirmation", "message": "Go on?"}
    script = json.dumps([f"call:ask_user {json.dumps(question)}", "msg:Thank you."])
    harness = await open_harness(MODEL=f"scripted:{script}")
    client = await harness.connect()
    session_id = await new_session(client)
    await client.send("chat.send", session_id=session_id, content="go")
    asked = await client.until(lambda frame: frame["type"] == "ask_user")
    assert asked["data"]["question"]["message"] == "Go on?"
    await client.until(lambda frame: frame["data"].get("kind") == "task.waiting")
    identity = await client.send(
        "ask_user.answer", question_id=asked["data"]["question_id"], answer={"confirmed": True}
    )
    await client.answer_to(identity)
    end = await client.until_end(asked["data"]["task_id"])
    assert end["id"] == identity
    assert text_of(client.frames) == "Thank you."
    kinds = [frame["data"].get("kind") for frame in client.of("event")]
    assert "ask_user.answered" in kinds


async def test_a_full_queue_says_so(open_harness):
    harness = await open_harness(MODEL='scripted:["sleep:20000"]', SESSION_QUEUE_LIMIT="2")
    client = await harness.connect()
    session_id = await new_session(client)
    answers = await asyncio.gather(
        *(client.ask("chat.send", session_id=session_id, content="go") for _ in range(6)),
        return_exceptions=True,
    )
    codes = [answer.code for answer in answers if isinstance(answer, Exception)]
    assert codes
    assert set(codes) == {"SESSION_BUSY"}
    for task in (await client.ask("tasks.list", session_id=session_id))["tasks"]:
        await client.ask("tasks.cancel", task_id=task["id"])


async def test_requests_do_not_wait_for_one_another(open_harness):
    """A task goes on while other things are asked on the same socket."""
    harness = await open_harness(MODEL='scripted:["sleep:3000"]')
    client = await harness.connect()
    session_id = await new_session(client)
    task = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]
    answers = await asyncio.gather(
        *(client.ask(method) for method in ("server.info", "session.list", "settings.get", "stats.get"))
    )
    assert all(answers)
    assert not [frame for frame in client.frames if ends(frame, task["id"])]
    await client.ask("chat.cancel", session_id=session_id)
    await client.until_end(task["id"])


async def test_text_is_shown_while_a_model_pauses(open_harness):
    """However few words it has written: they are scanned for secrets when no more come."""
    answer = said("It is so. ", size=3)
    async with answering(open_harness, type(answer)((*answer.steps[:4], HangForever()))) as harness:
        client = await harness.connect()
        session_id = await new_session(client)
        task = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]
        await client.until(lambda frame: text_of(client.frames) == "It is ")
        await client.ask("chat.cancel", session_id=session_id)
        await client.until_end(task["id"])
