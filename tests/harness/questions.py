"""A session in which `ask_user` can be called, on a real log."""

from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.read import iter_stream
from interlock.log.tree import build_tree
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs, Capabilities
from interlock.policy.policy_fields import FsPolicy, ToolPolicy
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.ask_user import AskUserTool
from interlock.tools.registry import ToolRegistry
from interlock.tools.tool import ToolContext
from tests.harness.store import StoreHarness

SECRET = "sk-known-secret-value"
CONFIRMATION = {"type": "confirmation", "message": "Delete the folder?"}


class QuestionHarness:
    """The desk, the tool and the runner above one store."""

    def __init__(self, store: StoreHarness, session_id: str, *, someone: bool = True) -> None:
        self.store, self.session_id = store, session_id
        redactor = Redactor([SECRET])
        self.desk = QuestionService(store.database, store.log, redactor)
        registry = ToolRegistry()
        registry.register(AskUserTool(self.desk))
        self.authority = compile_authority(
            registry,
            AuthorityInputs(
                mode=ToolMode.chat_safe,
                environment=ToolPolicy(fs=FsPolicy(enabled=False)),
                capabilities=Capabilities(present=frozenset({"person"} if someone else ())),
            ),
        )
        self.runner = ToolRunner(registry, store.log, redactor)
        self.calls = 0

    async def call(self, arguments=CONFIRMATION, **context):
        self.calls += 1
        call = ToolCall(f"call_{self.calls}", "ui.ask_user", arguments)
        return await self.runner.call(call, self.authority, ToolContext(self.session_id, **context))

    async def ask(self, arguments=CONFIRMATION, **context):
        result = await self.call(arguments, **context)
        return await self.desk.get(result.question_id)

    def tree(self):
        with self.store.database.reading() as connection:
            return [node.as_json() for node in build_tree(iter_stream(connection, self.session_id))][1:]

    def kinds(self) -> list[str]:
        rows = self.store.query("SELECT kind FROM events WHERE stream = ? ORDER BY seq", self.session_id)
        return [row[0] for row in rows][1:]
