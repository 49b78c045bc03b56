"""Writes src/interlock/db/schema.sql: what the steps of the schema lead to. `make schema`"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from interlock.db.database import StoreConfig
from interlock.db.store_creation import BETWEEN, SCHEMA
from interlock.db.upgrade import upgrade

# What SQLite makes by itself, for a key or beside a virtual table, is not made a second time.
MADE_BY_HAND = """
SELECT sql FROM sqlite_master
WHERE sql IS NOT NULL AND name NOT GLOB 'sqlite_*' AND name NOT GLOB 'memory_fts_*'
ORDER BY rowid
"""


def schema() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "interlock.db"
        upgrade(StoreConfig(f"sqlite:///{path}"))
        with closing(sqlite3.connect(path)) as store:
            [[application]] = store.execute("PRAGMA application_id")
            statements = [sql for (sql,) in store.execute(MADE_BY_HAND)]
    return BETWEEN.join([f"PRAGMA application_id = {application}", *statements]) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema(), "utf-8")
