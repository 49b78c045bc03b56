"""Calls that are answered from memory: the intent and the outcome share a commit (ADR 0006)."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.core.errors import AuditUnavailable, SessionFenced, StoreError
from interlock.gates.recovery import record_interrupted_calls
from interlock.log.stream_appender import EventScope
from interlock.log.writer import TaskAppender
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, PolicySwitch
from interlock.wiring.projections import PROJECTIONS
from tests.harness.single_tool import SECRET, SingleToolHarness
from tests.harness.tools import DeclaredTool


class Ready(DeclaredTool):
    """A tool that has its answer in memory."""

    def __init__(self, answer=None, **declared) -> None:
        super().__init__(**declared)
        self.answer = answer or (lambda: ToolResult(stdout="known"))
        self.answered = 0

    async def prepare(self, arguments, context):
        self.answered += 1
        return self.answer()


def times(make_harness: SingleToolHarness) -> list[tuple[str, int]]:
    return make_harness.store.query(
        "SELECT kind, time_us FROM events WHERE stream = ? AND seq > 1 ORDER BY seq",
        make_harness.session_id,
    )


async def test_intent_and_outcome_are_written_together_and_in_order(make_harness):
    ready = make_harness(Ready())
    result = await ready.call('{"text": "hello"}', scope=EventScope("task_1", "turn_1"))
    assert (result.stdout, ready.tool.answered, ready.tool.calls) == ("known", 1, 0)
    (started, intent), (completed, outcome) = ready.events()
    assert (started, completed) == ("tool_call.started", "tool_call.completed")
    assert intent["arguments"] == {"text": "hello"}
    assert intent["call_id"] == outcome["call_id"]
    _, first, second = ready.store.query(
        "SELECT id, task, parent, time_us FROM events WHERE stream = ? ORDER BY seq", ready.session_id
    )
    assert first[1:3] == ("task_1", "turn_1")
    assert second[1:3] == ("task_1", first[0])
    assert first[3] == second[3], "one group, one time"


async def test_the_writer_is_asked_once(make_harness, monkeypatch):
    ready = make_harness(Ready())
    await ready.call()
    commits = []
    commit = ready.store.log._writer._commit_once
    monkeypatch.setattr(
        ready.store.log._writer, "_commit_once", lambda units: (commits.append(len(units)), commit(units))
    )
    await ready.call()
    assert commits == [1]


async def test_what_was_answered_is_redacted_and_bounded_like_any_result(make_harness):
    leaky = make_harness(Ready(lambda: ToolResult(stdout=f"{SECRET}\n" * 5)), max_output_lines=2)
    result = await leaky.call()
    assert SECRET not in result.stdout
    assert (result.stdout.count("\n"), result.truncated_lines) == (2, True)
    assert SECRET not in str(leaky.events())


async def test_a_call_that_cannot_be_recorded_shows_nothing(make_harness, monkeypatch):
    ready = make_harness(Ready())
    await ready.call()
    before = ready.events()

    def full(_connection, _units):
        raise StoreError("no space left")

    monkeypatch.setattr(ready.store.log._writer, "_apply", full)
    with pytest.raises(AuditUnavailable):
        await ready.call()
    assert ready.events() == before


async def test_a_worker_that_lost_its_session_is_shown_nothing(make_harness):
    ready = make_harness(Ready())
    with pytest.raises(SessionFenced):
        await ready.call(lease_token=7)
    assert ready.kinds() == []


async def test_cancelled_while_it_is_written_a_call_is_whole_in_the_log_and_stays_cancelled(
    make_harness, monkeypatch
):
    ready = make_harness(Ready())
    append = TaskAppender.append

    def cancelling(appender, *drafts, **more):
        writing = append(appender, *drafts, **more)
        task.cancel()
        return writing

    monkeypatch.setattr(TaskAppender, "append", cancelling)
    task = asyncio.create_task(ready.call())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ready.kinds() == ["tool_call.started", "tool_call.completed"]


@pytest.mark.parametrize("effect", [effect for effect in Effect if effect is not Effect.read])
async def test_only_what_merely_reads_may_have_its_answer_before_its_intent(make_harness, effect):
    executed = ToolResult(stdout="executed")
    writer = make_harness(
        Ready(effect=effect, switches=frozenset({PolicySwitch.fs}), run=lambda _a, _c: executed)
    )
    assert (await writer.call()).stdout == "executed"
    assert (writer.tool.answered, writer.tool.calls) == (1, 1)
    assert len(times(writer)) == 2


async def test_without_an_answer_the_intent_is_on_disk_before_the_tool_runs(make_harness):
    seen = []

    def look(_arguments, _context):
        seen.extend(kind for kind, _ in times(tool))
        return ToolResult(stdout="executed")

    tool = make_harness(Ready(dict, run=look))
    assert (await tool.call()).stdout == "executed"
    assert seen == ["tool_call.started"]
    assert tool.kinds() == ["tool_call.started", "tool_call.completed"]


_CHILD = """
import asyncio, os, signal, sys
from interlock.db.driver import SqliteConnection
from tests.integration.test_runner_at_once import call_once

commit = SqliteConnection.commit

def killed(self):
    if sys.argv[3] == "after":
        commit(self)
    os.kill(os.getpid(), signal.SIGKILL)

def arm():
    SqliteConnection.commit = killed

asyncio.run(call_once(sys.argv[1], sys.argv[2], arm))
print("shown")
"""


async def call_once(url: str, session_id: str, arm) -> None:
    """One call in another process, which arranges its own end before the call is recorded."""
    from interlock.db.database import StoreConfig, open_database
    from interlock.log.writer import EventLog
    from interlock.redaction.redactor import Redactor

    database = open_database(StoreConfig(url))
    log = EventLog(database, Redactor(), PROJECTIONS)
    store = type("Opened", (), {"log": log, "database": database})()
    make_harness = SingleToolHarness(store, Ready(), session_id)
    await make_harness.runner._enter(make_harness.authority)
    arm()
    await make_harness.call()


@pytest.mark.parametrize(
    ("moment", "kinds"), [("before", []), ("after", ["tool_call.started", "tool_call.completed"])]
)
async def test_a_process_that_dies_leaves_the_whole_call_or_nothing_of_it(sqlite_store, moment, kinds):
    """Whichever it is, nobody was shown anything, and no intent is left without its outcome."""
    session = await sqlite_store.sessions.create(opened_by="test")
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _CHILD, sqlite_store.config.url, session.id, moment],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert child.returncode == -9, child.stderr
    assert "shown" not in child.stdout
    make_harness = SingleToolHarness(sqlite_store, Ready(), session.id)
    assert make_harness.kinds() == kinds
    assert await record_interrupted_calls(sqlite_store.log, session.id, token=None) == []
    await make_harness.call()
    assert make_harness.kinds() == [*kinds, "tool_call.started", "tool_call.completed"]
