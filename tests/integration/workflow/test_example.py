"""The example, offline: plan, build, review, back to build, review, done; on both databases."""

import pytest

from interlock.workflow.rows import RunStatus
from tests.integration.workflow.place import EXAMPLE, names, opened


@pytest.fixture(params=["sqlite", "postgresql"])
async def hall(request, tmp_path, monkeypatch):
    more = {}
    if request.param == "postgresql":
        more["DATABASE_URL"] = request.getfixturevalue("postgres_store")
    async with opened(tmp_path, monkeypatch, MODEL=f"scripted:{EXAMPLE}/script.txt", **more) as made:
        yield made


@pytest.fixture
def postgres_store(postgres_server):
    from tests.conftest import _postgres_database

    made = _postgres_database(postgres_server, "interlock_template")
    yield next(made).url
    next(made, None)


async def test_the_example_runs_to_its_end(hall):
    done = await hall.run("plan_build_review", "greet by name")
    assert (done.run.status, done.run.outcome, done.steps) == (RunStatus.done, "done", 5)
    assert [name.partition(":")[0] for name in names(done)] == [
        *("plan", "build", "review", "verdict", "build", "review", "verdict", "done")
    ]
    assert (hall.root / "greeting.txt").read_text() == "Hello, Ada.\nGoodbye, Ada.\n"
    assert all(result["ok"] for result in hall.results(done.run.session_id))
    assert sorted(done.artifacts) == ["findings", "plan"]
    modes = [fields["mode"] for _, fields in hall.events(done.run.session_id, "task.started")]
    assert modes == ["plan", "coding", "plan", "coding", "plan"]
