"""Sessions on both databases: transcript, history, modes, deletion (S0-5, S1-B, S1-S3, S1-S4)."""

import asyncio
import threading

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ModeNotOpen, SessionNotFound, StoreConflict, StoreError, UserError
from interlock.log.read import read_stream
from interlock.redaction.redactor import MARK, Redactor
from interlock.sessions.erasure import SessionEraser
from interlock.sessions.models import Role, SessionKind, SessionListFilter
from interlock.wiring.projections import verify
from tests.harness.log_capture import capture_logs
from tests.harness.store import open_store


async def test_a_new_session_is_chat_safe_and_told(store):
    session = await store.sessions.create(opened_by="cli", kind=SessionKind.agent, title="  a \n b ")
    assert (session.kind, session.title, session.stored_mode) == ("agent", "a b", "chat_safe")
    with store.database.reading() as connection:
        (event,) = read_stream(connection, session.id)
    assert event.event().opened_by == "cli"
    assert event.event().mode == "chat_safe"


async def test_messages_and_events_share_one_numbering(store):
    session = await store.sessions.create(opened_by="test")
    first = await store.sessions.append_message(session.id, Role.user, "hello")
    await store.sessions.rename(session.id, "greetings", who="test")
    second = await store.sessions.append_message(session.id, Role.assistant, "hi")
    assert (first.seq, second.seq) == (2, 4)
    assert [m.seq for m in await store.sessions.transcript(session.id)] == [2, 4]
    assert (await store.sessions.get(session.id)).title == "greetings"


async def test_the_model_sees_the_machinery_and_people_see_the_conversation(store):
    session = await store.sessions.create(opened_by="test")
    calls = [{"id": "c1", "name": "current_time", "arguments": "{}"}]
    await store.sessions.append_message(session.id, Role.user, "what time is it?")
    await store.sessions.append_message(session.id, Role.assistant, "", tool_calls=calls)
    await store.sessions.append_message(session.id, Role.tool, '{"ok": true}', tool_call_id="c1")
    await store.sessions.append_message(session.id, Role.assistant, "noon")
    transcript = await store.sessions.transcript(session.id)
    assert [m.role.value for m in transcript] == ["user", "assistant", "tool", "assistant"]
    assert transcript[1].tool_calls == calls
    assert transcript[2].tool_call_id == "c1"
    assert [m.content for m in await store.sessions.history(session.id)] == ["what time is it?", "noon"]
    assert [m.content for m in await store.sessions.transcript(session.id, after_seq=4)] == ["noon"]


async def test_any_text_comes_back_as_it_was(store):
    session = await store.sessions.create(opened_by="test")
    texts = ["日本語 🎉", "'; DROP TABLE messages; --", "a\tb\r\nc", "%s %(x)s ? :name {x}", "é" * 10_000]
    for text in texts:
        await store.sessions.append_message(session.id, Role.user, text)
    assert [m.content for m in await store.sessions.transcript(session.id)] == texts


async def test_an_append_that_cannot_be_stored_raises_and_leaves_nothing(store):
    """Errors propagate; a half-written message does not exist."""
    session = await store.sessions.create(opened_by="test")
    store.execute("ALTER TABLE event_texts RENAME TO texts_gone")
    with pytest.raises(StoreError):
        await store.sessions.append_message(session.id, Role.user, "x")
    store.execute("ALTER TABLE texts_gone RENAME TO event_texts")
    assert (await store.sessions.append_message(session.id, Role.user, "y")).seq == 2


async def test_known_secrets_are_not_stored(store_config):
    store = open_store(store_config, Redactor(["hunter2hunter2"]))
    session = await store.sessions.create(opened_by="test", title="my hunter2hunter2")
    message = await store.sessions.append_message(session.id, Role.user, "it is hunter2hunter2")
    assert message.content == f"it is {MARK}"
    assert (await store.sessions.get(session.id)).title == f"my {MARK}"
    dump = str([store.query(f"SELECT * FROM {table}") for table in ("events", "event_texts", "sessions")])
    assert "hunter2" not in dump
    store.close()


async def test_a_secret_made_of_digits_does_not_spoil_the_log(store_config):
    store = open_store(store_config, Redactor(["524288"]))
    await store.settings.update({"tools": {"fs": {"max_read_bytes": 1000}}}, who="agent 524288")
    with store.database.reading() as connection:
        (stored,) = read_stream(connection, "system")
        assert verify(connection).ok
    assert stored.event().who == f"agent {MARK}"
    assert stored.event().changes == {"tools.fs.max_read_bytes": [524288, 1000]}
    store.close()


