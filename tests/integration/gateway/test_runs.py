"""Workflows, runs and plans over a real socket, as the page asks for them."""

import shutil

from tests.harness.workflows import EXAMPLE
from tests.integration.gateway.test_methods import new_session, refused

MODES = "plan,coding"


async def workflow_house(open_harness, tmp_path, **more: str):
    root = tmp_path / "root"
    root.mkdir()
    given = {
        "MODEL": f"scripted:{EXAMPLE}/script.txt",
        "SESSION_OPEN_MODES": MODES,
        "TOOL_ALLOWED_ROOTS": str(root),
    }
    harness = await open_harness(**given | more)
    shutil.copytree(EXAMPLE, harness.agent_runtime.runs.folder.path / EXAMPLE.name)
    return harness


async def test_a_run_from_its_start_to_its_end(open_harness, tmp_path):
    harness = await workflow_house(open_harness, tmp_path)
    client = await harness.connect()
    [listed] = (await client.ask("workflows.list"))["workflows"]
    assert (listed["name"], listed["problems"]) == ("plan_build_review", [])
    graph = (await client.ask("workflows.get", name="plan_build_review"))["workflow"]
    assert [node["name"] for node in graph["nodes"]] == ["plan", "build", "review", "verdict", "done"]
    assert graph["edges"][3]["condition"] == 'review.outcome == "approve"'
    started = await client.ask("runs.start", workflow="plan_build_review", input="hello", mode="coding")
    run_id = started["run"]["run_id"]
    await client.ask("session.subscribe", session_id=run_id)
    ended = await client.until(lambda frame: frame["data"].get("kind") == "run.finished")
    assert ended["data"]["payload"]["status"] == "done"
    shown = await client.ask("runs.get", run_id=run_id)
    assert (shown["run"]["status"], shown["steps"], shown["is_waiting"]) == ("done", 5, False)
    assert {(each["node"], each["status"], each["completed"]) for each in shown["states"]} == {
        ("plan", "completed", 1),
        ("build", "completed", 2),
        ("review", "completed", 2),
        ("verdict", "completed", 2),
        ("done", "completed", 1),
    }
    assert shown["workflows"]["plan_build_review"]["start"] == "plan"
    assert [run["run_id"] for run in (await client.ask("runs.list"))["runs"]] == [run_id]
    kinds = [f["data"]["kind"] for f in client.frames if f["data"].get("kind", "").startswith("node.")]
    assert kinds.count("node.completed") == 8
    assert (await refused(client, "runs.pause", run_id=run_id)).code == "RUN_STATUS"


async def test_what_cannot_be_is_refused_with_its_code(open_harness, tmp_path):
    harness = await workflow_house(open_harness, tmp_path, SESSION_OPEN_MODES="plan")
    client = await harness.connect()
    assert (await refused(client, "workflows.get", name="nothing")).code == "WORKFLOW_NOT_FOUND"
    assert (await refused(client, "runs.get", run_id="s_nothing")).code == "RUN_NOT_FOUND"
    coding = await refused(client, "runs.start", workflow="plan_build_review", mode="coding")
    assert coding.code == "MODE_NOT_OPEN"
    (harness.agent_runtime.runs.folder.path / EXAMPLE.name / "build.md").unlink()
    broken = await refused(client, "runs.start", workflow="plan_build_review")
    assert broken.code == "WORKFLOW_INVALID"
    assert "workflow.toml: nodes.build has no file build.md" in broken.message
    got = await client.ask("workflows.get", name="plan_build_review")
    assert [(problem["file"], problem["line"]) for problem in got["problems"]] == [("workflow.toml", None)]


async def test_a_run_that_cannot_be_begun_leaves_no_session_behind(open_harness, tmp_path):
    """What is wrong with a workflow may be found only when all of it is taken down."""
    harness = await workflow_house(open_harness, tmp_path, OPENAI_API_KEY="sk-very-secret-words-123")
    client = await harness.connect()
    brief = harness.agent_runtime.runs.folder.path / EXAMPLE.name / "build.md"
    brief.write_text(f"{brief.read_text()}\nUse sk-very-secret-words-123.\n")
    refusal = await refused(client, "runs.start", workflow="plan_build_review", mode="coding")
    assert "contains a secret" in refusal.message
    assert (await client.ask("session.list", archived=True))["sessions"] == []


PLAN = (
    'call:ask_user {"type": "plan_review", "message": "Right?", "plan": "Write a.txt."}\n'
    'msg:I wait.\ncall:write_file {"path": "a.txt", "content": "built"}\nmsg:Built.\n'
)


async def planned(open_harness, tmp_path):
    (tmp_path / "plan.txt").write_text(PLAN)
    harness = await workflow_house(open_harness, tmp_path, MODEL=f"scripted:{tmp_path}/plan.txt")
    client = await harness.connect()
    session = await new_session(client, mode="plan")
    await client.send("chat.send", session_id=session, content="plan it")
    asked = await client.until(lambda frame: frame["type"] == "ask_user")
    return client, session, asked["data"]["question_id"]


async def test_an_answer_can_start_the_building(open_harness, tmp_path):
    client, session, question = await planned(open_harness, tmp_path)
    identity = await client.send(
        "ask_user.answer", question_id=question, answer={"decision": "approve"}, start_build=True
    )
    built = await client.answer_to(identity)
    task = built["task"]["id"]
    await client.until(
        lambda f: f["type"] == "stream_chunk" and f["data"]["done"] and f["data"]["task_id"] == task
    )
    assert (tmp_path / "root" / "a.txt").read_text() == "built"
    assert (await client.ask("session.get", session_id=session))["mode"] == "coding"
    ended = next(f for f in client.frames if f["data"].get("task_id") == task and f["id"] == identity)
    assert ended["session_id"] == session
    # The mode is switched before the message that is worked on in it.
    kinds = [f["data"]["kind"] for f in client.frames if f["type"] == "event" and f["seq"]]
    switched = kinds.index("session.mode_changed")
    assert kinds[switched + 1 : switched + 4] == ["message.appended", "task.queued", "plan.build_started"]


async def test_an_approval_says_whether_it_could_be_built_and_it_can_be_later(open_harness, tmp_path):
    client, session, question = await planned(open_harness, tmp_path)
    too_early = await refused(client, "ask_user.build", question_id=question)
    assert too_early.code == "NO_PLAN"
    answered = await client.ask("ask_user.answer", question_id=question, answer={"decision": "approve"})
    assert answered["can_build"] is True
    assert (await client.ask("session.get", session_id=session))["mode"] == "plan"
    first = await client.ask("ask_user.build", question_id=question)
    assert (await client.ask("ask_user.build", question_id=question))["task"]["id"] == first["task"]["id"]
    assert (await client.ask("session.get", session_id=session))["mode"] == "coding"
