"""What the same look or append costs when the log has a hundred times as many events: SQLite, processor
time."""

import time
from pathlib import Path

from bench.log import EVENT, TURN, folder
from bench.looks import Chosen, Look, by_nature, looks
from bench.many_events import LONG_SESSION, Maker
from bench.rows import Row
from interlock.db.database import Database, StoreConfig, open_database
from interlock.db.driver import DbConnection
from interlock.log.event import Event
from interlock.log.stream_appender import NO_SCOPE, EventDraft, StreamAppender
from interlock.redaction.redactor import Redactor
from interlock.wiring.projections import PROJECTIONS

SMALL, LARGE = 10_000, 1_000_000
# How much more a look may cost there that has nothing to do with the log's length.
BOUND = 2.0
_SECONDS_EACH = 0.03


def rows() -> list[Row]:
    with folder() as path:
        small, large = (_made(path / str(events), events) for events in (SMALL, LARGE))
        flat = [
            Row(f"growth: {name}", *_both(look, small, large), "ms", f"ms with {SMALL} events", BOUND)
            for name, look in looks(_chosen(small)).items()
        ]
        appends = [
            Row(
                f"growth: append {name}",
                *_appended(event, small, large),
                "ms",
                f"ms with {SMALL} events",
                BOUND,
            )
            for name, event in (("an event", EVENT), ("a turn", TURN))
        ]
        growing = [
            Row(f"growth: {name}", *_both(look, small, large), "ms", f"ms with {SMALL} events")
            for name, look in by_nature(_chosen(small)).items()
        ]
        for database in (small, large):
            database.close()
    return [*appends, *flat, *growing]


def _made(folder: Path, events: int) -> Database:
    database = open_database(StoreConfig(f"sqlite:///{folder}/interlock.db", synchronous="normal"))
    Maker(database).make(events)
    return database


def _chosen(database: Database) -> Chosen:
    """An old task of the long session; it is the same one in every store."""
    statement = (
        "SELECT id, message_seq FROM tasks WHERE session_id = ? ORDER BY message_seq LIMIT 1 OFFSET 20"
    )
    with database.reading() as connection:
        return Chosen(*connection.query(statement, (LONG_SESSION,))[0])


def _appended(event: Event, small: Database, large: Database) -> tuple[float, float]:
    """One transaction each, on the long session, by the log's own statements."""
    redactor = Redactor()

    def append(connection: DbConnection) -> None:
        connection.begin(write=True)
        appender = StreamAppender(connection, {}, PROJECTIONS)
        appender.add(LONG_SESSION, None, [EventDraft(event, NO_SCOPE, redactor)], print)
        appender.flush()
        connection.commit()

    found = []
    for database in (large, small):
        connection = database.config.connect()
        found.append(min(_milliseconds(append, connection) for _ in range(3)))
        connection.close()
    return found[0], found[1]


def _both(look: Look, small: Database, large: Database) -> tuple[float, float]:
    """The large one first, as the table has it."""
    found = []
    for database in (large, small):
        with database.reading() as connection:
            found.append(min(_milliseconds(look, connection) for _ in range(2)))
    return found[0], found[1]


def _milliseconds(look: Look, connection: DbConnection) -> float:
    began, times = time.process_time(), 0
    while (spent := time.process_time() - began) < _SECONDS_EACH:
        look(connection)
        times += 1
    return spent / times * 1000
