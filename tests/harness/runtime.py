"""A real runtime in a temporary directory, from store to agents; only the model is scripted.

`RuntimeHarness` is the base of the harnesses for the gateway, Telegram, workflows and MCP, which add their
own process and their own verbs.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.channels.terminal.local_session import LocalSession
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.log.kinds import merge_payload
from interlock.models.message_encoding import encode_message
from interlock.models.provider import ModelReply
from interlock.policy.verdict import ModeSwitchMethod
from interlock.runtime.task_rows import Task
from interlock.sandbox.backend_selection import BackendSelection
from interlock.sessions.models import Message, Role
from interlock.tools.tool import BaseTool
from interlock.wiring import open_runtime
from interlock.wiring.agents import AgentRuntime, new_worker_name, open_agent_runtime
from interlock.wiring.authority_inputs import NO_SANDBOX


class RuntimeHarness:
    """`root` is the directory that tools may work in; `shown` is what a terminal was shown."""

    def __init__(self, agent_runtime: AgentRuntime, root: Path) -> None:
        self.agent_runtime = agent_runtime
        self.runtime = agent_runtime.runtime
        self.root = root
        self.shown: list[object] = []

    async def session(self, mode: ToolMode = ToolMode.coding, **more: str) -> str:
        return (await self.runtime.sessions.create(opened_by="test", mode=mode, **more)).id

    def talk(self, session_id: str) -> LocalSession:
        return LocalSession(
            session_id,
            person="test",
            holder=new_worker_name(),
            show=self.shown.append,
            tasks=self.agent_runtime.tasks,
            questions=self.runtime.questions,
            leases=self.runtime.leases,
            hub=self.agent_runtime.hub,
            bus=self.runtime.bus,
            work=self.agent_runtime.session_runner(),
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
            (kind, merge_payload(facts, content))
            for kind, facts, content in rows
            if not kinds or kind in kinds
        ]

    def payloads(self, stream: str, kind: str) -> list[dict[str, Any]]:
        return [fields for _, fields in self.events(stream, kind)]


class RecordingModel:
    """A model that answers "ok" and keeps what it was sent."""

    name = "recorded"

    def __init__(self) -> None:
        self.requests: list[list[tuple[str, str]]] = []

    async def stream(self, request):
        messages = [json.loads(encode_message(message)) for message in request.messages]
        self.requests.append([(message["role"], message.get("content") or "") for message in messages])
        yield ModelReply("ok")

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
async def open_agent_runtime_here(
    *,
    opened: Sequence[ToolMode] = (),
    tools: Sequence[BaseTool] = (),
    sandbox: BackendSelection = NO_SANDBOX,
    way: ModeSwitchMethod | None = None,
) -> AsyncIterator[AgentRuntime]:
    """A runtime with its agents, from the environment as it is; closed in the order a process uses."""
    runtime = open_runtime(Settings(), opened=opened, tools=tools, sandbox=sandbox)
    agent_runtime = open_agent_runtime(runtime) if way is None else open_agent_runtime(runtime, way=way)
    try:
        yield agent_runtime
    finally:
        await agent_runtime.close()
        await runtime.close()


@asynccontextmanager
async def open_runtime_harness(
    tmp_path: Path,
    monkeypatch,
    environment: Mapping[str, str],
    *,
    tools: Sequence[BaseTool] = (),
    sandbox: BackendSelection = NO_SANDBOX,
) -> AsyncIterator[RuntimeHarness]:
    """With every mode open."""
    root = set_environment(tmp_path, monkeypatch, environment)
    async with open_agent_runtime_here(
        opened=list(ToolMode), tools=tools, sandbox=sandbox
    ) as agent_runtime:
        yield RuntimeHarness(agent_runtime, root)


def script(tmp_path: Path, *items: object) -> str:
    """A model that does this, by the words of the setting MODEL."""
    path = tmp_path / f"script{len(list(tmp_path.glob('script*')))}.json"
    path.write_text(json.dumps(list(items)))
    return f"scripted:{path}"


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}
