"""`interlock serve --workers 2` as a person starts it: real processes, killed in the middle."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
from websockets.asyncio.client import connect

from tests.harness.fork_client import shared_fork_client
from tests.harness.gateway import GatewayClient
from tests.harness.tasks import until

SCRIPT = json.dumps(["sleep:150", "call:current_time {}", "sleep:150", "msg:Here you are."])


class Serving:
    def __init__(self, folder, *options, script=SCRIPT, lease_seconds=2):
        self.folder = folder
        self.environment = dict(os.environ) | {
            "INTERLOCK_STATE_DIR": str(folder / "state"),
            "WORKSPACE_DIR": str(folder / "workspace"),
            "MODEL": f"scripted:{script}",
            "SESSION_LEASE_SECONDS": str(lease_seconds),
            "WORKER_STABLE_SECONDS": "1",
        }
        command = [sys.executable, "-m", "interlock", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)
        self.link = self.process.stdout.readline().strip()

    def interlock(self, *words):
        done = shared_fork_client().run(*words, environment=self.environment, folder=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def events(self, kind):
        lines = self.interlock("events", "tail", "system", "--json", "--limit", "1000").splitlines()
        return [event["payload"] for event in map(json.loads, lines) if event["kind"] == kind]

    async def client(self, name="tester"):
        token = await asyncio.to_thread(self.interlock, "token", "add", name)
        address = self.link.split("/#")[0].replace("http", "ws") + "/ws"
        return GatewayClient(
            await connect(address, additional_headers={"Authorization": f"Bearer {token.strip()}"})
        )

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.process.stdout.close()


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def serving(tmp_path):
    serving = Serving(tmp_path, "--workers", "2")
    yield serving
    if serving.process.poll() is None:
        serving.process.kill()
    serving.process.wait()
    serving.process.stdout.close()


async def test_every_task_ends_once_though_workers_are_killed(serving):
    await until(lambda: len(serving.events("worker.spawned")) == 2)
    client = await serving.client()
    sessions = [(await client.ask("session.create"))["session"]["id"] for _ in range(4)]
    tasks = []
    for session_id in sessions * 2:
        answer = await client.ask("chat.send", session_id=session_id, content="go")
        tasks.append(answer["task"]["id"])
    await client.until(lambda frame: frame["data"].get("kind") == "turn.completed")
    os.kill(serving.events("worker.spawned")[0]["pid"], signal.SIGKILL)
    for task_id in tasks:
        end = await client.until_end(task_id)
        assert end["type"] == "stream_chunk", end
    for session_id in sessions:
        told = [
            (frame["data"].get("kind") or frame["type"], frame["data"].get("task_id"))
            for frame in client.frames
            if frame["session_id"] == session_id
        ]
        ends = [task for kind, task in told if kind == "stream_chunk" and task in tasks]
        assert list(dict.fromkeys(ends)) == [task for task in tasks if task in set(ends)], "out of order"
    await until(lambda: len(serving.events("worker.spawned")) == 3)
    assert json.loads(serving.interlock("events", "verify", "--json"))["ok"] is True
    await client.close()


async def test_it_stops_with_all_its_workers(serving):
    await until(lambda: len(serving.events("worker.spawned")) == 2)
    pids = [told["pid"] for told in serving.events("worker.spawned")]
    await asyncio.to_thread(serving.process.send_signal, signal.SIGTERM)
    assert await asyncio.to_thread(serving.process.wait, 60) == 0
    assert not any(is_there(pid) for pid in pids)
    told = json.loads(serving.interlock("events", "verify", "--json"))
    assert (told["ok"], told["signed"], told["after_checkpoint"]) == (True, 1, 0)


async def test_its_workers_do_not_outlive_it_when_it_is_killed(serving):
    await until(lambda: len(serving.events("worker.spawned")) == 2)
    pids = [told["pid"] for told in serving.events("worker.spawned")]
    serving.process.kill()
    assert await asyncio.to_thread(serving.process.wait, 60) == -signal.SIGKILL
    assert len(set(pids)) == 2
    await until(lambda: not any(is_there(pid) for pid in pids))
    assert not any(is_there(pid) for pid in pids)


async def test_a_folder_that_is_named_is_open_to_its_workers_too(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "here.txt").write_text("x")
    script = json.dumps(["call:list_files {}", "msg:Listed."])
    options = ("--open", "chat", "--root", str(folder), "--workers", "1")
    serving = await asyncio.to_thread(lambda: Serving(tmp_path, *options, script=script))
    try:
        client = await serving.client()
        session_id = (await client.ask("session.create", mode="chat"))["session"]["id"]
        await client.send("chat.send", session_id=session_id, content="go")
        told = await client.until(lambda frame: frame["type"] == "tool_result")
        assert "here.txt" in told["data"]["result"]["stdout"]
        await client.close()
    finally:
        await asyncio.to_thread(serving.end)
