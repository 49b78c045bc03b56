"""A runtime with workflows, and a person who runs them."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.config.modes import ToolMode
from interlock.wiring.office import Office
from interlock.workflow.rows import Run, Standing
from tests.harness.runtime import RuntimeHarness, open_office_here, set_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "workflows" / "plan_build_review"


class WorkflowHarness(RuntimeHarness):
    def __init__(self, office: Office, root: Path) -> None:
        super().__init__(office, root)
        self.workflows = office.runs.folder.path

    def put(self, name: str, graph: str, **files: str) -> None:
        place = self.workflows / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "workflow.toml").write_text(graph)
        for step, text in files.items():
            (place / f"{step}.md").write_text(text)

    def agent(self, name: str, head: str = "", persona: str = "You work.") -> None:
        folder = self.office.agents.path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(f"---\ndescription: for tests\n{head}---\n{persona}\n")

    async def start(self, workflow: str, text: str = "", mode: ToolMode = ToolMode.coding) -> str:
        session = await self.office.runs.create(workflow, opened_by="test", mode=mode)
        await self.office.runs.start(session.id, workflow, text, who="ada")
        return session.id

    async def work(self, session_id: str) -> Standing:
        """Until nothing of it is left to do now."""
        runtime = self.office.runtime
        async with runtime.leases.held(session_id, "test") as lease:
            await self.office.session_work().run(lease)
        return await self.standing(session_id)

    async def run(self, workflow: str, text: str = "", mode: ToolMode = ToolMode.coding) -> Standing:
        return await self.work(await self.start(workflow, text, mode))

    async def standing(self, session_id: str) -> Standing:
        return await self.office.runs.book.standing(session_id)

    async def get(self, session_id: str) -> Run:
        return (await self.standing(session_id)).run

    def messages(self, session_id: str) -> list[tuple[str, str]]:
        statement = "SELECT role, content FROM messages WHERE session_id = ? ORDER BY seq"
        with self.office.runtime.database.reading() as connection:
            return connection.query(statement, (session_id,))

    def results(self, session_id: str) -> list[dict]:
        return [json.loads(content) for role, content in self.messages(session_id) if role == "tool"]

    async def until_waiting(self, session_id: str) -> str:
        """The question that the run waits for."""
        while not (found := await self.office.runtime.questions.open_questions(session_id)):
            await asyncio.sleep(0.01)
        return found[0].id


def names(standing: Standing) -> list[str]:
    return [f"{visit.frame}{visit.node}:{visit.status}" for visit in standing.visits]


@asynccontextmanager
async def open_workflow_harness(tmp_path: Path, monkeypatch, script: str = "", **variables: str):
    own = {"SESSION_OPEN_MODES": "chat,plan,coding", "CONTROL_RETRY_SECONDS": "0.05"}
    if script:
        (tmp_path / "script.txt").write_text(script)
        own["MODEL"] = f"scripted:{tmp_path}/script.txt"
    root = set_environment(tmp_path, monkeypatch, own | variables)
    async with open_office_here() as office:
        harness = WorkflowHarness(office, root)
        if not (harness.workflows / EXAMPLE.name).exists():
            shutil.copytree(EXAMPLE, harness.workflows / EXAMPLE.name)
        yield harness
