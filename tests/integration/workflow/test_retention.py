"""The content of a run stays until the run has ended, and is then erased with its rows."""

from interlock.log.hash_chain import now_us
from interlock.log.retention import RetentionSweeper, SweepReport
from interlock.wiring.projections import verify
from interlock.workflow.run_rows import RunStatus
from tests.harness.workflows import WorkflowHarness, open_workflow_harness
from tests.integration.workflow.graphs import SIMPLE, TWO, said

DAY_US = 86_400_000_000
SCRIPT = f"when:Step first\n{said(summary='private words', artifacts={'note': 'private words'})}"
SCRIPT += f"msg:ok\nwhen:Step second\n{SIMPLE}"
CONTENT = {"runs": ("definition", "input", "reason"), "run_nodes": ("summary", "artifacts", "reason")}


async def swept_later(harness: WorkflowHarness) -> SweepReport:
    runtime, later = harness.agent_runtime.runtime, now_us() + 3 * DAY_US
    report = await RetentionSweeper(runtime.log, runtime.database, 1, lambda: later).sweep()
    assert await runtime.database.read(lambda db: verify(db).faults) == []
    return report


async def stored(harness: WorkflowHarness) -> str:
    statements = [f"SELECT {', '.join(names)} FROM {table}" for table, names in CONTENT.items()]
    statements.append("SELECT content FROM events WHERE kind LIKE 'run.%' OR kind LIKE 'node.%'")
    database = harness.agent_runtime.runtime.database
    return repr(await database.read(lambda db: [db.query(statement) for statement in statements]))


async def test_a_paused_run_continues_after_a_sweep_and_its_content_goes_once_it_has_ended(
    tmp_path, monkeypatch
):
    async with open_workflow_harness(tmp_path, monkeypatch, SCRIPT) as harness:
        harness.agent("coder")
        harness.put("two", TWO, first="Go.", second="---\nagent: coder\n---\nGo.")
        session = await harness.start("two", "private words")
        harness.agent("coder", persona="You changed.")
        assert (await harness.work(session)).run.status is RunStatus.paused
        before = await stored(harness)
        assert (await swept_later(harness)).messages > 0
        assert await stored(harness) == before
        assert before.count("private words") >= 3
        await harness.agent_runtime.runs.retry(session, who="ada")
        done = await harness.work(session)
        assert (done.run.status, done.artifacts) == (RunStatus.done, {"note": "private words"})
        assert (await swept_later(harness)).events > 0
        left = await stored(harness)
        assert "private words" not in left
        assert set(left) <= set("[](), None"), left
        assert (await swept_later(harness)).events == 0


async def test_a_stopped_run_is_erased_with_its_reason(tmp_path, monkeypatch):
    async with open_workflow_harness(tmp_path, monkeypatch, SCRIPT) as harness:
        harness.put("two", TWO, first="Go.", second="Go.")
        session = await harness.start("two", "private words")
        await harness.agent_runtime.runs.stop(session, who="ada")
        await harness.work(session)
        await swept_later(harness)
        assert set(await stored(harness)) <= set("[](), None")
