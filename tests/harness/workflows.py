"""A runtime with workflows, and a person who runs them."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.config.modes import ToolMode
from interlock.sessions.transcript import in_call_order, read_messages
from interlock.wiring.agents import AgentRuntime
from interlock.workflow.run_rows import RunState, WorkflowRun
from tests.harness.runtime import RuntimeHarness, open_agent_runtime_here, set_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "workflows" / "plan_build_review"


class WorkflowHarness(RuntimeHarness):
    def __init__(self, agent_runtime: AgentRuntime, root: Path) -> None:
        super().__init__(agent_runtime, root)
        self.workflows = agent_runtime.runs.folder.path

    def put(self, name: str, graph: str, **files: str) -> None:
        place = self.workflows / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "workflow.toml").write_text(graph)
        for step, text in files.items():
            (place / f"{step}.md").write_text(text)

    def agent(self, name: str, head: str = "", persona: str = "You work.") -> None:
        folder = self.agent_runtime.agents.path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(f"---\ndescription: for tests\n{head}---\n{persona}\n")

    async def start(self, workflow: str, text: str = "", mode: ToolMode = ToolMode.coding) -> str:
        session = await self.agent_runtime.runs.create(workflow, opened_by="test", mode=mode)
        await self.agent_runtime.runs.start(session.id, workflow, text, who="ada")
        return session.id

    async def work(self, session_id: str) -> RunState:
        """Until nothing of it is left to do now."""
        runtime = self.agent_runtime.runtime
        async with runtime.leases.held(session_id, "test") as lease:
            await self.agent_runtime.session_runner().run(lease)
        return await self.run_state(session_id)

    async def run(self, workflow: str, text: str = "", mode: ToolMode = ToolMode.coding) -> RunState:
        return await self.work(await self.start(workflow, text, mode))

    async def run_state(self, session_id: str) -> RunState:
        return await self.agent_runtime.runs.book.run_state(session_id)

    async def get(self, session_id: str) -> WorkflowRun:
        return (await self.run_state(session_id)).run

    def messages(self, session_id: str) -> list[tuple[str, str]]:
        with self.agent_runtime.runtime.database.reading() as connection:
            said = read_messages(connection, session_id, with_handed_over=True)
        return [(message.role.value, message.content) for message in in_call_order(said)]

    def results(self, session_id: str) -> list[dict]:
        return [json.loads(content) for role, content in self.messages(session_id) if role == "tool"]

    async def until_waiting(self, session_id: str) -> str:
        """The question that the run waits for."""
        while not (found := await self.agent_runtime.runtime.questions.open_questions(session_id)):
            await asyncio.sleep(0.01)
        return found[0].id


def names(standing: RunState) -> list[str]:
    return [f"{visit.frame}{visit.node}:{visit.status}" for visit in standing.visits]


@asynccontextmanager
async def open_workflow_harness(tmp_path: Path, monkeypatch, script: str = "", **variables: str):
    own = {"SESSION_OPEN_MODES": "chat,plan,coding", "CONTROL_RETRY_SECONDS": "0.05"}
    if script:
        (tmp_path / "script.txt").write_text(script)
        own["MODEL"] = f"scripted:{tmp_path}/script.txt"
    root = set_environment(tmp_path, monkeypatch, own | variables)
    async with open_agent_runtime_here() as agent_runtime:
        harness = WorkflowHarness(agent_runtime, root)
        if not (harness.workflows / EXAMPLE.name).exists():
            shutil.copytree(EXAMPLE, harness.workflows / EXAMPLE.name)
        yield harness
