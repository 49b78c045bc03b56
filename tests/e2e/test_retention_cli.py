"""`interlock events sweep`, as an operator runs it."""

import sqlite3

from tests.harness.cli import one_line_error


def test_nothing_is_erased_unless_the_operator_says_after_how_long(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    assert "EVENT_RETENTION_DAYS is not set" in one_line_error(interlock, "events", "sweep")
    interlock.variables["EVENT_RETENTION_DAYS"] = "1"
    told = interlock.json("events", "sweep")
    assert (told["streams"], told["events"], told["messages"]) == (0, 0, 0)
    said = interlock("events", "sweep").stdout
    assert said.startswith("erased the content of 0 events and 0 messages in 0 streams")
    tree = interlock.json("events", "tree", session)
    assert all(event["payload"] for event in tree)
    interlock("events", "verify")


def test_what_is_old_is_erased_and_the_log_is_still_read_and_verified(interlock):
    session = interlock.json("tool", "call", "current_time")["session_id"]
    _write_as_if_long_ago(interlock.home / "state" / "interlock.db")
    interlock("events", "verify")
    interlock.variables["EVENT_RETENTION_DAYS"] = "30"
    assert interlock.json("events", "sweep")["events"] >= 2
    assert interlock.json("events", "verify")["erased"] >= 2
    (started,) = [
        line for line in interlock("events", "tree", session).stdout.splitlines() if "call.started" in line
    ]
    assert "tool_name=current_time mode=chat_safe" in started
    assert "(content erased)" in started
    assert "log.erased" in interlock("events", "tail", "system").stdout
    assert interlock.json("events", "sweep")["events"] == 0


def _write_as_if_long_ago(path) -> None:
    """Chain the whole log anew, a year earlier."""
    from interlock.log.hash_chain import EventHeader, chain_hash

    with sqlite3.connect(path) as db:
        rows = db.execute(
            "SELECT position, id, time_us, stream, seq, task, parent, kind, facts, content_hash "
            "FROM events ORDER BY stream, seq"
        ).fetchall()
        heads: dict[str, bytes] = {}
        for position, identity, time_us, stream, seq, task, parent, kind, facts, content_hash in rows:
            earlier = time_us - 365 * 86_400_000_000
            before = heads.get(stream, b"\0" * 32)
            header = EventHeader(identity, earlier, stream, seq, task, parent, kind)
            heads[stream] = chain_hash(before, header.encoded(), facts.encode(), content_hash)
            db.execute(
                "UPDATE events SET time_us = ?, prev_hash = ?, hash = ? WHERE position = ?",
                (earlier, before, heads[stream], position),
            )
        db.execute("UPDATE sessions SET created_us = created_us - ?", (365 * 86_400_000_000,))
        for stream, chained in heads.items():
            db.execute("UPDATE stream_heads SET hash = ? WHERE stream = ?", (chained, stream))
    db.close()


def test_a_wrong_number_of_days_stops_the_start(interlock):
    for value in ("0", "-1", "soon", "1.5"):
        interlock.variables["EVENT_RETENTION_DAYS"] = value
        assert "EVENT_RETENTION_DAYS" in one_line_error(interlock, "events", "sweep")
    del interlock.variables["EVENT_RETENTION_DAYS"]
    interlock.variables["EVENT_RETENTION_DAY"] = "3"
    assert "EVENT_RETENTION_DAYS" in interlock("config", "show").stderr
