"""A machine with `interlock` on it, a folder to work in and a model's server: commands are processes.

The server answers on the test's own event loop meanwhile.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.db.database import StoreConfig, open_database
from interlock.log.kinds import merge_payload
from interlock.sessions.models import Message, Role
from interlock.sessions.transcript import in_call_order, read_messages
from interlock.wiring.projections import verify
from tests.harness.fork_client import shared_fork_client
from tests.harness.model_request_checks import message_faults
from tests.harness.model_server import KEY, ModelServer

PATIENCE_SECONDS = 120.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class CompletedCommand:
    code: int
    stdout: str
    stderr: str

    @property
    def last_lines(self) -> list[str]:
        """What a person reads at the end: why it ended, and where it is recorded."""
        return self.stderr.splitlines()[-2:]


@dataclass(frozen=True)
class LoggedEvent:
    """One event as the store has it."""

    seq: int
    kind: str
    id: str
    parent: str | None
    task: str | None
    fields: dict[str, Any]


@dataclass
class ProcessHarness:
    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.home / "project"

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "INTERLOCK_STATE_DIR": str(self.state),
            "WORKSPACE_DIR": str(self.home / "workspace"),
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
        }
        return own | same_code() | self.variables

    def asks(self, server: ModelServer) -> None:
        """From now on the model is that server's."""
        self.variables |= {
            "MODEL": "openai:double-1",
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": KEY,
        }

    def follows(self, *script: str) -> None:
        """From now on the model is scripted."""
        file = self.home / "script.txt"
        file.write_text("\n".join(script))
        self.variables["MODEL"] = f"scripted:{file}"

    async def start(self, *arguments: str, module: str = "interlock") -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.home,
            env=self.environment,
        )

    async def run(self, *arguments: str, expect: int = 0) -> CompletedCommand:
        """To its end, in a process that is forked from one with everything loaded."""
        ran = await asyncio.to_thread(
            shared_fork_client().run,
            *arguments,
            environment=self.environment,
            folder=self.home,
            seconds=PATIENCE_SECONDS,
        )
        return _as_expected(ran.returncode, ran.stdout, ran.stderr, expect)

    async def execute(
        self, task: str, *options: str, mode: str = "coding", expect: int = 0
    ) -> CompletedCommand:
        """`interlock exec` in the folder, as a script would."""
        place = ("--mode", mode, "--root", str(self.root)) if mode != "chat_safe" else ()
        return await self.run("exec", task, *place, *options, expect=expect)

    # -- what is on disk afterwards --

    @property
    def config(self) -> StoreConfig:
        given = self.variables.get("DATABASE_URL") or f"sqlite:///{self.state}/interlock.db"
        return StoreConfig(given, busy_timeout_seconds=5)

    def query(self, statement: str, *parameters: object) -> list[tuple]:
        connection = self.config.connect()
        try:
            return connection.query(statement, parameters)
        finally:
            connection.close()

    def sessions(self) -> list[str]:
        return [row[0] for row in self.query("SELECT id FROM sessions ORDER BY created_us, id")]

    @property
    def session(self) -> str:
        (only,) = self.sessions()
        return only

    def events(self, *kinds: str, session: str | None = None) -> list[LoggedEvent]:
        columns = "seq, kind, id, parent, task, facts, content"
        statement = f"SELECT {columns} FROM events WHERE stream = ? ORDER BY seq"
        rows = self.query(statement, session or self.session)
        told = [LoggedEvent(*row[:5], fields=merge_payload(*row[5:])) for row in rows]
        return [event for event in told if not kinds or event.kind in kinds]

    def only(self, kind: str, session: str | None = None) -> dict[str, Any]:
        (event,) = self.events(kind, session=session)
        return event.fields

    def messages(self, session: str | None = None) -> list[dict[str, Any]]:
        """The stored transcript in the form of a request to a provider."""
        return [_message(message) for message in self.transcript(session)]

    def transcript(self, session: str | None = None) -> list[Message]:
        database = open_database(self.config)
        try:
            with database.reading() as connection:
                return in_call_order(
                    read_messages(connection, session or self.session, with_handed_over=True)
                )
        finally:
            database.close()

    def results(self, session: str | None = None) -> list[dict[str, Any]]:
        """What the model was told of each of its calls, in order."""
        return [json.loads(m["content"]) for m in self.messages(session) if m["role"] == "tool"]

    def assert_sound(self, session: str | None = None) -> None:
        """The chain verifies; every call has its one answer, and a provider would take the transcript."""
        database = open_database(self.config)
        try:
            with database.reading() as connection:
                assert verify(connection).ok
        finally:
            database.close()
        messages = self.messages(session)
        # What comes next would be a person's message, whatever the last one was.
        assert message_faults([*messages, {"role": "user", "content": "and?"}], as_given) == []
        asked = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        assert sorted(asked) == sorted(answered)
        assert len(set(asked)) == len(asked)


def same_code() -> dict[str, str]:
    """Where this process was told to find the code, its children find it too."""
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def as_given(arguments: str) -> dict[str, Any]:
    """The transcript keeps what the model wrote, valid or not; only what is sent must be valid."""
    return {}


def _message(message: Message) -> dict[str, Any]:
    role, content = message.role.value, message.content
    if message.role is Role.tool:
        return {"role": role, "content": content, "tool_call_id": message.tool_call_id}
    if not message.tool_calls:
        return {"role": role, "content": content}
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in message.tool_calls
    ]
    return {"role": role, "content": content, "tool_calls": calls}


async def ended(process: asyncio.subprocess.Process, expect: int = 0) -> CompletedCommand:
    """What it said and how it ended. A process that does not end is killed."""
    try:
        said, told = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    except TimeoutError:
        process.send_signal(signal.SIGKILL)
        said, told = await process.communicate()
        raise AssertionError(f"it did not end: {told.decode()}") from None
    return _as_expected(process.returncode, said, told, expect)


def _as_expected(code: int, said: bytes, told: bytes, expect: int) -> CompletedCommand:
    ran = CompletedCommand(code, said.decode(), told.decode())
    assert ran.code == expect, ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr
    return ran


def walk(tree: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in tree:
        yield node
        yield from walk(node["children"])
