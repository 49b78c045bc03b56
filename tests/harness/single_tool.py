"""One tool, one session, one runner, on a real log."""

from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.read import iter_stream
from interlock.log.tree import payload_of
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs, CallLimits
from interlock.redaction.redactor import Redactor
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import ToolContext
from tests.harness.store import StoreHarness
from tests.harness.tools import DeclaredTool

SECRET = "sk-known-secret-value"


class SingleToolHarness:
    """One tool, one session, one runner."""

    def __init__(self, store: StoreHarness, tool: DeclaredTool, session_id: str, **limits: object) -> None:
        self.store, self.tool, self.session_id = store, tool, session_id
        self.registry = ToolRegistry()
        self.registry.register(tool)
        self.authority = compile_authority(
            self.registry, AuthorityInputs(mode=ToolMode.chat_safe, limits=CallLimits(**limits))
        )
        self.runner = ToolRunner(self.registry, store.log, Redactor([SECRET]))

    async def call(self, arguments="{}", name=None, timeout_seconds=None, **context):
        return await self.runner.call(
            ToolCall("call_1", name or self.tool.name, arguments, timeout_seconds),
            self.authority,
            ToolContext(self.session_id, **context),
        )

    def events(self) -> list[tuple[str, dict]]:
        with self.store.database.reading() as connection:
            stored = list(iter_stream(connection, self.session_id))[1:]
        return [(event.header.kind, payload_of(event)) for event in stored]

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events()]
