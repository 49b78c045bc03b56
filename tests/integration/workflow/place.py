"""An office with workflows in it, and a person who runs them."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.events.catalog import merged
from interlock.wiring import open_runtime
from interlock.wiring.office import Office, open_office
from interlock.workflow.rows import Run, Standing

EXAMPLE = Path(__file__).parents[3] / "examples" / "workflows" / "plan_build_review"


class Hall:
    """`root` is the folder that steps may work in."""

    def __init__(self, office: Office, root: Path) -> None:
        self.office, self.root = office, root
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

    def events(self, session_id: str, *kinds: str) -> list[tuple[str, dict]]:
        statement = "SELECT kind, facts, content FROM events WHERE stream = ? ORDER BY seq"
        with self.office.runtime.database.reading() as connection:
            rows = connection.query(statement, (session_id,))
        told = [(kind, merged(facts, content)) for kind, facts, content in rows]
        return [each for each in told if not kinds or each[0] in kinds]

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
async def opened(tmp_path: Path, monkeypatch, script: str = "", **variables: str):
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    own = {
        "INTERLOCK_STATE_DIR": str(tmp_path / "state"),
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "TOOL_ALLOWED_ROOTS": str(root),
        "SESSION_OPEN_MODES": "chat,plan,coding",
        "CONTROL_RETRY_SECONDS": "0.05",
    }
    if script:
        (tmp_path / "script.txt").write_text(script)
        own["MODEL"] = f"scripted:{tmp_path}/script.txt"
    for name, value in (own | variables).items():
        monkeypatch.setenv(name, value)
    runtime = open_runtime(Settings())
    office = open_office(runtime)
    hall = Hall(office, root)
    if not (hall.workflows / EXAMPLE.name).exists():
        shutil.copytree(EXAMPLE, hall.workflows / EXAMPLE.name)
    try:
        yield hall
    finally:
        await office.close()
        await runtime.close()
