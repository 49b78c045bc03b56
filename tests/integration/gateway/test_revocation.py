"""A revoked token or cookie ends with all that it started, and everybody can see why."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from websockets.asyncio.client import connect

from interlock.core.errors import UserError
from interlock.gateway.auth import BrowserSession, ClientIdentity
from interlock.gateway.credentials import CredentialKind
from interlock.gateway.methods import ALL
from interlock.gateway.protocol import GatewayRequest, RequestError
from interlock.log.kinds import merge_payload
from interlock.wiring import local_actor
from interlock.wiring.projections import verify
from interlock.workflow.run_rows import RunStatus
from tests.harness.gateway import GatewayClient, GatewayHarness, RequestRefused
from tests.harness.telegram import script
from tests.integration.gateway.test_methods import new_session
from tests.integration.gateway.test_runs import workflow_house

ASKING = {"tool_calls": [{"name": "ask_user", "arguments": {"type": "confirmation", "message": "Go on?"}}]}
# Each session first asks, and then works for longer than any test.
ASK_THEN_WORK = {"MODEL": script(ASKING, "sleep:60000")}
TOKEN_REASON = "the token that started it was revoked"
BROWSER_REASON = "the browser that started it was logged out by the operator"


async def revoke_by_command(identity: str, *options: str) -> str:
    """`interlock token revoke` in a process of its own, as an operator does."""
    command = (sys.executable, "-m", "interlock", "token", "revoke", identity, *options)
    process = await asyncio.create_subprocess_exec(
        *command, env=dict(os.environ), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode()


async def until_status(harness: GatewayHarness, task_id: str, status: str) -> None:
    async with asyncio.timeout(20):
        while (await harness.agent_runtime.tasks.get(task_id)).status != status:
            await asyncio.sleep(0.02)


async def send(client: GatewayClient, session_id: str, content: str = "go") -> str:
    return (await client.ask("chat.send", session_id=session_id, content=content))["task"]["id"]


async def waiting(harness: GatewayHarness, client: GatewayClient, session_id: str) -> tuple[str, str]:
    """A task that waits for an answer, and its question."""
    task_id = await send(client, session_id)
    await until_status(harness, task_id, "waiting")
    return task_id, (await harness.agent_runtime.tasks.get(task_id)).question_id


def events(harness: GatewayHarness, session_id: str, kind: str) -> list[dict]:
    statement = "SELECT facts, content FROM events WHERE stream = ? AND kind = ? ORDER BY seq"
    with harness.runtime.database.reading() as connection:
        return [merge_payload(*row) for row in connection.query(statement, (session_id, kind))]


async def told(harness: GatewayHarness) -> int:
    """How many events there are."""
    return (await harness.runtime.database.fetch("SELECT count(*) FROM events"))[0][0]


@asynccontextmanager
async def browser(
    harness: GatewayHarness, name: str
) -> AsyncIterator[tuple[BrowserSession, GatewayClient]]:
    code = await harness.gateway.credentials.issue_code(who=name)
    session = await harness.gateway.credentials.redeem_code(code, browser_days=1)
    headers = {"Cookie": f"interlock_{harness.port}={session.secret}", "Origin": harness.url}
    client = GatewayClient(await connect(f"ws://127.0.0.1:{harness.port}/ws", additional_headers=headers))
    try:
        yield session, client
    finally:
        await client.close()


async def test_a_revoked_token_ends_its_running_waiting_and_queued_tasks_and_no_others(open_harness):
    harness = await open_harness(**ASK_THEN_WORK)
    script_client = await harness.connect(await harness.token("ci"))
    other = await harness.connect(await harness.token("bob"))
    first, second = await new_session(other), await new_session(other)
    running, question = await waiting(harness, script_client, first)
    await script_client.ask("ask_user.answer", question_id=question, answer={"confirmed": True})
    await until_status(harness, running, "running")
    queued, others = await send(script_client, first), await send(other, first)
    parked, asked = await waiting(harness, script_client, second)

    told = json.loads(await revoke_by_command("ci", "--json"))

    assert (told["name"], told["cancelled_tasks"], told["stopped_runs"]) == ("ci", 3, 0)
    end = await other.until_end(running)
    assert end["data"]["code"] == "CANCELLED"
    assert end["data"]["message"] == f"cancelled by {local_actor()}: {TOKEN_REASON}"
    for task_id in (running, queued, parked):
        await until_status(harness, task_id, "cancelled")
        task = await harness.agent_runtime.tasks.get(task_id)
        assert (task.cancel_requested_by, task.reason) == (local_actor(), TOKEN_REASON)
    assert (await harness.runtime.questions.get(asked)).status == "expired"
    assert not (await harness.agent_runtime.tasks.get(others)).status.is_end
    assert await script_client.closed() == 4401
    ends = events(harness, first, "task.cancelled") + events(harness, second, "task.cancelled")
    assert [(each["who"], each["reason"]) for each in ends] == [(local_actor(), TOKEN_REASON)] * 3
    (revoked,) = events(harness, "system", "auth.token_revoked")
    assert (revoked["name"], revoked["cancelled_tasks"]) == ("ci", 3)
    with harness.runtime.database.reading() as connection:
        assert verify(connection).faults == []
    # Otherwise the end of the harness waits for it.
    await harness.agent_runtime.tasks.cancel(others, who="test")


async def test_the_command_says_how_many_tasks_it_cancelled(open_harness):
    harness = await open_harness(**ASK_THEN_WORK)
    client = await harness.connect(await harness.token("ci"))
    await waiting(harness, client, await new_session(client))
    assert (await revoke_by_command("ci")).splitlines()[1] == "cancelled 1 task that it started"


async def test_a_revoked_token_ends_the_task_that_got_its_message(open_harness):
    """Else the task would go on with what was sent by, say, a thief; one that did not get it goes on."""
    clock = {"tool_calls": [{"name": "current_time", "arguments": {}}]}
    harness = await open_harness(MODEL=script(ASKING, clock, "sleep:60000"))
    thief = await harness.connect(await harness.token("ci"))
    other = await harness.connect(await harness.token("bob"))
    steered, spared = await new_session(other), await new_session(other)
    task_id, _ = await waiting(harness, other, steered)
    own, _ = await waiting(harness, other, spared)
    sent = await thief.ask("chat.send", session_id=steered, content="delete it all", steer=True)
    await until_status(harness, sent["task"]["id"], "done")
    assert (await harness.agent_runtime.tasks.get(task_id)).status == "running"
    assert json.loads(await revoke_by_command("ci", "--json"))["cancelled_tasks"] == 1
    await until_status(harness, task_id, "cancelled")
    assert (await harness.agent_runtime.tasks.get(task_id)).reason == TOKEN_REASON
    assert (await harness.agent_runtime.tasks.get(own)).status == "waiting"


async def test_of_two_browsers_of_one_person_only_the_revoked_ones_tasks_end(open_harness):
    """Both go by the same name, which is that of the command line as well."""
    harness = await open_harness(**ASK_THEN_WORK)
    async with browser(harness, local_actor()) as (stolen, thief), browser(harness, local_actor()) as own:
        _, person = own
        kept, _ = await waiting(harness, person, await new_session(person))
        theirs, _ = await waiting(harness, thief, await new_session(person))
        local = await harness.agent_runtime.tasks.put(await new_session(person), "go", who=local_actor())
        revoked = await harness.gateway.credentials.revoke(stolen.id, harness.agent_runtime.runs, who="ada")
    assert revoked.ended.tasks == 1
    task = await harness.agent_runtime.tasks.get(theirs)
    assert (task.status, task.cancel_requested_by, task.reason) == ("cancelled", "ada", BROWSER_REASON)
    assert (await harness.agent_runtime.tasks.get(kept)).status == "waiting"
    assert not (await harness.agent_runtime.tasks.get(local.id)).status.is_end


async def test_a_browser_that_logged_out_leaves_its_tasks_until_it_is_revoked(open_harness):
    harness = await open_harness(**ASK_THEN_WORK)
    async with browser(harness, "ada") as (session, client):
        task_id, _ = await waiting(harness, client, await new_session(client))
    await harness.gateway.credentials.end_browser(session.secret, who="ada")
    statement = "SELECT ended_us, ended_by FROM credentials WHERE id = ?"
    logged_out = await harness.query(statement, session.id)
    assert (await harness.agent_runtime.tasks.get(task_id)).status == "waiting"
    await harness.gateway.credentials.revoke(session.id, harness.agent_runtime.runs, who="eve")
    assert await harness.query(statement, session.id) == logged_out != [(None, None)]
    assert await harness.runtime.database.read(lambda db: verify(db).faults) == []
    assert (await harness.agent_runtime.tasks.get(task_id)).status == "cancelled"
    with pytest.raises(UserError, match="no token or browser"):
        await harness.gateway.credentials.revoke(session.id, harness.agent_runtime.runs, who="ada")


async def until_it_asks(harness: GatewayHarness, run_id: str) -> str:
    """The task of the run's step that waits for an answer."""
    async with asyncio.timeout(20):
        while not (shown := await harness.agent_runtime.runs.shown(run_id)).is_waiting:
            await asyncio.sleep(0.02)
    return shown.task.id


