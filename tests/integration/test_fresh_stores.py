"""A new embedded store is made from its schema at once, and is what the steps would have led to."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from scripts.schema import schema

from interlock.core.errors import StoreError
from interlock.db import store_creation
from interlock.db.database import StoreConfig, open_database, stored_revision
from interlock.db.store_creation import SCHEMA, create_if_new
from interlock.db.upgrade import upgrade


def config_in(folder: Path) -> StoreConfig:
    return StoreConfig(f"sqlite:///{folder / 'interlock.db'}")


def contents(config: StoreConfig) -> dict[str, object]:
    """Everything in it, but for the name that each store has for itself."""
    with closing(sqlite3.connect(config.path)) as store:
        tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {
            name: store.execute(f'SELECT * FROM "{name}"').fetchall()
            for name in tables
            if name not in {"memory_fts", "store_info"}
        }
        return {
            "objects": sorted(
                store.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"), key=str
            ),
            "rows": rows,
            "names": [name for (name,) in store.execute("SELECT key FROM store_info")],
            "pragmas": [
                store.execute(f"PRAGMA {name}").fetchone()
                for name in ("application_id", "user_version", "page_size", "auto_vacuum", "encoding")
            ],
        }


def test_it_is_what_the_steps_lead_to(tmp_path):
    made, stepped = config_in(tmp_path / "made"), config_in(tmp_path / "stepped")
    assert create_if_new(made)
    upgrade(stepped)
    assert contents(made) == contents(stepped)


def test_the_written_schema_is_not_stale():
    assert SCHEMA.read_text("utf-8") == schema(), "the schema has changed: make schema"


def test_each_store_has_a_name_of_its_own(tmp_path):
    names = set()
    for number in range(3):
        config = config_in(tmp_path / str(number))
        create_if_new(config)
        with closing(sqlite3.connect(config.path)) as store:
            names.add(store.execute("SELECT value FROM store_info WHERE key = 'store_id'").fetchone())
    assert len(names) == 3


def test_what_is_there_is_left_alone(tmp_path):
    config = config_in(tmp_path)
    assert create_if_new(config)
    before = contents(config)
    assert not create_if_new(config)
    assert contents(config) == before


def test_those_that_come_together_make_it_once(tmp_path):
    config = config_in(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: create_if_new(config), range(8))) == [False] * 7 + [True]


def test_one_that_is_half_made_is_not_there(tmp_path, monkeypatch):
    config = config_in(tmp_path)
    monkeypatch.setattr(store_creation, "_FIRST_ROWS", (("INSERT INTO nowhere VALUES (?)", lambda: 1),))
    with pytest.raises(StoreError):
        create_if_new(config)
    assert stored_revision(config) is None
    monkeypatch.undo()
    open_database(config).close()
    assert stored_revision(config) is not None


def test_a_first_start_needs_none_of_what_the_steps_need(tmp_path):
    program = (
        "import sys; from interlock.db.database import StoreConfig, open_database;"
        "open_database(StoreConfig(sys.argv[1])).close();"
        "print([name for name in ('alembic', 'sqlalchemy') if name in sys.modules])"
    )
    url = f"sqlite:///{tmp_path / 'interlock.db'}"
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
