"""The log on both databases: numbered without gaps, chained, committed in groups, all or nothing."""

import asyncio

import pytest

from interlock.core.errors import (
    PreconditionFailed,
    SessionFenced,
    SessionNotFound,
    StoreConflict,
    StoreError,
    UserError,
)
from interlock.log.checkpoint import write_checkpoint
from interlock.log.kinds import (
    SYSTEM_STREAM,
    AskUserAsked,
    MessageAppended,
    SessionArchived,
    SessionRenamed,
)
from interlock.log.read import LOG_START, LogCursor, end_of_log, iter_stream, read_all, read_stream
from interlock.log.stream_appender import EventScope, WritePrecondition
from interlock.wiring.projections import verify
from tests.harness.store import StoreHarness, open_store


def renamed(title: str) -> SessionRenamed:
    return SessionRenamed(who="test", title=title)


async def new_session(store: StoreHarness) -> str:
    return (await store.sessions.create(opened_by="test")).id


def report(store: StoreHarness, **options):
    with store.database.reading() as connection:
        return verify(connection, **options)


async def test_events_are_numbered_without_gaps_and_linked(store):
    session = await new_session(store)
    await store.log.append(session, renamed("a"), renamed("b"))
    await store.log.append(session, renamed("c"))
    with store.database.reading() as connection:
        events = list(iter_stream(connection, session))
    assert [event.header.seq for event in events] == [1, 2, 3, 4]
    assert events[0].prev_hash == b"\0" * 32
    assert [event.prev_hash for event in events[1:]] == [event.hash for event in events[:-1]]
    assert report(store).ok


async def test_fifty_writers_at_once_leave_no_gap(store):
    sessions = [await new_session(store) for _ in range(5)]

    async def write(number: int) -> list:
        return [await store.log.append(sessions[number % 5], renamed(f"{number}-{n}")) for n in range(10)]

    results = await asyncio.gather(*(write(number) for number in range(50)))
    for index, session in enumerate(sessions):
        told = sorted(done[0].seq for number in range(index, 50, 5) for done in results[number])
        assert told == list(range(2, 102))
        with store.database.reading() as connection:
            assert [event.header.seq for event in iter_stream(connection, session)] == list(range(1, 102))
    assert report(store).ok


async def test_one_transaction_records_to_several_streams_all_or_nothing(store):
    first, second = await new_session(store), await new_session(store)
    written = []
    store.log._on_commit = written.extend

    def work(transaction):
        transaction.on(second).record(renamed("b"))
        return transaction.record(renamed("a"))

    def failing(transaction):
        work(transaction)
        raise UserError("no")

    with pytest.raises(UserError):
        await store.log.transact(first, failing)
    assert not written
    await store.log.transact(first, work)
    assert sorted((event.stream, event.seq) for event in written) == sorted([(first, 2), (second, 2)])
    with store.database.reading() as connection:
        assert [[e.header.seq for e in iter_stream(connection, each)] for each in (first, second)] == [
            [1, 2],
            [1, 2],
        ]
    assert report(store).ok


async def test_what_is_held_back_keeps_its_place_and_shares_the_next_commit(store):
    session = await new_session(store)
    appender, held = store.log.appender(session), [store.log.draft(renamed(name)) for name in "ab"]
    appender.hold(*held)
    (waited_for,) = await appender.append(store.log.draft(renamed("c")))
    assert [draft.seq for draft in held] == [2, 3]
    assert waited_for.seq == 4
    times = store.query("SELECT DISTINCT time_us FROM events WHERE stream = ? AND seq > 1", session)
    assert times == [(waited_for.time_us,)]
    appender.hold(store.log.draft(renamed("d")))
    await appender.flush()
    await appender.flush()
    assert store.query("SELECT max(seq) FROM events WHERE stream = ?", session) == [(5,)]
    assert report(store).ok


async def test_what_is_held_back_is_recorded_whatever_the_condition_of_the_next_append_says(store):
    session = await new_session(store)
    appender, held = store.log.appender(session), store.log.draft(renamed("a"))
    appender.hold(held)
    with pytest.raises(PreconditionFailed):
        await appender.append(store.log.draft(renamed("b")), condition=WritePrecondition("1 = ?", (2,)))
    (after,) = await appender.append(store.log.draft(renamed("c")))
    assert (held.seq, after.seq) == (2, 3)
    assert report(store).ok