@pytest.mark.parametrize("is_paused", [True, False])
async def test_a_run_that_a_revoked_token_started_is_stopped(open_harness, tmp_path, is_paused):
    harness = await workflow_house(open_harness, tmp_path, MODEL=script(ASKING))
    client = await harness.connect(await harness.token("ci"))
    started = await client.ask("runs.start", workflow="plan_build_review", input="x", mode="coding")
    run_id = started["run"]["run_id"]
    await until_it_asks(harness, run_id)
    if is_paused:
        await client.ask("runs.pause", run_id=run_id)
    revoked = await harness.gateway.credentials.revoke("ci", harness.agent_runtime.runs, who="ada")
    assert (revoked.ended.tasks, revoked.ended.runs) == (1, 1)
    run = (await harness.agent_runtime.runs.shown(run_id)).run_state.run
    assert (run.status, run.reason) == (RunStatus.stopped, f"stopped by ada: {TOKEN_REASON}")
    (stopped,) = events(harness, run_id, "run.stopped")
    assert (stopped["who"], stopped["reason"]) == ("ada", TOKEN_REASON)
    assert [each["reason"] for each in events(harness, run_id, "task.cancelled")] == [TOKEN_REASON]
    assert await harness.runtime.questions.open_questions(run_id) == []
    with harness.runtime.database.reading() as connection:
        assert verify(connection).faults == []