async def test_sessions_are_listed_by_their_last_use(store):
    ids = [(await store.sessions.create(opened_by="test")).id for _ in range(3)]
    await store.sessions.append_message(ids[0], Role.user, "x")
    await store.sessions.archive(ids[1], who="test")
    assert [s.id for s in await store.sessions.list_sessions()] == [ids[0], ids[2]]
    assert [s.id for s in await store.sessions.list_sessions(include_archived=True)] == [
        ids[1],
        ids[0],
        ids[2],
    ]
    assert [s.id for s in await store.sessions.list_sessions(limit=1, offset=1)] == [ids[2]]
    await store.sessions.archive(ids[1], who="test", archived=False)
    assert ids[1] in [s.id for s in await store.sessions.list_sessions()]


async def test_what_single_commands_made_is_filed_apart_from_chats(store):
    made = {who: (await store.sessions.create(opened_by=who)).id for who in ("cli", "exec", "tool call")}

    async def listed(**wanted):
        return {session.id for session in await store.sessions.list_sessions(**wanted)}

    assert await listed() == {made["cli"]}
    assert await listed(group=SessionListFilter.commands) == {made["exec"], made["tool call"]}
    assert await listed(group=SessionListFilter.all) == set(made.values())
    await store.sessions.archive(made["exec"], who="test")
    assert await listed(group=SessionListFilter.commands) == {made["tool call"]}
    assert await listed(group=SessionListFilter.commands, limit=1, offset=1) == set()


@pytest.mark.parametrize("name", ["system", "", "a b", "a.b", "*", "x" * 65, "é", "a\n"])
async def test_an_id_that_would_be_ambiguous_is_refused(store, name):
    if name == "":
        assert (await store.sessions.create(opened_by="test", session_id=name)).id.startswith("s_")
    else:
        with pytest.raises(UserError, match="is not a valid session id"):
            await store.sessions.create(opened_by="test", session_id=name)


async def test_an_id_can_be_taken_once_and_a_clash_hurts_nobody_else(store):
    results = await asyncio.gather(
        *(store.sessions.create(opened_by="test", session_id="same") for _ in range(5)),
        *(store.sessions.create(opened_by="test") for _ in range(5)),
        return_exceptions=True,
    )
    clashes = [result for result in results if isinstance(result, Exception)]
    assert len(clashes) == 4
    assert all(isinstance(clash, StoreConflict) for clash in clashes)


async def test_others_go_on_while_the_files_of_an_erased_session_are_removed(store):
    """There may be tens of thousands of them."""
    may_end = threading.Event()

    def forget(_session_id):
        assert may_end.wait(10)

    session = await store.sessions.create(opened_by="test")
    await store.delete(session.id, who="ada")
    eraser = SessionEraser(store.database, store.log, [forget])
    erasing = asyncio.create_task(eraser.erase(session.id, who="ada"))
    async with asyncio.timeout(5):
        while store.query("SELECT 1 FROM stream_heads WHERE closed_us IS NULL AND stream <> 'system'"):
            await asyncio.sleep(0.01)
    assert not erasing.done()
    may_end.set()
    await erasing


async def test_what_one_place_cannot_erase_keeps_no_other_and_is_tried_again(store):
    asked = []

    def stubborn(session_id):
        asked.append(("stubborn", session_id))
        raise PermissionError(13, "Permission denied", "/state/kept")

    forgetting = [stubborn, lambda session_id: asked.append(("willing", session_id))]
    eraser = SessionEraser(store.database, store.log, forgetting)
    one, other = [(await store.sessions.create(opened_by="test")).id for _ in range(2)]
    for session in (one, other):
        await store.delete(session)
    with capture_logs() as logs:
        await eraser.erase(one, who="ada")
        await eraser.finish()
    assert asked == [("stubborn", one), ("willing", one)] * 2
    assert [(line["event"], line["session_id"], line["path"]) for line in logs] == [
        ("files_not_erased", one, "/state/kept")
    ] * 2


async def test_deleting_hides_a_session_and_erasing_takes_what_was_said_for_good(store):
    session = await store.sessions.create(opened_by="test", title="plans for the-moon")
    await store.sessions.append_message(session.id, Role.user, "go to the-moon")
    await store.delete(session.id, who="someone")
    assert await store.sessions.list_sessions(group=SessionListFilter.all, include_archived=True) == []
    for call in (
        store.sessions.get(session.id),
        store.sessions.transcript(session.id),
        store.sessions.append_message(session.id, Role.user, "again"),
        store.sessions.rename(session.id, "x", who="t"),
        store.delete(session.id, who="t"),
    ):
        with pytest.raises(SessionNotFound):
            await call
    assert dump(store).count("the-moon") == 4
    await store.erase(session.id, who="operator")
    assert "the-moon" not in dump(store)
    assert "someone" in dump(store)
    with pytest.raises(UserError, match="already erased"):
        await store.erase(session.id)


