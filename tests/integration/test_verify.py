"""Tampering behind the product's back: `verify` names the first event that is broken, missing or cut."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.core.errors import SessionNotFound, UserError
from interlock.log.checkpoint import Anchor, write_checkpoint
from interlock.log.kinds import SYSTEM_STREAM
from interlock.sessions.models import Role
from interlock.wiring.projections import verify
from tests.harness.store import StoreHarness


async def filled(store: StoreHarness) -> str:
    session = await store.sessions.create(opened_by="test", session_id="talk")
    for number in range(4):
        await store.sessions.append_message(session.id, Role.user, f"message {number}")
    return session.id


def faults(store: StoreHarness, **options) -> list[tuple[str, int, str]]:
    with store.database.reading() as connection:
        return [(f.stream, f.seq, f.what) for f in verify(connection, **options).faults]


TAMPERINGS: dict[str, tuple[Callable[[StoreHarness], None], tuple[int, str]]] = {
    "a payload is changed": (
        lambda store: store.execute("UPDATE events SET content = '{}' WHERE seq = 3"),
        (3, "broken"),
    ),
    "facts are changed": (
        lambda store: store.execute("UPDATE events SET facts = '{}' WHERE seq = 3"),
        (3, "broken"),
    ),
    "a salt is changed": (
        lambda store: store.execute("UPDATE events SET salt = ? WHERE seq = 3", bytes(16)),
        (3, "broken"),
    ),
    "an event is said to have had no content": (
        lambda store: store.execute(
            "UPDATE events SET content = NULL, salt = NULL, content_hash = NULL WHERE seq = 3"
        ),
        (3, "broken"),
    ),
    "a header is changed": (
        lambda store: store.execute("UPDATE events SET time_us = time_us + 1 WHERE seq = 3"),
        (3, "broken"),
    ),
    "a kind is changed": (
        lambda store: store.execute("UPDATE events SET kind = 'reply.sent' WHERE seq = 3"),
        (3, "broken"),
    ),
    "a scope is changed": (
        lambda store: store.execute("UPDATE events SET parent = 'other' WHERE seq = 3"),
        (3, "broken"),
    ),
    "content and its hash are changed together": (
        lambda store: store.execute(
            "UPDATE events SET content = '{}', salt = ?, content_hash = ? WHERE seq = 3",
            *(b"", bytes.fromhex("44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")),
        ),
        (3, "broken"),
    ),
    "an event is removed": (
        lambda store: store.execute("DELETE FROM events WHERE seq = 3"),
        (3, "missing"),
    ),
    "the first event is removed": (
        lambda store: store.execute("DELETE FROM events WHERE seq = 1"),
        (1, "missing"),
    ),
    "the end is cut off": (lambda store: store.execute("DELETE FROM events WHERE seq >= 4"), (4, "cut")),
    "everything is removed": (lambda store: store.execute("DELETE FROM events"), (1, "cut")),
    "the head is moved back": (
        lambda store: store.execute("UPDATE stream_heads SET seq = 4 WHERE stream = 'talk'"),
        (5, "broken"),
    ),
    "the head is removed": (
        lambda store: store.execute("DELETE FROM stream_heads WHERE stream = 'talk'"),
        (5, "missing"),
    ),
    "content is erased without a record": (
        lambda store: store.execute("UPDATE events SET content = NULL, salt = NULL WHERE seq = 3"),
        (3, "broken"),
    ),
    "a searchable text is changed": (
        lambda store: store.execute("UPDATE event_texts SET text = 'I never said that' WHERE seq = 4"),
        (4, "broken"),
    ),
    "a searchable text is removed": (
        lambda store: store.execute("DELETE FROM event_texts WHERE seq = 4"),
        (4, "broken"),
    ),
    "a searchable text is slipped in": (
        lambda store: store.execute("INSERT INTO event_texts (stream, seq, text) VALUES ('talk', 1, 'x')"),
        (5, "broken"),
    ),
}


@pytest.mark.parametrize("what", TAMPERINGS)
async def test_tampering_is_found_and_placed(store, what):
    tamper, (seq, kind) = TAMPERINGS[what]
    session = await filled(store)
    assert faults(store) == []
    tamper(store)
    assert faults(store) == [(session, seq, kind)]
    assert faults(store, only=session) == [(session, seq, kind)]


def rewrite(store: StoreHarness, session: str, upto: int) -> None:
    """What an attacker with the database can do: cut the end off and set the head to match."""
    store.execute("DELETE FROM events WHERE stream = ? AND seq > ?", session, upto)
    store.execute("DELETE FROM event_texts WHERE stream = ? AND seq > ?", session, upto)
    store.execute(
        "UPDATE stream_heads SET seq = ?, hash = (SELECT hash FROM events WHERE stream = ? AND seq = ?) "
        "WHERE stream = ?",
        *(upto, session, upto, session),
    )


async def test_a_clean_cut_is_only_seen_by_a_checkpoint(store):
    session = await filled(store)
    await write_checkpoint(store.log)
    await store.sessions.append_message(session, Role.user, "after the checkpoint")
    rewrite(store, session, 5)
    assert faults(store) == []
    rewrite(store, session, 3)
    assert faults(store) == [(session, 5, "cut")]


async def test_a_cut_that_takes_the_checkpoint_along_is_only_seen_by_an_anchor(store):
    session = await filled(store)
    anchor = await write_checkpoint(store.log)
    rewrite(store, session, 3)
    store.execute("DELETE FROM events WHERE stream = 'system'")
    store.execute("UPDATE stream_heads SET seq = 0, hash = ? WHERE stream = 'system'", b"\0" * 32)
    assert faults(store) == []
    assert faults(store, anchors=[anchor]) == [(SYSTEM_STREAM, anchor.seq, "cut")]


async def test_an_anchor_of_another_history_or_another_store_does_not_fit(store):
    await filled(store)
    anchor = await write_checkpoint(store.log)
    assert faults(store, anchors=[anchor]) == []
    assert faults(store, anchors=[replace(anchor, hash=b"\1" * 32)])[0][2] == "broken"
    assert faults(store, anchors=[replace(anchor, store_id="0" * 32)])[0][2] == "broken"


async def test_an_anchor_is_one_line_that_can_be_kept_on_paper(store):
    await filled(store)
    anchor = await write_checkpoint(store.log)
    line = str(anchor)
    assert "\n" not in line
    assert Anchor.parse(f"  {line}\n") == anchor
    with pytest.raises(UserError, match="not an anchor"):
        Anchor.parse(line[:-1])


async def test_an_erased_conversation_still_verifies(store):
    session = await filled(store)
    await write_checkpoint(store.log)
    await store.delete(session, who="test")
    await store.erase(session)
    with store.database.reading() as connection:
        report = verify(connection)
    assert report.ok
    assert report.erased == 5
    store.execute("UPDATE events SET facts = '{}' WHERE stream = ? AND seq = 6", session)
    assert faults(store)[0][2] == "broken"


async def test_one_session_is_checked_together_with_the_checkpoints_over_it(store):
    """A stream that was rewritten and chained anew agrees with itself; only the checkpoint knows better."""
    from interlock.log.hash_chain import chain_hash, encode_header

    session = await filled(store)
    anchor = await write_checkpoint(store.log)
    store.execute("DELETE FROM event_texts")
    (chained,) = store.query("SELECT hash FROM events WHERE stream = ? AND seq = 1", session)[0]
    for seq in range(2, 6):
        previous, header = chained, ("x", 1, session, seq, None, None, "reply.sent")
        chained = chain_hash(previous, encode_header(*header), b"{}", None)
        store.execute(
            "UPDATE events SET id = 'x', time_us = 1, kind = 'reply.sent', facts = '{}', "
            "content = NULL, content_hash = NULL, prev_hash = ?, hash = ? WHERE stream = ? AND seq = ?",
            *(previous, chained, session, seq),
        )
    store.execute("UPDATE stream_heads SET hash = ? WHERE stream = ?", chained, session)
    assert faults(store, only=session, anchors=[anchor]) == [(session, 5, "broken")]
    with pytest.raises(SessionNotFound):
        faults(store, only="nobody")


async def test_every_broken_stream_is_named(store):
    for name in ("a", "b", "c"):
        await store.sessions.create(opened_by="test", session_id=name)
    store.execute("UPDATE events SET facts = '{}' WHERE stream IN ('a', 'c')")
    assert faults(store) == [("a", 1, "broken"), ("c", 1, "broken")]
