"""Somebody who writes to the database also writes that something was erased, to hide what they did.

An erasure takes content alone. Facts, by which the log and the rows beside it are checked, are never
erased, and no record of an erasure excuses that they are missing.
"""

import pytest

from interlock.config.modes import ToolMode
from interlock.log.checkpoint import write_checkpoint
from interlock.log.hash_chain import now_us
from interlock.log.kinds import SYSTEM_STREAM, LogErased, ToolCallStarted
from interlock.log.retention import RetentionSweeper
from interlock.sessions.models import Role
from tests.escape.victim import faults, new_session, renamed
from tests.harness.store import StoreHarness

DAY_US = 86_400_000_000
ERASE = "UPDATE events SET facts = '{}', content = NULL, salt = NULL WHERE stream = ? AND seq = ?"


async def forge_sweep(
    store: StoreHarness, stream: str, *numbers: int, before_us: int | None = None
) -> None:
    """As whoever can write to the database can: a record that is chained like any other."""
    before_us = now_us() + DAY_US if before_us is None else before_us
    spans = [[number, number] for number in numbers]
    sweep = LogErased(
        who="operator", of=stream, before_us=before_us, events=len(numbers), messages=0, ranges=spans
    )
    await store.log.append(SYSTEM_STREAM, sweep)
    for number in numbers:
        store.execute(ERASE, stream, number)


def last(store: StoreHarness, stream: str) -> int:
    return int(store.query("SELECT max(seq) FROM events WHERE stream = ?", stream)[0][0])


def remove(store: StoreHarness, session: str) -> None:
    for table, column in (
        *(("event_texts", "stream"), ("events", "stream"), ("stream_heads", "stream"), ("sessions", "id")),
    ):
        store.execute(f"DELETE FROM {table} WHERE {column} = ?", session)


async def test_an_erased_checkpoint_does_not_free_what_its_anchor_holds(store: StoreHarness):
    session = await new_session(store)
    await store.sessions.append_message(session, Role.user, "hello")
    anchor = await write_checkpoint(store.log)
    await forge_sweep(store, SYSTEM_STREAM, anchor.seq)
    remove(store, session)
    (fault,) = faults(store, anchors=[anchor])
    assert f"system #{anchor.seq}" in fault
    assert "header and facts" in fault


async def test_a_call_cannot_be_erased_together_with_what_it_was(store: StoreHarness):
    """Deleting a session once removed what its calls were, and the log verified."""
    session = await new_session(store)
    started = ToolCallStarted(
        call_id="c1",
        tool_name="bash",
        mode="coding",
        authority_digest="d" * 64,
        requested_name="bash",
        arguments={"cmd": "rm -r src"},
        effect="exec",
        timeout_seconds=5.0,
    )
    await store.log.append(session, started)
    seq = last(store, session)
    await store.delete(session, who="eve")
    assert store.query("SELECT content FROM events WHERE seq = ? AND stream = ?", seq, session) != [(None,)]
    store.execute("UPDATE events SET content = NULL, salt = NULL WHERE seq = ?", seq)
    assert "no erasure is recorded" in faults(store)[0]
    await forge_sweep(store, session, seq)
    assert "header and facts" in faults(store)[0]


async def test_a_version_of_the_settings_cannot_be_swept_away_with_its_event(store: StoreHarness):
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="test")
    store.execute("UPDATE settings_versions SET document = '{}'")
    await forge_sweep(store, SYSTEM_STREAM, last(store, SYSTEM_STREAM))
    assert any("header and facts" in fault for fault in faults(store))


@pytest.mark.parametrize("what", ["the mode", "the model"])
async def test_what_a_session_was_switched_to_is_known_however_old_it_is(store: StoreHarness, what):
    """By a real sweep: what people switched stays on record, so the row cannot be changed afterwards."""
    session = await new_session(store)
    await store.switch(*ToolMode).switch(session, ToolMode.chat, who="ada")
    await store.sessions.choose_model(session, "demo", who="ada")
    await store.sessions.append_message(session, Role.user, "hello")
    later = now_us() + 3 * DAY_US
    assert (await RetentionSweeper(store.log, store.database, 1, lambda: later).sweep()).messages == 1
    assert faults(store) == []
    change = {"the mode": "mode = 'coding'", "the model": "model = 'dear'"}[what]
    store.execute(f"UPDATE sessions SET {change}")
    assert len(faults(store)) == 1


async def test_a_sweep_vouches_for_nothing_younger_than_the_day_it_names(store: StoreHarness):
    session = await new_session(store)
    await store.log.append(session, renamed("what was done today"))
    seq = last(store, session)
    facts = store.query("SELECT facts FROM events WHERE stream = ? AND seq = ?", session, seq)[0][0]
    await forge_sweep(store, session, seq, before_us=now_us() - DAY_US)
    store.execute("UPDATE events SET facts = ? WHERE stream = ? AND seq = ?", facts, session, seq)
    assert "no erasure is recorded" in faults(store)[0]
