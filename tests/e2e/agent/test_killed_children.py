"""SIGKILL in the middle of a task that was handed over: told as interrupted, and nothing done twice."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.db.database import open_database
from interlock.sessions.models import Role
from interlock.sessions.transcript import read_task_messages
from interlock.wiring.projections import verify
from tests.e2e.agent.dying_worker import Round
from tests.e2e.agent.test_killed_at_every_event import KILLED, WELL, play
from tests.harness.cli_processes import ProcessHarness
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness

SCRIPT = """\
call:delegate {"agent": "helper", "task": "Add a line."}
msg:All of it is told.
when:Add a line
call:write_file {"path": "log.txt", "content": "line\\n", "mode": "append"}
msg:The line is there.
"""


@dataclass(frozen=True)
class Begun:
    harness: ProcessHarness
    session: str
    task: str

    def copied(self, home: Path) -> "Begun":
        shutil.copytree(self.harness.home, home)
        more = {"TOOL_ALLOWED_ROOTS": str(home / "project")}
        return Begun(ProcessHarness(home, self.harness.variables | more), self.session, self.task)

    def round(self, moment: str = "", at: int = 0) -> Round:
        return Round(
            environment=self.harness.environment,
            session=self.session,
            task=self.task,
            acknowledged=str(self.harness.home / "acknowledged"),
            moment=moment,
            at=at,
        )


@pytest.fixture
async def begun(tmp_path, new_state, sqlite_config) -> Begun:
    harness = ProcessHarness(
        tmp_path / "begun",
        {
            "SESSION_OPEN_MODES": "coding",
            "SESSION_LEASE_SECONDS": "4",
            "WORKER_POLL_SECONDS": "0.1",
            "MODEL": f"scripted:{tmp_path}/script.txt",
        },
    )
    (tmp_path / "script.txt").write_text(SCRIPT)
    harness.root.mkdir(parents=True)
    harness.variables["TOOL_ALLOWED_ROOTS"] = str(harness.root)
    agents = harness.home / "workspace" / "agents"
    agents.mkdir(parents=True)
    (agents / "helper.md").write_text("---\ndescription: helps\n---\nYou help.\n")
    shutil.copytree(new_state, harness.state, dirs_exist_ok=True)
    store = open_store(sqlite_config)
    tasks = TaskHarness(store)
    session = await tasks.session(ToolMode.coding)
    task = await tasks.put(session, "before you delegate")
    store.close()
    shutil.copy(tmp_path / "state" / "interlock.db", harness.state / "interlock.db")
    return Begun(harness, session, task.id)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.full)])
async def test_killed_within_a_child_its_parent_knows_and_nothing_is_repeated(begun, tmp_path, every):
    """Daily at one moment; at every one in `make test-full`."""
    undisturbed = begun.copied(tmp_path / "undisturbed")
    assert await play([undisturbed.round()]) == [[WELL]]
    events = undisturbed.harness.events(session=begun.session)
    inside = [event for event in events if event.task == f"{begun.task}.1"]
    assert {"agent.started", "tool_call.started", "tool_call.completed"} <= {e.kind for e in inside}
    assert told_of(undisturbed)["stdout"] == "The line is there.\n"
    commits = sorted({int(line.split()[0]) for line in acknowledged(undisturbed)})
    moments = sorted({next(c for c in commits if c >= event.seq) for event in inside})
    assert len(moments) >= 5
    if not every:
        moments = [moments[len(moments) // 2]]
    copies = [begun.copied(tmp_path / f"after-{at}") for at in moments]
    codes = await play(one.round("after", at) for one, at in zip(copies, moments, strict=True))
    for one, at, ends in zip(copies, moments, codes, strict=True):
        assert ends == [KILLED, WELL], at
        assert_honest(one, at)


def acknowledged(begun: Begun) -> list[str]:
    return (begun.harness.home / "acknowledged").read_text().splitlines()


def told_of(begun: Begun) -> dict:
    """What the parent was told of the one call it made."""
    database = open_database(begun.harness.config)
    try:
        with database.reading() as connection:
            said = read_task_messages(connection, begun.session, 0, begun.task)
    finally:
        database.close()
    (result,) = [message.content for message in said if message.role is Role.tool]
    return json.loads(result)


def assert_honest(begun: Begun, at: int) -> None:
    harness = begun.harness
    ((status,),) = harness.query("SELECT status FROM tasks WHERE id = ?", begun.task)
    assert status == "done", at
    told = told_of(begun)
    # A worker that the store did not answer in time cancels what it does: that is known, too.
    assert told["ok"] or told["error_code"] in {"INTERRUPTED", "CANCELLED"}, (at, told)
    written = harness.root / "log.txt"
    lines = written.read_text().splitlines() if written.exists() else []
    assert len(lines) <= 1, at
    started = [e.fields["tool_name"] for e in harness.events("tool_call.started", session=begun.session)]
    assert sorted(started) in (["delegate"], ["delegate", "write_file"]), at
    open_intents = {e.id for e in harness.events("tool_call.started", session=begun.session)} - {
        e.parent
        for e in harness.events(
            *("tool_call.completed", "tool_call.failed", "tool_call.interrupted"), session=begun.session
        )
    }
    assert open_intents == set(), at
    database = open_database(harness.config)
    with database.reading() as connection:
        assert verify(connection, only=begun.session).ok
    database.close()
