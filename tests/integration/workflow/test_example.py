"""The example, offline: plan, build, review, back to build, review, done; on both databases."""

import pytest

from interlock.workflow.run_rows import RunStatus
from tests.harness.workflows import EXAMPLE, names, open_workflow_harness


@pytest.fixture(params=["sqlite", "postgresql"])
async def harness(request, tmp_path, monkeypatch):
    more = {}
    if request.param == "postgresql":
        more["DATABASE_URL"] = request.getfixturevalue("postgres_store")
    async with open_workflow_harness(
        tmp_path, monkeypatch, MODEL=f"scripted:{EXAMPLE}/script.txt", **more
    ) as made:
        yield made


@pytest.fixture
def postgres_store(postgres_server):
    with postgres_server.database() as config:
        yield config.url


async def test_the_example_runs_to_its_end(harness):
    done = await harness.run("plan_build_review", "greet by name")
    assert (done.run.status, done.run.outcome, done.steps) == (RunStatus.done, "done", 5)
    assert [name.partition(":")[0] for name in names(done)] == [
        *("plan", "build", "review", "verdict", "build", "review", "verdict", "done")
    ]
    assert (harness.root / "greeting.txt").read_text() == "Hello, Ada.\nGoodbye, Ada.\n"
    assert all(result["ok"] for result in harness.results(done.run.session_id))
    assert sorted(done.artifacts) == ["findings", "plan"]
    modes = [fields["mode"] for _, fields in harness.events(done.run.session_id, "task.started")]
    assert modes == ["plan", "coding", "plan", "coding", "plan"]
