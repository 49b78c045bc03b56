"""Ctrl-C of `interlock exec` at the worst moments: nobody goes on with what was cancelled."""

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import contextmanager

import psycopg
import pytest

from tests.harness.cli import CliRunner
from tests.harness.terminal import script

LEASE_SECONDS = 1.5
SLOW_PUT = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION slow()
"""
IS_BEING_PUT = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
)
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


@pytest.fixture
def shell(tmp_path) -> CliRunner:
    items = ["sleep:4000", "msg:It ran on."]
    return CliRunner(
        tmp_path,
        {
            "WORKSPACE_DIR": str(tmp_path / "workspace"),
            "MODEL": script(tmp_path, *items),
            "SESSION_LEASE_SECONDS": str(LEASE_SECONDS),
            "DATABASE_BUSY_TIMEOUT_SECONDS": "0.3",
        },
    )


@pytest.fixture
def postgres(postgres_server):
    with postgres_server.database() as config:
        yield config


@contextmanager
def executing(shell: CliRunner):
    with shell.start("exec", "go", stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def until(found, running: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert running.poll() is None, running.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def assert_cancelled(shell: CliRunner, running: subprocess.Popen, *, attempts: int) -> None:
    _out, told = running.communicate(timeout=60)
    (task,) = shell.json("tasks", "list")
    assert (task["status"], task["attempts"]) == ("cancelled", attempts), told
    assert running.returncode == 130
    assert shell.json("events", "verify")["ok"] is True


def test_in_the_very_commit_that_puts_its_task(shell, postgres):
    shell.variables |= {"DATABASE_URL": postgres.url, "DATABASE_BUSY_TIMEOUT_SECONDS": "10"}
    with psycopg.connect(postgres.url, autocommit=True) as admin, executing(shell) as running:
        admin.execute(SLOW_PUT)
        until(lambda: admin.execute(IS_BEING_PUT).fetchall(), running)
        os.kill(running.pid, signal.SIGINT)
        running.wait(60)
        admin.execute("DROP TRIGGER slow ON tasks")
        assert_cancelled(shell, running, attempts=0)


@contextmanager
def locked(shell: CliRunner):
    connection = sqlite3.connect(shell.home / "state" / "interlock.db", isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


@contextmanager
def closed(address: str, name: str):
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        admin.execute(TERMINATE, (name,))
        yield
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("away_seconds", [pytest.param(0.5, marks=pytest.mark.full), 2 * LEASE_SECONDS])
def test_while_the_store_is_away_shorter_or_longer_than_the_lease(shell, request, database, away_seconds):
    away = locked(shell)
    if database == "postgresql":
        config, server = (request.getfixturevalue(name) for name in ("postgres", "postgres_server"))
        shell.variables["DATABASE_URL"] = config.url
        with psycopg.connect(config.url) as connection:
            name = connection.info.dbname
        away = closed(server.address, name)
    with executing(shell) as running:
        until(lambda: shell.json("tasks", "list", "--status", "running"), running)
        with away:
            os.kill(running.pid, signal.SIGINT)
            time.sleep(away_seconds)
        assert_cancelled(shell, running, attempts=1)
