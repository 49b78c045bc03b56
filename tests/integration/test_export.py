"""Exports: every line, in order, a page at a time, and what comes meanwhile is left out."""

import json

import pytest

from interlock.core.errors import SessionNotFound
from interlock.log import export as events_export
from interlock.log.checkpoint import write_checkpoint
from interlock.log.export import begin_event_export, export_events, read_event_export_page
from interlock.log.kinds import SYSTEM_STREAM, merge_payload
from interlock.sessions import export as session_export
from interlock.sessions.export import begin_session_export, export_session, read_session_export_page
from interlock.sessions.models import Role
from tests.harness.store import StoreHarness


@pytest.fixture(params=[1, 3, 500])
def page(request, monkeypatch) -> int:
    monkeypatch.setattr(events_export, "PAGE", request.param)
    monkeypatch.setattr(session_export, "PAGE", request.param)
    return request.param


async def talk(store: StoreHarness, messages: int = 6, identity: str = "talk") -> str:
    session = await store.sessions.create(opened_by="test", title="a", session_id=identity)
    for number in range(messages):
        await store.sessions.append_message(session.id, Role.user, f"message {number}")
    return session.id


def read(lines) -> list[dict]:
    lines = list(lines)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    return [json.loads(line) for line in lines]


async def test_a_session_is_its_line_its_messages_and_its_events(store, page):
    session = await talk(store)
    with store.database.reading() as connection:
        told = read(export_session(connection, session))
    assert [line["type"] for line in told] == ["session"] + ["message"] * 6 + ["event"] * 7
    assert (told[0]["id"], told[0]["title"], told[0]["last_seq"]) == ("talk", "a", 7)
    assert [line["content"] for line in told[1:7]] == [f"message {number}" for number in range(6)]
    assert [line["seq"] for line in told[7:]] == [1, 2, 3, 4, 5, 6, 7]
    assert merge_payload(told[7]["facts"], told[7]["content"])["title"] == "a"
    assert len(told[7]["hash"]) == 64


async def test_what_is_said_during_an_export_is_not_half_in_it(store, page):
    session = await talk(store, 3)
    with store.database.reading() as connection:
        told, place = begin_session_export(connection, session)
    while place is not None:
        await store.sessions.append_message(session, Role.user, "later")
        with store.database.reading() as connection:
            lines, place = read_session_export_page(connection, place)
        told += lines
    assert [(line["type"], line.get("seq")) for line in read(told)] == [
        ("session", None),
        *(("message", seq) for seq in (2, 3, 4)),
        *(("event", seq) for seq in (1, 2, 3, 4)),
    ]


async def test_a_session_that_is_not_there_is_refused_at_once(store):
    gone = await talk(store)
    await store.delete(gone, who="test")
    for session in (gone, "nobody"):
        with store.database.reading() as connection, pytest.raises(SessionNotFound):
            next(export_session(connection, session))


async def test_events_are_exported_of_one_stream_or_of_all(store, page):
    await talk(store, 2, "a")
    await talk(store, 3, "b")
    await write_checkpoint(store.log)
    with store.database.reading() as connection:
        every = read(export_events(connection))
        one = read(export_events(connection, "b"))
        system = read(export_events(connection, SYSTEM_STREAM))
        assert read(export_events(connection, "nobody")) == []
    assert len(every) == 8
    assert [(line["stream"], line["seq"]) for line in one] == [("b", seq) for seq in (1, 2, 3, 4)]
    assert [line["kind"] for line in system] == ["log.checkpoint"]
    assert sorted((line["stream"], line["seq"]) for line in every if line["stream"] == "b") == [
        ("b", seq) for seq in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("stream", ["talk", None])
async def test_an_export_of_events_ends_where_the_log_ended_when_it_began(store, page, stream):
    await talk(store, 4)
    with store.database.reading() as connection:
        place = begin_event_export(connection, stream)
    told = []
    while place is not None:
        await store.sessions.append_message("talk", Role.user, "later")
        with store.database.reading() as connection:
            lines, place = read_event_export_page(connection, place)
        told += lines
    assert [line["seq"] for line in read(told)] == [1, 2, 3, 4, 5]
