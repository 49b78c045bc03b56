"""What was erased is exactly on record, and whoever erases more than that is found."""

import json

import pytest

from interlock.log.retention import SweepReport
from tests.integration.retention.archive import DAY_US, NOON_US, numbers


async def test_the_record_names_exactly_what_is_gone_and_a_second_sweep_does_nothing(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    swept = await archive.sweep()
    (told,) = archive.told()
    assert (told["of"], told["events"], told["messages"]) == (session, swept.events, swept.messages)
    assert told["who"] == "retention"
    assert told["before_us"] == swept.before_us == NOON_US - DAY_US // 2 - 30 * DAY_US
    assert numbers(told["ranges"]) == archive.erased(session)
    assert len(archive.erased(session)) == swept.events
    head = archive.store.query("SELECT seq FROM stream_heads WHERE stream = 'system'")
    again = await archive.sweep()
    assert again == SweepReport(swept.before_us)
    assert archive.store.query("SELECT seq FROM stream_heads WHERE stream = 'system'") == head
    assert archive.faults() == []


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE events SET facts = '{}' WHERE kind = 'turn.completed'", "header and facts"),
        ("UPDATE events SET facts = '{}' WHERE kind = 'session.created'", "header and facts"),
        ("UPDATE events SET facts = '{}' WHERE kind = 'log.erased'", "no erasure is recorded"),
        ("INSERT INTO event_texts SELECT stream, 2, 'x' FROM events LIMIT 1", "a text that no event has"),
        ("UPDATE questions SET document = '{}'", "was changed"),
        ("UPDATE events SET content = '{}' WHERE seq = 2 AND stream <> 'system'", "content was changed"),
    ],
)
async def test_whoever_erases_more_or_fills_it_again_is_found(archive, statement, finding):
    session = await archive.session(60)
    await archive.task(session, 50)
    await archive.sweep()
    assert archive.faults() == []
    archive.store.execute(statement)
    assert any(finding in fault for fault in archive.faults())


async def test_a_record_that_was_made_larger_does_not_cover_for_anybody(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    await archive.sweep()
    (told,) = archive.told()
    for ranges in ([[1, 999]], "x", [["a", "b"]]):
        changed = json.dumps(told | {"ranges": ranges})
        archive.store.execute("UPDATE events SET facts = ? WHERE kind = 'log.erased'", changed)
        assert any(fault.startswith("broken: system") for fault in archive.faults())
