"""`interlock telegram` as a real process against a Bot API double."""

import asyncio
import json
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

from interlock.log.kinds import merge_payload
from tests.harness.cli_processes import same_code
from tests.harness.fork_client import ForkClient
from tests.harness.telegram_server import TOKEN, TelegramServer

ADA, BOB, EVE = 501, 502, 666
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class BotProcess:
    def __init__(
        self, nursery: ForkClient, folder: Path, telegram: TelegramServer, *items: Any, **variables: str
    ) -> None:
        (folder / "token").write_text(TOKEN)
        self.folder = folder
        self.telegram = telegram
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "INTERLOCK_STATE_DIR": str(folder / "state"),
            "WORKSPACE_DIR": str(folder / "workspace"),
            "MODEL": f"scripted:{json.dumps(list(items))}",
            "TELEGRAM_BOT_TOKEN_FILE": str(folder / "token"),
            "TELEGRAM_BASE_URL": telegram.base_url,
            "TELEGRAM_ALLOWED_USERS": f"{ADA},{BOB}",
            "TELEGRAM_PENDING_SECONDS": "0.1",
            "SESSION_LEASE_SECONDS": "6",
            "WORKER_POLL_SECONDS": "0.2",
            **same_code(),
            **variables,
        }
        self._nursery = nursery
        self._pid: int | None = None

    def start(self, *options: str, dies_at: str = "") -> None:
        """Whole, or one that kills itself at a moment."""
        self._pid = self._nursery.start(
            "telegram",
            *options,
            environment=self.environment,
            folder=self.folder,
            streams=(os.devnull, *[str(self.folder / "output")] * 2),
            dies_at=dies_at,
        )

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            code = await asyncio.to_thread(self._nursery.wait, self._pid)
        self._pid = None
        return code

    async def stop(self) -> int:
        os.kill(self._pid, signal.SIGTERM)
        return await self.ended()

    def freeze(self) -> None:
        """At a moment at which it does not write: nobody else could."""
        while True:
            os.kill(self._pid, signal.SIGSTOP)
            store = sqlite3.connect(
                self.folder / "state" / "interlock.db", timeout=0.5, isolation_level=None
            )
            try:
                store.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                self.wake()
            finally:
                store.close()

    def wake(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self._nursery.wait(self._pid)
            self._pid = None

    async def replied(self, count: int = 1) -> None:
        """So many answers are recorded as sent."""
        async with asyncio.timeout(PATIENCE):
            while len(self.events("reply.sent")) < count:
                await asyncio.sleep(0.05)

    async def rests(self) -> None:
        """Nobody holds a session: what was asked for is done, and all is given back."""
        async with asyncio.timeout(PATIENCE):
            while self._query("SELECT 1 FROM leases WHERE name LIKE 'session:%' AND expires_ms > 0"):
                await asyncio.sleep(0.05)

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    def interlock(self, *words: str) -> str:
        done = self._nursery.run(*words, environment=self.environment, folder=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def events(self, kind: str) -> list[dict[str, Any]]:
        rows = self._query("SELECT facts, content FROM events WHERE kind = ? ORDER BY position", kind)
        return [merge_payload(*row) for row in rows]

    def _query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        store = sqlite3.connect(self.folder / "state" / "interlock.db")
        rows = store.execute(sql, parameters).fetchall()
        store.close()
        return rows
