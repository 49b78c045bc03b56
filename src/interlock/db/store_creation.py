"""Creates a new SQLite store from the present schema, without running the migrations.

Migrations need libraries that nothing else here needs: a third of a first start, and of its memory.
`schema.sql` is their result; a test compares the two.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.db.database import SCHEMA_REVISION, StoreConfig, prepare_state_directory, stored_revision
from interlock.db.driver import file_open_error

SCHEMA = Path(__file__).with_name("schema.sql")
# Separates its statements.
BETWEEN = ";\n\n"

_FIRST_ROWS = (
    ("INSERT INTO alembic_version (version_num) VALUES (?)", lambda: SCHEMA_REVISION),
    ("INSERT INTO store_info (key, value) VALUES ('store_id', ?)", lambda: secrets.token_hex(16)),
    ("INSERT INTO stream_heads (stream, seq, hash, time_us) VALUES ('system', 0, ?, 0)", lambda: bytes(32)),
)


def create_if_new(config: StoreConfig) -> bool:
    """Create the store if there is none; returns whether it did."""
    prepare_state_directory(config.path)
    with startup_lock(config):
        if stored_revision(config) is not None:
            return False
        connection = config.connect()
        try:
            connection.begin(write=True)
            for statement in SCHEMA.read_text("utf-8").strip().split(BETWEEN):
                connection.change(statement)
            for statement, value in _FIRST_ROWS:
                connection.change(statement, (value(),))
            connection.commit()
        finally:
            connection.close()
    return True


@contextmanager
def startup_lock(config: StoreConfig) -> Iterator[None]:
    """Of processes that start together, one creates or upgrades the SQLite store."""
    lock = config.path.with_suffix(".upgrade-lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise file_open_error(error, lock) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