async def test_a_unit_whose_condition_is_not_met_is_refused_alone(store):
    """Everything is queued before the writer can take it: one group."""
    session, other = await new_session(store), await new_session(store)
    is_of_kind = "EXISTS (SELECT 1 FROM sessions WHERE id = ? AND kind = ?)"
    met, unmet = (WritePrecondition(is_of_kind, (session, kind)) for kind in ("chat", "another"))

    def queued(stream: str, title: str, condition: WritePrecondition | None = None):
        return store.log.append(stream, renamed(title), condition=condition)

    before = queued(session, "a")
    refused = [queued(session, title, unmet) for title in "bc"]
    after, with_another = queued(session, "d"), queued(session, "e", met)
    elsewhere = [queued(other, "f", met), queued(other, "g", unmet), queued(other, "h")]
    results = await asyncio.gather(
        before, *refused, after, with_another, *elsewhere, return_exceptions=True
    )
    told = [each if isinstance(each, PreconditionFailed) else each[0].seq for each in results]
    assert [each for each in told if isinstance(each, int)] == [2, 3, 4, 2, 3]
    assert [type(each) for each in told if not isinstance(each, int)] == [PreconditionFailed] * 3
    with store.database.reading() as connection:
        titles = [event.event().title for event in list(iter_stream(connection, session))[1:]]
        # What a caller was told of is what is stored.
        hashes = {event.hash for each in (session, other) for event in iter_stream(connection, each)}
    assert titles == ["a", "d", "e"]
    assert {each[0].hash for each in results if not isinstance(each, Exception)} <= hashes
    assert report(store).ok


async def test_a_condition_under_a_lease_that_was_lost_is_refused_as_lost(store):
    session = await new_session(store)
    unmet = WritePrecondition("1 = ?", (2,))
    with pytest.raises(SessionFenced):
        await store.log.append(session, renamed("a"), token=7, condition=unmet)


async def test_the_searchable_text_is_written_if_its_event_is(store):
    session = await new_session(store)
    lease = await store.leases.take(session, "w")
    said = MessageAppended(role="user", content="hello")
    with pytest.raises(SessionFenced):
        await store.log.append(session, said, token=lease.token - 1)
    assert store.query("SELECT * FROM event_texts") == []
    await store.log.append(session, said, token=lease.token)
    assert store.query("SELECT * FROM event_texts") == [(session, 2, "hello")]


async def test_what_was_acknowledged_can_be_read_by_anyone_at_once(store):
    session = await new_session(store)
    (recorded,) = await store.log.append(session, renamed("x"), scope=EventScope("task", "parent"))
    other = store.config.connect()
    rows = other.query(
        "SELECT id, seq, hash, task, parent FROM events WHERE stream = ? AND seq = 2", (session,)
    )
    other.close()
    assert rows == [(recorded.id, recorded.seq, recorded.hash, "task", "parent")]


async def test_a_stream_that_does_not_exist_takes_nothing(store):
    with pytest.raises(SessionNotFound):
        await store.log.append("nobody", renamed("x"))
    assert store.query("SELECT count(*) FROM events") == [(0,)]


async def test_a_unit_that_fails_leaves_no_trace_and_hurts_no_other(store):
    session = await new_session(store)

    def fails(transaction):
        transaction.record(renamed("lost"))
        transaction.connection.change("UPDATE sessions SET title = 'lost'")
        raise ValueError("half way")

    async def failing():
        with pytest.raises(ValueError, match="half way"):
            await store.log.transact(session, fails)

    await asyncio.gather(
        store.log.append(session, renamed("a")),
        failing(),
        store.log.append(session, renamed("b")),
        failing(),
    )
    with store.database.reading() as connection:
        titles = [event.event().title for event in read_stream(connection, session)]
    assert titles == ["", "a", "b"]
    assert store.query("SELECT title FROM sessions") == [("b",)]
    assert report(store).ok


async def test_an_event_whose_row_exists_already_hurts_no_other_of_its_group(store):
    """A call asks once: two questions of one call want the same row."""
    session, other = await new_session(store), await new_session(store)

    def asked(question: str):
        event = AskUserAsked(
            question_id=question,
            call_id="c1",
            tool_name="ask_user",
            mode="chat",
            authority_digest="d",
            widget="form",
            question={},
        )
        return store.log.append(session, event, scope=EventScope(None, "intent"))

    results = await asyncio.gather(
        asked("q1"), asked("q2"), store.log.append(other, renamed("a")), return_exceptions=True
    )
    assert isinstance(results[1], StoreConflict)
    assert [results[0][0].seq, results[2][0].seq] == [2, 2]
    assert report(store).ok


