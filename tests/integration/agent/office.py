"""An office with everything in it, and a person who talks with its agents."""

import json
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.channels.talk import Talk
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.events.catalog import merged
from interlock.models.provider import Reply
from interlock.sandbox.choice import Choice
from interlock.session.models import Message, Role
from interlock.tools.base import BaseTool
from interlock.wiring import open_runtime
from interlock.wiring.office import Office, open_office, worker_name
from interlock.wiring.situation import NO_SANDBOX
from interlock.worker.rows import Task


class Person:
    """`told` is what they were shown."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.told: list[object] = []

    async def session(self, mode: ToolMode = ToolMode.coding, **more: str) -> str:
        return (await self.office.runtime.sessions.create(opened_by="test", mode=mode, **more)).id

    def talk(self, session_id: str) -> Talk:
        office, runtime = self.office, self.office.runtime
        return Talk(
            session_id,
            person="test",
            holder=worker_name(),
            show=self.told.append,
            sessions=runtime.sessions,
            tasks=office.tasks,
            questions=runtime.questions,
            leases=runtime.leases,
            live=office.live,
            work=office.session_work(),
        )

    async def say(self, session_id: str, text: str = "go") -> Task:
        return await self.talk(session_id).say(text)

    async def answers(self, session_id: str) -> dict[str, list[dict]]:
        """The tool messages of a session, by their call's id."""
        found: dict[str, list[dict]] = {}
        for message in await self.transcript(session_id):
            if message.role is Role.tool:
                found.setdefault(message.tool_call_id, []).append(json.loads(message.content))
        return found

    async def transcript(self, session_id: str) -> list[Message]:
        return await self.office.runtime.sessions.transcript(session_id)

    def payloads(self, session_id: str, kind: str) -> list[dict]:
        statement = "SELECT facts, content FROM events WHERE stream = ? AND kind = ? ORDER BY seq"
        with self.office.runtime.database.reading() as connection:
            return [merged(*row) for row in connection.query(statement, (session_id, kind))]


class Recorded:
    """A model that answers "ok" and keeps what it was told."""

    name = "recorded"

    def __init__(self) -> None:
        self.heard: list[list[tuple[str, str]]] = []

    async def stream(self, request):
        messages = [json.loads(message) for message in request.messages]
        self.heard.append([(message["role"], message.get("content") or "") for message in messages])
        yield Reply("ok")

    async def close(self) -> None:
        pass


@asynccontextmanager
async def opened(
    tmp_path: Path,
    monkeypatch,
    variables: Mapping[str, str],
    *,
    tools: Sequence[BaseTool] = (),
    sandbox: Choice = NO_SANDBOX,
):
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    own = {
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
    }
    for name, value in (own | dict(variables)).items():
        monkeypatch.setenv(name, value)
    runtime = open_runtime(Settings(), opened=list(ToolMode), tools=tools, sandbox=sandbox)
    office = open_office(runtime)
    try:
        yield Person(office)
    finally:
        await office.close()
        await runtime.close()


def script(tmp_path: Path, *items: object) -> str:
    """A model that does this, by the words of the setting MODEL."""
    path = tmp_path / f"script{len(list(tmp_path.glob('script*')))}.json"
    path.write_text(json.dumps(list(items)))
    return f"scripted:{path}"


def call(name: str, **arguments: object) -> dict:
    return {"name": name, "arguments": arguments}
