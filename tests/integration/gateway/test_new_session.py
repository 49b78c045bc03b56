"""`chat.send` without a session makes one with its first message, in one transaction, or none at all."""

import asyncio
import json

import pytest

from interlock.core.errors import SessionBusy
from interlock.gateway.methods.chat import MAX_CONTENT_CHARS
from interlock.runtime.tasks import TaskService
from tests.harness.gateway import RequestRefused, text_of

SCRIPT = json.dumps(["msg:Hello.", "msg:Again."])


async def sessions(client) -> list[dict]:
    return (await client.ask("session.list"))["sessions"]


async def test_a_message_without_a_session_makes_one_and_its_frames_come_back(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    client = await harness.connect()
    identity = await client.send("chat.send", content="tell me\nsomething")
    answer = await client.answer_to(identity)
    session = answer["session"]
    assert answer["task"]["session_id"] == session["id"]
    assert (session["title"], session["mode"]) == ("tell me something", "chat_safe")
    await client.until_end(answer["task"]["id"])
    own = [frame for frame in client.frames if frame["id"] == identity and frame["type"] != "response"]
    assert text_of(own) == "Hello."
    assert {frame["session_id"] for frame in own} == {session["id"]}
    told = [frame for frame in client.frames if frame["session_id"] == session["id"] and frame["seq"]]
    assert [frame["seq"] for frame in told] == sorted(frame["seq"] for frame in told)
    assert told[0]["data"]["kind"] == "session.created"
    assert [each["id"] for each in await sessions(client)] == [session["id"]]

    # From here on it is followed like any other.
    again = await client.ask("chat.send", session_id=session["id"], content="and again")
    assert "session" not in again
    await client.until_end(again["task"]["id"])
    assert text_of([f for f in client.frames if f["session_id"] == session["id"]]) == "Again."


@pytest.mark.parametrize(
    "params",
    [
        {"content": " \n"},
        {"content": ""},
        {"content": "x" * (MAX_CONTENT_CHARS + 1)},
        {"content": "go", "task_id": "mine"},
        {"content": "go", "session_id": ""},
        {"content": "go", "mode": "coding"},
    ],
)
async def test_a_message_that_is_refused_makes_no_session(open_harness, params):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    client = await harness.connect()
    with pytest.raises(RequestRefused):
        await client.ask("chat.send", **params)
    assert await sessions(client) == []


async def test_a_message_beyond_the_rate_makes_no_session(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}", GATEWAY_REQUESTS_PER_SECOND="2")
    client = await harness.connect()
    sent = [await client.send("chat.send", content=f"number {number}") for number in range(12)]
    answers = await asyncio.gather(*map(client.answer_to, sent), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, RequestRefused)]
    assert refused
    assert {answer.code for answer in refused} == {"RATE_LIMITED"}
    rows = await harness.runtime.sessions.list_sessions()
    assert len(rows) == len(answers) - len(refused)


async def test_a_socket_that_follows_as_many_as_it_may_makes_no_session(open_harness, monkeypatch):
    monkeypatch.setattr("interlock.gateway.methods.chat.MAX_SUBSCRIPTIONS", 8)
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}", GATEWAY_REQUESTS_PER_SECOND="1000")
    client = await harness.connect()
    for _ in range(8):
        made = await harness.runtime.sessions.create(opened_by="test")
        await client.ask("session.subscribe", session_id=made.id)
    with pytest.raises(RequestRefused, match="can follow at most"):
        await client.ask("chat.send", content="one more")
    rows = await harness.runtime.sessions.list_sessions(limit=1000)
    assert len(rows) == 8


async def test_what_fails_after_the_session_was_made_takes_it_back(open_harness, monkeypatch):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    client = await harness.connect()

    def refuse(*_given, **_named):
        raise SessionBusy("not now")

    monkeypatch.setattr(TaskService, "_put_within", refuse)
    with pytest.raises(RequestRefused, match="not now"):
        await client.ask("chat.send", content="go")
    assert await sessions(client) == []
    assert await harness.runtime.database.read(
        lambda db: db.query("SELECT count(*) FROM stream_heads WHERE stream <> 'system'")
    ) == [(0,)]


async def test_a_message_sent_twice_makes_one_session(open_harness):
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}")
    client, other = await harness.connect(), await harness.connect()
    given = {"content": "go", "task_id": "t_00112233445566aa"}
    answers = await asyncio.gather(*(each.ask("chat.send", **given) for each in (client, client, other)))
    assert {answer["task"]["id"] for answer in answers} == {given["task_id"]}
    assert len({answer["session"]["id"] for answer in answers}) == 1
    for each in (client, other):
        await each.until_end(given["task_id"])
    assert len(await sessions(client)) == 1


async def test_no_part_of_a_secret_is_in_the_title(open_harness):
    secret = "hunter2-hunter2-hunter2"
    harness = await open_harness(MODEL=f"scripted:{SCRIPT}", OPENAI_API_KEY=secret)
    client = await harness.connect()
    answer = await client.ask("chat.send", content=f"{'a ' * 25}{secret}")
    assert "hunter2" not in answer["session"]["title"]
