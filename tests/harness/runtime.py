"""A real runtime in a temporary directory, from store to agents; only the model is scripted.

`RuntimeHarness` is the base of the harnesses for the gateway, Telegram, workflows and MCP, which add their
own process and their own verbs.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.channels.talk import Talk
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.events.catalog import merged
from interlock.gates.verdict import SwitchWay
from interlock.models.provider import Reply
from interlock.sandbox.choice import Choice
from interlock.session.models import Message, Role
from interlock.tools.base import BaseTool
from interlock.wiring import open_runtime
from interlock.wiring.office import Office, open_office, worker_name
from interlock.wiring.situation import NO_SANDBOX
from interlock.worker.rows import Task


class RuntimeHarness:
    """`root` is the directory that tools may work in; `shown` is what a terminal was shown."""

    def __init__(self, office: Office, root: Path) -> None:
        self.office = office
        self.runtime = office.runtime
        self.root = root
        self.shown: list[object] = []

    async def session(self, mode: ToolMode = ToolMode.coding, **more: str) -> str:
        return (await self.runtime.sessions.create(opened_by="test", mode=mode, **more)).id

    def talk(self, session_id: str) -> Talk:
        return Talk(
            session_id,
            person="test",
            holder=worker_name(),
            show=self.shown.append,
            sessions=self.runtime.sessions,
            tasks=self.office.tasks,
            questions=self.runtime.questions,
            leases=self.runtime.leases,
            live=self.office.live,
            work=self.office.session_work(),
        )

    async def say(self, session_id: str, text: str = "go") -> Task:
        """Send a message, as in a terminal, and work on it here until its task ends or waits."""
        return await self.talk(session_id).say(text)

    async def transcript(self, session_id: str) -> list[Message]:
        return await self.runtime.sessions.transcript(session_id)

    async def answers(self, session_id: str) -> dict[str, list[dict[str, Any]]]:
        """The tool messages of a session, by their call's id."""
        found: dict[str, list[dict[str, Any]]] = {}
        for message in await self.transcript(session_id):
            if message.role is Role.tool:
                found.setdefault(message.tool_call_id, []).append(json.loads(message.content))
        return found

    async def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await self.runtime.database.read(lambda db: db.query(sql, parameters))

    def events(self, stream: str, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        """The kind and the fields of each event, all or those of some kinds."""
        statement = "SELECT kind, facts, content FROM events WHERE stream = ? ORDER BY seq"
        with self.runtime.database.reading() as connection:
            rows = connection.query(statement, (stream,))
        return [
            (kind, merged(facts, content)) for kind, facts, content in rows if not kinds or kind in kinds
        ]

    def payloads(self, stream: str, kind: str) -> list[dict[str, Any]]:
        return [fields for _, fields in self.events(stream, kind)]


class RecordingModel:
    """A model that answers "ok" and keeps what it was sent."""

    name = "recorded"

    def __init__(self) -> None:
        self.requests: list[list[tuple[str, str]]] = []

    async def stream(self, request):
        messages = [json.loads(message) for message in request.messages]
        self.requests.append([(message["role"], message.get("content") or "") for message in messages])
        yield Reply("ok")

    async def close(self) -> None:
        pass


def set_environment(tmp_path: Path, monkeypatch, environment: Mapping[str, str]) -> Path:
    """Settings for a process with its state, workspace and root below `tmp_path`. Returns the root."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    own = {
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
    }
    for name, value in (own | dict(environment)).items():
        monkeypatch.setenv(name, value)
    return root


@asynccontextmanager
async def open_office_here(
    *,
    opened: Sequence[ToolMode] = (),
    tools: Sequence[BaseTool] = (),
    sandbox: Choice = NO_SANDBOX,
    way: SwitchWay | None = None,
) -> AsyncIterator[Office]:
    """A runtime with its agents, from the environment as it is; closed in the order a process uses."""
    runtime = open_runtime(Settings(), opened=opened, tools=tools, sandbox=sandbox)
    office = open_office(runtime) if way is None else open_office(runtime, way=way)
    try:
        yield office
    finally:
        await office.close()
        await runtime.close()


@asynccontextmanager
async def open_runtime_harness(
    tmp_path: Path,
    monkeypatch,
    environment: Mapping[str, str],
    *,
    tools: Sequence[BaseTool] = (),
    sandbox: Choice = NO_SANDBOX,
) -> AsyncIterator[RuntimeHarness]:
    """With every mode open."""
    root = set_environment(tmp_path, monkeypatch, environment)
    async with open_office_here(opened=list(ToolMode), tools=tools, sandbox=sandbox) as office:
        yield RuntimeHarness(office, root)


def script(tmp_path: Path, *items: object) -> str:
    """A model that does this, by the words of the setting MODEL."""
    path = tmp_path / f"script{len(list(tmp_path.glob('script*')))}.json"
    path.write_text(json.dumps(list(items)))
    return f"scripted:{path}"


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}