async def test_a_second_writer_on_the_same_store_is_noticed(store):
    """Each process caches the heads; a head that another one moved is read again."""
    session = await new_session(store)
    other = open_store(store.config)
    for number in range(10):
        await store.log.append(session, renamed(f"one {number}"))
        await other.log.append(session, renamed(f"two {number}"))
    await asyncio.gather(
        *(log.append(session, renamed("both")) for log in (store.log, other.log) for _ in range(50))
    )
    other.close()
    with store.database.reading() as connection:
        assert [e.header.seq for e in iter_stream(connection, session)] == list(range(1, 122))
    assert report(store).ok


async def test_a_closed_log_refuses_and_keeps_what_was_queued(store):
    session = await new_session(store)
    pending = [store.log.append(session, renamed(str(n))) for n in range(20)]
    store.log.close()
    recorded = await asyncio.gather(*pending)
    assert [done[0].seq for done in recorded] == list(range(2, 22))
    with pytest.raises(StoreError, match="closed"):
        await store.log.append(session, renamed("late"))


async def test_a_caller_that_stops_waiting_does_not_undo_the_write(store):
    session = await new_session(store)
    writing = store.log.append(session, renamed("x"))
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await store.log.append(session, renamed("y"))
    assert store.query("SELECT count(*) FROM events WHERE stream = ?", session) == [(3,)]


# -- reading it all --


async def test_the_tail_over_all_streams_sees_everything_once(store):
    one, two = await new_session(store), await new_session(store)
    cursor, seen = LOG_START, []
    for number in range(7):
        await asyncio.gather(
            store.log.append(one, renamed(str(number))), store.log.append(two, renamed(str(number)))
        )
        with store.database.reading() as connection:
            while page := read_all(connection, after=cursor, limit=3):
                seen += [(event.header.stream, event.header.seq) for event in page]
                cursor = page[-1].cursor
    assert sorted(seen) == sorted((stream, seq) for stream in (one, two) for seq in range(1, 9))
    with store.database.reading() as connection:
        assert end_of_log(connection) == cursor


async def test_the_tail_never_passes_an_open_transaction(postgres_server, request):
    """Rows become visible in another order than they were numbered in; none may be skipped for it."""
    with postgres_server.database() as config:
        store = open_store(config)
        session = await new_session(store)
        slow, insert = (
            config.connect(),
            "INSERT INTO events (id, stream, seq, time_us, kind, facts, ",
        )
        insert += "prev_hash, hash) VALUES ('x', 'slow', 1, 0, 'k', '{}', ?, ?)"
        slow.begin(write=True)
        slow.change(insert, (b"", b""))
        await store.log.append(session, renamed("fast"))

        def streams(after: LogCursor, store: StoreHarness = store) -> list:
            with store.database.reading() as connection:
                return read_all(connection, after=after)

        before = streams(LOG_START)
        assert [event.header.stream for event in before] == [session]
        assert before[-1].header.seq == 1
        slow.commit()
        after = streams(before[-1].cursor)
        assert sorted((event.header.stream, event.header.seq) for event in after) == sorted(
            [("slow", 1), (session, 2)]
        )
        slow.close()
        store.close()


@pytest.mark.parametrize("text", ["", "5", "1.x", "-1.2", "1.2.3", "１.２"])
def test_something_that_is_no_cursor_is_refused(text):
    with pytest.raises(UserError, match="not a cursor"):
        LogCursor.parse(text)


async def test_a_cursor_survives_being_written_down():
    assert LogCursor.parse(str(LogCursor(17, 4))) == LogCursor(17, 4)


# -- checkpoints --


async def test_a_checkpoint_holds_the_heads_that_moved(store):
    one = await new_session(store)
    two = await new_session(store)
    await store.log.append(one, renamed("x"))
    first = await write_checkpoint(store.log)
    await store.log.append(two, SessionArchived(who="t", archived=True))
    second = await write_checkpoint(store.log)
    with store.database.reading() as connection:
        a, b = [event.event() for event in read_stream(connection, SYSTEM_STREAM)]
    assert [(head[0], head[1]) for head in a.heads] == sorted([(one, 2), (two, 1)])
    assert [(head[0], head[1]) for head in b.heads] == [(two, 2)]
    assert b.previous_checkpoint_seq == first.seq
    assert report(store, anchors=[first]).ok
    assert report(store, anchors=[second]).ok
