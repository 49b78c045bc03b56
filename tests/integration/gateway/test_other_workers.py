"""A gateway without a worker of its own: another process works, and its answer is seen as it comes."""

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager

from tests.harness.gateway import open_gateway_harness, text_of
from tests.harness.model_answers import Delay, said
from tests.harness.model_server import KEY, ModelServer


@asynccontextmanager
async def worker_process():
    """`interlock worker` with this test's settings; killed at the end."""
    command = [sys.executable, "-m", "interlock", "worker"]
    process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE, text=True)
    try:
        said_so = await asyncio.to_thread(process.stderr.readline)
        assert said_so.startswith("working on ")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def is_live(frame) -> bool:
    return frame["type"] == "stream_chunk" and frame["seq"] is None


async def test_the_answer_of_another_process_is_seen_as_it_comes(tmp_path, monkeypatch):
    text = "One word after the other. " * 20
    answer = said(text, size=13)
    slow = type(answer)(tuple(step for each in answer.steps for step in (each, Delay(0.02))))
    async with ModelServer([slow]) as server:
        environment = {
            "MODEL": "openai",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_MODEL": "m",
        }
        async with (
            open_gateway_harness(tmp_path, monkeypatch, environment, works=False) as harness,
            worker_process(),
        ):
            client = await harness.connect()
            session_id = (await client.ask("session.create"))["session"]["id"]
            task = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]
            live = await client.until(
                lambda frame: frame["type"] == "stream_chunk" and frame["seq"] is None
            )
            assert live["data"]["task_id"] == task["id"]
            late = await harness.connect()
            await late.ask("session.subscribe", session_id=session_id)
            await asyncio.gather(client.until_end(task["id"]), late.until_end(task["id"]))
    assert text_of(client.frames) == text_of(late.frames) == text
    pieces = [frame["data"] for frame in client.of("stream_chunk") if not frame["data"]["done"]]
    assert len(pieces) > 5
    ends = [piece["offset"] + len(piece["content"]) for piece in pieces]
    assert [piece["offset"] for piece in pieces] == [0, *ends[:-1]]


async def test_a_cancel_reaches_the_worker_at_once(tmp_path, monkeypatch):
    environment = {"MODEL": 'scripted:["sleep:60000"]', "WORKER_POLL_SECONDS": "30"}
    async with (
        open_gateway_harness(tmp_path, monkeypatch, environment, works=False) as harness,
        worker_process(),
    ):
        client = await harness.connect()
        session_id = (await client.ask("session.create"))["session"]["id"]
        task = (await client.ask("chat.send", session_id=session_id, content="go"))["task"]
        await client.until(lambda frame: frame["data"].get("kind") == "agent.started")
        await client.ask("chat.cancel", session_id=session_id)
        async with asyncio.timeout(10):
            end = await client.until_end(task["id"])
    assert end["data"]["code"] == "CANCELLED"