async def test_what_is_retried_ends_with_who_had_it_done_again(open_harness):
    harness = await open_harness(**ASK_THEN_WORK)
    first = await harness.connect(await harness.token("first"))
    second = await harness.connect(await harness.token("second"))
    task_id, _ = await waiting(harness, first, await new_session(first))
    await first.ask("tasks.cancel", task_id=task_id)
    again = (await second.ask("tasks.retry", task_id=task_id))["task"]["id"]
    await until_status(harness, again, "running")
    await harness.gateway.credentials.revoke("first", harness.agent_runtime.runs, who="ada")
    assert not (await harness.agent_runtime.tasks.get(again)).is_cancel_requested
    await harness.gateway.credentials.revoke("second", harness.agent_runtime.runs, who="ada")
    await until_status(harness, again, "cancelled")


@pytest.mark.parametrize("how", ["runs.retry", "runs.resume"])
async def test_a_run_is_whose_who_had_it_go_on(open_harness, tmp_path, how):
    harness = await workflow_house(open_harness, tmp_path, MODEL=script(ASKING))
    first = await harness.connect(await harness.token("first"))
    second = await harness.connect(await harness.token("second"))
    started = await first.ask("runs.start", workflow="plan_build_review", input="x", mode="coding")
    run_id = started["run"]["run_id"]
    task_id = await until_it_asks(harness, run_id)
    if how == "runs.retry":
        await first.ask("tasks.cancel", task_id=task_id)
    else:
        # The step at work is still that of whoever began it.
        await first.ask("runs.pause", run_id=run_id)
    await second.ask(how, run_id=run_id)
    task_id = await until_it_asks(harness, run_id)
    if how == "runs.retry":
        await harness.gateway.credentials.revoke("first", harness.agent_runtime.runs, who="ada")
    assert (await harness.agent_runtime.runs.shown(run_id)).run_state.run.status is RunStatus.running
    assert (await harness.agent_runtime.tasks.get(task_id)).status == "waiting"

    revoked = await harness.gateway.credentials.revoke("second", harness.agent_runtime.runs, who="ada")

    assert (revoked.ended.tasks, revoked.ended.runs) == (1, 1)
    assert (await harness.agent_runtime.runs.shown(run_id)).run_state.run.status is RunStatus.stopped
    assert (await harness.agent_runtime.tasks.get(task_id)).status == "cancelled"
    (resumed,) = events(harness, run_id, "run.resumed")
    assert (resumed["who"], resumed["credential_id"]) == ("second", revoked.credential.id)
    with harness.runtime.database.reading() as connection:
        assert verify(connection).faults == []


