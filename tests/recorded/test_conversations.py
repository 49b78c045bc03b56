"""Frames, chat messages, `exec --json` lines, event trees and exit codes of whole conversations."""

import json
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.log.read import iter_stream
from interlock.log.tree import build_tree
from tests.harness.cli import CliRunner
from tests.harness.gateway import GatewayClient, ends, open_gateway_harness
from tests.harness.runtime import RuntimeHarness, script
from tests.harness.telegram import ADA, open_telegram_harness
from tests.harness.telegram_server import TelegramServer
from tests.recorded.conversations import CONVERSATIONS, Recorded
from tests.recorded.recording import Normalised, assert_as_recorded

SETTINGS = {"SESSION_OPEN_MODES": "chat,plan,coding", "CONTROL_RETRY_SECONDS": "0.01"}


def on(channel: str) -> list[str]:
    return [name for name, recorded in CONVERSATIONS.items() if channel in recorded.channels]


def prepared(tmp_path: Path, recorded: Recorded) -> dict[str, str]:
    root = tmp_path / "root"
    root.mkdir()
    for name, text in recorded.files.items():
        (root / name).write_text(text)
    return {**SETTINGS, "MODEL": script(tmp_path, *recorded.script)}


def tree_of(harness: RuntimeHarness, session_id: str) -> list[dict]:
    """Kinds and fields as they hang under one another; hashes and numbers of the chain are left out."""

    def shown(node: dict) -> dict:
        return {
            "kind": node["kind"],
            "payload": node["payload"],
            "children": list(map(shown, node["children"])),
        }

    with harness.runtime.database.reading() as connection:
        return [shown(node.as_json()) for node in build_tree(iter_stream(connection, session_id))]


def kinds(client: GatewayClient) -> list[str]:
    return [frame["data"].get("kind", "") for frame in client.of("event")]


async def answered(client: GatewayClient, recorded: Recorded) -> None:
    for number, answer in enumerate(recorded.answers):
        # Once the task waits: before that, an answer may come in time for it to go on without waiting.
        await client.until(lambda _, wanted=number: kinds(client).count("task.waiting") > wanted)
        question = client.of("ask_user")[number]
        await client.ask("ask_user.answer", question_id=question["data"]["question_id"], answer=answer)


@pytest.mark.parametrize("name", on("gateway"))
async def test_over_the_gateway(name, tmp_path, monkeypatch):
    recorded = CONVERSATIONS[name]
    environment = prepared(tmp_path, recorded)
    async with open_gateway_harness(tmp_path, monkeypatch, environment) as harness:
        client = await harness.connect()
        session = (await client.ask("session.create", title=name, mode=recorded.mode))["session"]
        request = await client.send("chat.send", session_id=session["id"], content=recorded.says)
        task = (await client.answer_to(request))["task"]
        await answered(client, recorded)
        await client.until(lambda frame: ends(frame, task["id"]))
        await client.ask("session.get", session_id=session["id"])
        normalised = Normalised(tmp_path)
        frames = [frame for frame in client.frames if frame["type"] != "response"]
        seen = {
            # Text comes in chunks whose size depends on time.
            "frames": normalised.value([frame for frame in frames if frame["type"] != "stream_chunk"]),
            "text": normalised.text(text_of_all(frames)),
            "events": normalised.value(tree_of(harness, session["id"])),
            "transcript": [
                normalised.value([message.role.value, message.content])
                for message in await harness.transcript(session["id"])
            ],
        }
    assert_as_recorded(f"{name}.gateway", seen)


def text_of_all(frames: list[dict]) -> str:
    texts: dict[int, str] = {}
    for frame in frames:
        if frame["type"] == "stream_chunk" and not frame["data"]["done"]:
            data = frame["data"]
            texts[0] = texts.get(0, "")[: data["offset"]] + data["content"]
    return texts.get(0, "")


@pytest.mark.parametrize("name", on("telegram"))
async def test_over_telegram(name, tmp_path, monkeypatch):
    recorded = CONVERSATIONS[name]
    environment = prepared(tmp_path, recorded)
    async with (
        TelegramServer() as telegram,
        open_telegram_harness(tmp_path, monkeypatch, telegram, environment) as harness,
    ):
        if recorded.mode != "chat_safe":
            await telegram.say(ADA, f"/mode {recorded.mode}")
            await telegram.until_shown(ADA, recorded.mode)
        await telegram.say(ADA, recorded.says)
        await harness.delivered()
        normalised = Normalised(tmp_path)
        shown = [
            {"text": normalised.text(message.text), "buttons": message.labels}
            for message in telegram.messages.values()
            if not message.is_deleted
        ]
    assert_as_recorded(f"{name}.telegram", shown)


@pytest.mark.parametrize("name", on("exec"))
def test_exec_as_json(name, tmp_path):
    recorded = CONVERSATIONS[name]
    environment = prepared(tmp_path, recorded)
    runner = CliRunner(tmp_path, environment)
    place = (
        () if recorded.mode == "chat_safe" else ("--mode", recorded.mode, "--root", str(tmp_path / "root"))
    )
    done = runner("exec", recorded.says, "--json", *place, expect=recorded.exit_code)
    normalised = Normalised(tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert_as_recorded(
        f"{name}.exec",
        {
            "exit_code": done.returncode,
            # How a text is cut depends on the time: only the whole is recorded.
            "lines": [normalised.value(line) for line in lines if line["type"] != "text_delta"],
            "text": normalised.text(
                "".join(line["text"] for line in lines if line["type"] == "text_delta")
            ),
            "stderr": normalised.text(done.stderr).splitlines(),
        },
    )


def test_every_mode_is_recorded():
    assert {ToolMode(recorded.mode) for recorded in CONVERSATIONS.values()} >= {
        *(ToolMode.chat_safe, ToolMode.chat, ToolMode.coding)
    }
