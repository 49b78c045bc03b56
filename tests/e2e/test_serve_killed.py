"""`interlock serve` killed in the middle of a task, and what the next one does."""

import asyncio
import json
import signal

import pytest

from tests.e2e.test_serve_workers import Serving

# Whoever waited for such a lease's end would wait longer than the test.
LEASE_SECONDS = 3600
SCRIPT = json.dumps(["sleep:500", "call:current_time {}", "sleep:500", "msg:Here you are."])


@pytest.fixture
def serve(tmp_path):
    started = []

    def start():
        started.append(Serving(tmp_path, script=SCRIPT, lease_seconds=LEASE_SECONDS))
        return started[-1]

    yield start
    for serving in started:
        if serving.process.poll() is None:
            serving.process.kill()
        serving.process.wait()
        serving.process.stdout.close()


@pytest.mark.full
async def test_a_task_goes_on_at_once_when_its_server_was_killed_and_is_there_again(serve):
    first = await asyncio.to_thread(serve)
    client = await first.client()
    session_id = (await client.ask("session.create"))["session"]["id"]
    task_id = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]["id"]
    await client.until(lambda frame: frame["data"].get("kind") == "agent.started")
    first.process.kill()
    assert await asyncio.to_thread(first.process.wait, 60) == -signal.SIGKILL
    await client.close()
    second = await asyncio.to_thread(serve)
    client = await second.client("again")
    await client.ask("session.subscribe", session_id=session_id)
    end = await client.until_end(task_id)
    assert end["type"] == "stream_chunk", end
    task = json.loads(second.interlock("tasks", "show", task_id, "--json"))
    assert (task["status"], task["attempts"], task["interruptions"]) == ("done", 2, 1)
    assert json.loads(second.interlock("events", "verify", "--json"))["ok"] is True
    await client.close()