def dump(store) -> str:
    return str([store.query(f"SELECT * FROM {table}") for table in ("events", "event_texts", "sessions")])


async def test_only_a_deleted_session_is_erased(store):
    session = await store.sessions.create(opened_by="test", title="plans")
    with pytest.raises(UserError, match="is not deleted"):
        await store.erase(session.id)
    with pytest.raises(SessionNotFound):
        await store.erase("nobody")
    assert "plans" in dump(store)


async def test_erased_text_is_gone_from_the_file_itself(sqlite_store):
    session = await sqlite_store.sessions.create(opened_by="test")
    for number in range(50):
        await sqlite_store.sessions.append_message(session.id, Role.user, f"canary-{number} " * 50)
    await sqlite_store.delete(session.id, who="test")
    await sqlite_store.erase(session.id)
    sqlite_store.close()
    files = [path for path in sqlite_store.config.path.parent.rglob("*") if path.is_file()]
    assert files
    assert not any(b"canary-" in path.read_bytes() for path in files)


# -- modes --


@pytest.mark.parametrize("mode", ToolMode)
async def test_a_stored_mode_counts_only_where_it_is_open(store, mode):
    session = await store.sessions.create(opened_by="test")
    store.execute("UPDATE sessions SET mode = ? WHERE id = ?", mode.value, session.id)
    assert await store.manager(mode).get_mode(session.id) is mode
    with capture_logs() as logs:
        assert await store.manager().get_mode(session.id) is ToolMode.chat_safe
    assert [entry["event"] for entry in logs] == ([] if mode is ToolMode.chat_safe else ["mode_downgraded"])


async def test_a_mode_that_is_null_falls_back(sqlite_store):
    """S1-S4: the column was made nullable by hand and emptied."""
    session = await sqlite_store.sessions.create(opened_by="test")
    sqlite_store.execute("ALTER TABLE sessions DROP COLUMN mode")
    sqlite_store.execute("ALTER TABLE sessions ADD COLUMN mode TEXT")
    with capture_logs() as logs:
        assert await sqlite_store.sessions.get_mode(session.id) is ToolMode.chat_safe
    assert logs[0]["event"] == "invalid_mode_value"


async def test_the_mode_of_nobody_is_chat_safe(store):
    with capture_logs() as logs:
        assert await store.sessions.get_mode("nobody") is ToolMode.chat_safe
    assert logs[0]["event"] == "mode_read_error"


async def test_a_switch_and_its_event_stand_together(store):
    session = await store.sessions.create(opened_by="test")
    await store.switch(ToolMode.plan).switch(session.id, ToolMode.plan, who="local:ann")
    assert await store.manager(ToolMode.plan).get_mode(session.id) is ToolMode.plan
    with store.database.reading() as connection:
        event = read_stream(connection, session.id)[-1].event()
    assert (event.who, event.from_mode, event.to_mode) == ("local:ann", "chat_safe", "plan")


async def test_switching_to_the_present_mode_tells_nothing(store):
    session = await store.sessions.create(opened_by="test")
    await store.switch().switch(session.id, ToolMode.chat_safe, who="t")
    assert (await store.sessions.get(session.id)).last_seq == 1


async def test_only_open_modes_can_be_switched_to(store):
    session = await store.sessions.create(opened_by="test")
    with pytest.raises(ModeNotOpen, match="coding mode is not open"):
        await store.switch(ToolMode.plan).switch(session.id, ToolMode.coding, who="t")
    with pytest.raises(ModeNotOpen):
        await store.sessions.create(opened_by="test", mode=ToolMode.coding)
    assert (await store.sessions.get(session.id)).last_seq == 1


async def test_back_to_safety_is_always_open(store):
    session = await store.sessions.create(opened_by="test")
    store.execute("UPDATE sessions SET mode = 'coding' WHERE id = ?", session.id)
    await store.switch().switch(session.id, ToolMode.chat_safe, who="t")
    assert (await store.sessions.get(session.id)).stored_mode == "chat_safe"


async def test_a_switch_of_nobody_is_refused(store):
    with pytest.raises(SessionNotFound):
        await store.switch(ToolMode.plan).switch("nobody", ToolMode.plan, who="t")


async def test_text_that_no_store_can_hold_is_made_fit(store):
    session = await store.sessions.create(opened_by="test", title="a\x00b")
    message = await store.sessions.append_message(
        session.id, Role.tool, "null \x00 and \ud800", tool_call_id="c\x00"
    )
    assert message.content == "null \ufffd and \ufffd"
    assert (await store.sessions.transcript(session.id))[0].content == message.content
    with store.database.reading() as connection:
        assert verify(connection).ok
