"""One agent loop over a real runtime, gates, tools and log, called without a worker."""

from datetime import UTC, datetime
from pathlib import Path

import orjson

from interlock.agent.budget import PriceTable
from interlock.agent.circuit_breaker import CircuitBreakers
from interlock.agent.events import AgentEvent
from interlock.agent.loop import AgentLoop, AgentServices
from interlock.agent.prompt_builder import PromptBuilder, PromptInputs
from interlock.agent.workspace_files import WorkspaceFiles
from interlock.config.modes import ToolMode
from interlock.log.kinds import merge_payload
from interlock.models.provider import ModelProvider
from interlock.models.script import parse_script
from interlock.models.scripted_provider import ScriptedProvider
from interlock.policy.authority import Authority
from interlock.sessions.models import SessionKind
from interlock.wiring import Runtime
from interlock.wiring.agents import AgentRuntime
from tests.harness.runtime import RuntimeHarness
from tests.harness.task_limits import task_limits

SECRET = "sk-known-secret-value"


class _ChatPromptInputs:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def begin(
        self, _session_id: str, _mode: ToolMode, _pin: tuple[str, str] | None, _who: str
    ) -> PromptInputs:
        return PromptInputs(SessionKind.chat)

    async def authority(self, _session_id: str, mode: ToolMode, _inputs: PromptInputs) -> Authority:
        return await self._runtime.authority(mode)


class LoopHarness(RuntimeHarness):
    def __init__(self, agent_runtime: AgentRuntime, root: Path) -> None:
        super().__init__(agent_runtime, root)
        self.limits = task_limits(retry_seconds=0.001)
        self.prices = PriceTable({})
        self.context_tokens = 100_000
        self.tool_choice = "default"
        self.writes_summaries = False
        # What the model's name in MODELS would be followed by.
        self.fallbacks: dict[str, ModelProvider] = {}
        self.breakers: CircuitBreakers | None = None

    def loop(self, model: str | ModelProvider) -> AgentLoop:
        """`model` is a script, or whatever else is to answer."""
        provider = ScriptedProvider(parse_script(model, "test")) if isinstance(model, str) else model
        runtime = self.runtime

        redact = runtime.redactor.text
        files = WorkspaceFiles(runtime.settings.workspace_dir, redact)
        return AgentLoop(
            AgentServices(
                database=runtime.database,
                sessions=runtime.sessions,
                log=runtime.log,
                runner=runtime.runner,
                prompts=PromptBuilder(_ChatPromptInputs(runtime), files, redact, lambda: datetime.now(UTC)),
                redactor=runtime.redactor,
                provider_of=lambda model: self.fallbacks.get(model, provider),
                fallbacks_of=lambda _model: tuple(self.fallbacks),
                breakers=self.breakers or CircuitBreakers(self.limits),
                limits=self.limits,
                prices=self.prices,
                context_tokens=self.context_tokens,
                tool_choice=self.tool_choice,
                writes_summaries=self.writes_summaries,
            )
        )

    async def run(self, session_id: str, text: str, model: str | ModelProvider) -> list[AgentEvent]:
        return [event async for event in self.loop(model).handle_message(session_id, text)]

    def event_rows(self, session_id: str, *kinds: str) -> list[tuple]:
        """(seq, kind, task, parent, fields as JSON, id) of each event."""
        statement = (
            "SELECT seq, kind, task, parent, facts, content, id FROM events WHERE stream = ? ORDER BY seq"
        )
        with self.runtime.database.reading() as connection:
            rows = connection.query(statement, (session_id,))
        return [
            (*row[:4], orjson.dumps(merge_payload(row[4], row[5])).decode(), row[6])
            for row in rows
            if not kinds or row[1] in kinds
        ]
