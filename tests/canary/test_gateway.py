"""Secrets said over a socket, by people and by a model: no frame and no answer brings one back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from interlock.wiring.agents import open_agent_runtime
from interlock.wiring.gateway import ListenAddress, listening_socket, open_gateway, open_server
from tests.canary.canaries import Canary
from tests.harness.canary import CanaryHarness
from tests.harness.gateway import GatewayClient, GatewayHarness, RequestRefused, text_of
from tests.harness.model_answers import called, refused, said
from tests.harness.model_server import ModelServer


@pytest.fixture
async def model(canaries) -> AsyncIterator[ModelServer]:
    async with ModelServer([], key=canaries.environment["OPENAI_API_KEY"]) as server:
        yield server


@pytest.fixture
def surroundings(surroundings, model) -> dict[str, str]:
    """As before, with a model that can be told what to say."""
    spoken = {"MODEL": "openai", "OPENAI_BASE_URL": model.base_url, "OPENAI_MODEL": "m"}
    return {**surroundings, **spoken, "GATEWAY_REQUESTS_PER_SECOND": "100000", "CONTROL_MAX_RETRIES": "0"}


@asynccontextmanager
async def gateway_of(harness: CanaryHarness) -> AsyncIterator[GatewayHarness]:
    """Every frame that any socket was sent is heard at the end."""
    agent_runtime, listening = open_agent_runtime(harness.runtime), listening_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    gateway = open_gateway(agent_runtime, port=port)
    server = open_server(gateway, harness.runtime, ListenAddress("127.0.0.1", port))
    worker, stop = agent_runtime.worker(), asyncio.Event()
    working = asyncio.create_task(worker.run())
    serving = asyncio.create_task(server.run(listening, gateway.beside(), stop))
    house = GatewayHarness(agent_runtime, gateway, port, harness.root)
    try:
        yield house
    finally:
        for client in house._clients:
            harness.heard(
                "frames", json.dumps(client.frames, ensure_ascii=False), json.dumps(client.frames)
            )
            harness.heard("text of frames", text_of(client.frames), _chunks(client))
        await house.close()
        stop.set()
        await serving
        worker.stop()
        await working
        await agent_runtime.close()


def _chunks(client: GatewayClient) -> str:
    """All pieces of text one behind the other, wherever they were to stand."""
    return "".join(frame["data"]["content"] for frame in client.of("stream_chunk"))


async def tried(client: GatewayClient, method: str, /, **params: object) -> None:
    try:
        await client.ask(method, **params)
    except RequestRefused:
        return


async def test_what_people_say(harness: CanaryHarness):
    """In everything that a method takes, and where it is refused for it."""
    async with gateway_of(harness) as house:
        client = await house.connect()
        for canary in harness.canaries.alone:
            await _said_everywhere(client, canary, harness.session_id)
        harness.heard("downloads", *await _downloads(harness, house))
    assert await harness.is_clean()


async def _said_everywhere(client: GatewayClient, canary: Canary, session_id: str) -> None:
    secret, ask = canary.secret, lambda method, **params: tried(client, method, **params)
    # Longer ones are refused for their length, before anybody looks for them.
    name = secret[:64] if len(secret) <= 64 else "s_1"
    await asyncio.gather(
        *(
            ask("session.create", **{field: secret})
            for field in ("title", "mode", "agent", "model", secret)
        ),
        ask("session.create", title=f"{'x' * 150} {secret}"),
        ask("session.rename", session_id=session_id, title=f"about {secret}"),
        ask("session.rename", session_id=name, title=secret),
        *(ask(f"session.{method}", session_id=name) for method in ("get", "subscribe", "delete", "export")),
        ask("session.search", query=secret[:200]),
        ask("session.set_mode", session_id=session_id, mode=secret),
        ask("session.set_model", session_id=session_id, model=secret),
        ask("chat.cancel", session_id=session_id, task_id=name),
        ask("chat.send", session_id=session_id, content=secret, task_id=name),
        *(ask(f"tasks.{method}", task_id=name) for method in ("get", "cancel", "retry", "undo")),
        ask("tasks.list", status=secret),
        ask("events.tail", kinds=[secret[:64]]),
        ask("ask_user.answer", question_id=name, answer={secret: secret}),
        ask(secret),
    )
    for patch in ({secret: 1}, {"tools": {secret: secret}}, {"tools": {"denied_tools": [secret]}}):
        await ask("settings.preview", patch=patch)
        await ask("settings.update", patch=patch)
    for mode in ("coding", secret):
        await ask("policy.explain", tool_name=secret, mode=mode)
        for arguments in ({"path": secret}, {secret: secret}, {"path": f"/{secret}/x"}):
            await ask("policy.explain", tool_name="read_file", mode=mode, arguments=arguments)
        await ask("policy.explain", tool_name="bash", mode=mode, arguments={"command": f"rm {secret}"})


async def _downloads(harness: CanaryHarness, house: GatewayHarness) -> list[bytes]:
    token = {"Authorization": f"Bearer {await house.token('loader')}"}
    found: list[bytes] = []
    async with aiohttp.ClientSession(headers=token) as browser:
        names = [harness.session_id, *(canary.secret for canary in harness.canaries.alone)]
        for name in names:
            for path in (f"export/session/{name}.jsonl", "export/events.jsonl", "metrics"):
                params = {"session_id": name} if path.startswith("export/events") else {}
                async with browser.get(f"{house.url}/{path}", params=params) as answer:
                    found += [await answer.read(), repr(answer.headers).encode()]
    return found


async def test_what_a_model_says(harness: CanaryHarness, model: ModelServer):
    """In its text, a few characters at a time, in its calls and their results, and in how it refuses."""
    harness.write("all.txt", harness.canaries.text)
    several = [
        ("read_file", {"path": "all.txt"}),
        ("read_file", {"path": f"{harness.canaries.known[0].secret}.txt"}),
    ]
    calls = [called(*several, ids="c"), called(("no_such_tool", {"x": harness.canaries.text}), ids="d")]
    model.add(*calls, said(harness.canaries.text, size=3), refused(400, harness.canaries.text))
    async with gateway_of(harness) as house:
        client, other = await house.connect(), await house.connect()
        await other.ask("session.subscribe", session_id=harness.session_id)
        for content in (harness.canaries.text, "again"):
            task = (await client.ask("chat.send", session_id=harness.session_id, content=content))["task"]
            for each in (client, other):
                await each.until_end(task["id"])
        for method in ("chat.history", "session.get", "session.subscribe", "events.tree", "events.tail"):
            await client.ask(method, session_id=harness.session_id)
        for method in ("session.list", "tasks.list", "questions.list", "stats.get", "session.search"):
            await client.ask(method, **({"query": "ordinary"} if method == "session.search" else {}))
        assert any("ordinary words between" in _chunks(each) for each in (client, other))
        assert other.of("tool_result")
    assert await harness.is_clean()


async def test_what_an_agent_is_said_to_be(harness: CanaryHarness):
    """Its file is a person's own and keeps what they wrote; nobody else is told."""
    folder = harness.workspace / "agents"
    folder.mkdir(parents=True)
    harness._raw.append(folder)
    for number, canary in enumerate(harness.canaries.alone):
        text = json.dumps(f"Knows {canary.secret} by heart")
        (folder / f"a{number}.md").write_text(f"---\nname: a{number}\ndescription: {text}\n---\nYou do.\n")
        fault = f"---\nname: b{number}\n{json.dumps(canary.secret)}: 1\n---\n{canary.secret}\n"
        (folder / f"b{number}.md").write_text(fault)
    async with gateway_of(harness) as house:
        client = await house.connect()
        listed = (await client.ask("agents.list"))["agents"]
        assert any(agent["problem"] for agent in listed)
        for agent in listed:
            await tried(client, "session.create", agent=agent["name"])
            await tried(client, "session.create", agent=f"{agent['name']}x")
    assert await harness.is_clean()