# Whoever adds a method has to say so if it changes nothing.
READS = {
    "agents.list",
    "chat.history",
    "events.export",
    "events.tail",
    "events.tree",
    "events.verify",
    "mcp.list",
    "policy.explain",
    "policy.matrix",
    "questions.list",
    "runs.get",
    "runs.list",
    "server.info",
    "session.earlier",
    "session.export",
    "session.get",
    "session.list",
    "session.search",
    "session.subscribe",
    "session.unsubscribe",
    "session.watch",
    "settings.get",
    "settings.preview",
    "stats.get",
    "tasks.get",
    "tasks.list",
    "workflows.get",
    "workflows.list",
}


@pytest.mark.parametrize("method", ["chat.send", "ask_user.answer", "settings.update", "session.delete"])
@pytest.mark.parametrize("by_command", [True, False])
async def test_a_socket_that_is_not_closed_yet_changes_nothing_more(
    open_harness, monkeypatch, method, by_command
):
    monkeypatch.setattr("interlock.gateway.connection_registry.CHECK_SECONDS", 3600)
    harness = await open_harness(**ASK_THEN_WORK)
    owner = await harness.connect()
    client = await harness.connect(await harness.token("ci"))
    session_id = await new_session(owner)
    _, question = await waiting(harness, owner, session_id)
    await client.ask("server.info")
    if by_command:
        await revoke_by_command("ci")
    else:
        await harness.gateway.credentials.revoke("ci", harness.agent_runtime.runs, who="ada")
    before = await told(harness)
    params = {
        "chat.send": {"session_id": session_id, "content": "go"},
        "ask_user.answer": {"question_id": question, "answer": {"confirmed": True}},
        "settings.update": {"patch": {"tools": {"shell": {"enabled": False}}}},
        "session.delete": {"session_id": session_id},
    }[method]
    with pytest.raises(RequestRefused, match=r"REVOKED: .* nothing was changed"):
        await client.ask(method, **params)
    assert await client.closed() == 4401
    assert await told(harness) == before


async def test_every_method_that_may_change_something_is_refused_to_a_revoked_token(open_harness):
    harness = await open_harness(SESSION_OPEN_MODES="chat")
    token = await harness.gateway.credentials.add_token("ci", who="test")
    await harness.gateway.credentials.revoke("ci", harness.agent_runtime.runs, who="ada")
    dispatcher = harness.gateway.dispatcher
    caller = SimpleNamespace(who=ClientIdentity("ci", token.id, CredentialKind.token))
    assert {name for name, method in ALL.items() if method.only_reads} == READS
    for name in dispatcher.methods.keys() - READS:
        with pytest.raises(RequestError) as refused:
            await dispatcher(caller, GatewayRequest(1, name, {}))
        assert refused.value.code == "REVOKED", name
