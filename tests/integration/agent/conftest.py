"""The loop over the real runtime, gates, tools and log; only the model is scripted."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from interlock.agent.agent import AgentLoop, AgentServices
from interlock.agent.breaker import Breakers
from interlock.agent.budget import PriceTable
from interlock.agent.events import AgentEvent
from interlock.agent.limits import ControlLimits
from interlock.agent.prompt_builder import Earlier, PromptBuilder, PromptInputs
from interlock.agent.workspace import WorkspaceFiles
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.events.catalog import merged
from interlock.models.provider import Provider
from interlock.models.script import parse_script
from interlock.models.scripted import Scripted
from interlock.session.models import SessionKind
from interlock.wiring import Runtime, open_runtime

SECRET = "sk-known-secret-value"


class Desk:
    """A runtime with an agent at work in it, and a folder that it may work in."""

    def __init__(self, runtime: Runtime, root: Path) -> None:
        self.runtime = runtime
        self.root = root
        self.limits = ControlLimits(retry_seconds=0.001)
        self.prices = PriceTable({})
        self.context_tokens = 100_000
        self.tool_choice = "default"

    def loop(self, model: str | Provider) -> AgentLoop:
        """`model` is a script, or whatever else is to answer."""
        provider = Scripted(parse_script(model, "test")) if isinstance(model, str) else model
        runtime = self.runtime

        async def inputs_of(_session_id: str, mode: ToolMode, _earlier: Earlier) -> PromptInputs:
            return PromptInputs(kind=SessionKind.chat, authority=await runtime.authority(mode))

        redact = runtime.redactor.text
        files = WorkspaceFiles(runtime.settings.workspace_dir, redact)
        return AgentLoop(
            AgentServices(
                database=runtime.database,
                sessions=runtime.sessions,
                log=runtime.log,
                runner=runtime.runner,
                prompts=PromptBuilder(inputs_of, files, redact, lambda: datetime.now(UTC)),
                redactor=runtime.redactor,
                provider_of=lambda _model: provider,
                breakers=Breakers(self.limits),
                limits=self.limits,
                prices=self.prices,
                context_tokens=self.context_tokens,
                tool_choice=self.tool_choice,
            )
        )

    async def session(self, mode: ToolMode = ToolMode.coding) -> str:
        return (await self.runtime.sessions.create(opened_by="test", mode=mode)).id

    async def say(self, session_id: str, text: str, model: str | Provider) -> list[AgentEvent]:
        return [event async for event in self.loop(model).handle_message(session_id, text)]

    def events(self, session_id: str, *kinds: str) -> list[tuple]:
        statement = (
            "SELECT seq, kind, task, parent, facts, content, id FROM events WHERE stream = ? ORDER BY seq"
        )
        with self.runtime.database.reading() as connection:
            rows = connection.query(statement, (session_id,))
        return [
            (*row[:4], orjson.dumps(merged(row[4], row[5])).decode(), row[6])
            for row in rows
            if not kinds or row[1] in kinds
        ]


@pytest.fixture
async def desk(tmp_path, monkeypatch) -> Iterator[Desk]:
    root = tmp_path / "root"
    root.mkdir()
    for name, value in {
        "INTERLOCK_STATE_DIR": tmp_path / "state",
        "WORKSPACE_DIR": tmp_path / "workspace",
        "TOOL_ALLOWED_ROOTS": root,
        "OPENAI_API_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, str(value))
    runtime = open_runtime(Settings(), opened=list(ToolMode))
    yield Desk(runtime, root)
    await runtime.close()
