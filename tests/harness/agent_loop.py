"""One agent loop over a real runtime, gates, tools and log, called without a worker."""

from datetime import UTC, datetime
from pathlib import Path

import orjson

from interlock.agent.agent import AgentLoop, AgentServices
from interlock.agent.breaker import Breakers
from interlock.agent.budget import PriceTable
from interlock.agent.events import AgentEvent
from interlock.agent.limits import ControlLimits
from interlock.agent.prompt_builder import Earlier, PromptBuilder, PromptInputs
from interlock.agent.workspace import WorkspaceFiles
from interlock.config.modes import ToolMode
from interlock.events.catalog import merged
from interlock.models.provider import Provider
from interlock.models.script import parse_script
from interlock.models.scripted import Scripted
from interlock.session.models import SessionKind
from interlock.wiring.office import Office
from tests.harness.runtime import RuntimeHarness

SECRET = "sk-known-secret-value"


class LoopHarness(RuntimeHarness):
    def __init__(self, office: Office, root: Path) -> None:
        super().__init__(office, root)
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

    async def run(self, session_id: str, text: str, model: str | Provider) -> list[AgentEvent]:
        return [event async for event in self.loop(model).handle_message(session_id, text)]

    def event_rows(self, session_id: str, *kinds: str) -> list[tuple]:
        """(seq, kind, task, parent, fields as JSON, id) of each event."""
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
