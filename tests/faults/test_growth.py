"""A log that has grown: what people and workers look at all the time reads no more rows than before."""

import pytest
from bench.looks import Chosen, looks
from bench.many_events import LONG_SESSION, Maker

from interlock.db.database import Database, StoreConfig, open_database
from interlock.wiring.projections import verify

SMALL, LARGE = 10_000, 50_000


def filled(config: StoreConfig, events: int) -> Database:
    database = open_database(config)
    Maker(database).make(events)
    return database


def chosen(database: Database) -> Chosen:
    statement = (
        "SELECT id, message_seq FROM tasks WHERE session_id = ? ORDER BY message_seq LIMIT 1 OFFSET 20"
    )
    with database.reading() as connection:
        return Chosen(*connection.query(statement, (LONG_SESSION,))[0])


@pytest.mark.full
def test_what_was_made_is_sound(sqlite_config):
    database = filled(sqlite_config, SMALL)
    with database.reading() as connection:
        assert verify(connection).ok
        ((count,),) = connection.query("SELECT count(*) FROM events")
    assert 0.8 * SMALL < count < 1.2 * SMALL
    database.close()


def steps(database: Database, look) -> int:
    """What SQLite's own machine does for it, in tens: the same in every run."""
    taken = 0

    def count() -> None:
        nonlocal taken
        taken += 1

    with database.reading() as connection:
        look(connection)
        connection.raw.set_progress_handler(count, 10)
        try:
            look(connection)
        finally:
            connection.raw.set_progress_handler(None, 0)
    return taken


@pytest.mark.full
@pytest.mark.parametrize("events", [LARGE, 1_000_000])
def test_on_sqlite_nothing_takes_more_steps_because_the_log_is_longer(sqlite_config, tmp_path, events):
    small = filled(sqlite_config, SMALL)
    large = filled(StoreConfig(f"sqlite:///{tmp_path}/large/interlock.db", synchronous="normal"), events)
    named = looks(chosen(small))
    taken = {name: (steps(small, look), steps(large, look)) for name, look in named.items()}
    assert not {name: both for name, both in taken.items() if both[1] > 1.3 * both[0] + 20}
    small.close()
    large.close()


@pytest.fixture
def postgres(postgres_server):
    with postgres_server.database() as config:
        yield config


ROWS_READ = """
SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_xact_user_tables
"""
ON_POSTGRESQL = 90_000


@pytest.mark.full
def test_on_postgresql_no_look_reads_the_rows_of_a_whole_session(postgres):
    """With fewer events it may well read a session whole: that is as fast."""
    database = filled(postgres, ON_POSTGRESQL)
    with database.reading() as connection:
        statement = "SELECT count(*) FROM events WHERE stream = ?"
        ((events,),) = connection.query(statement, (LONG_SESSION,))
    read = {}
    for name, look in looks(chosen(database)).items():
        with database.reading() as connection:
            before = connection.query(ROWS_READ)[0][0]
            look(connection)
            read[name] = int(connection.query(ROWS_READ)[0][0] - before)
    assert not {name: rows for name, rows in read.items() if rows > events / 2}
    database.close()
