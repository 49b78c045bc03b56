"""The scripted server itself: that it finds what is wrong with a request, and serves as a process."""

import asyncio
import sys

import aiohttp
import orjson

from interlock.models.openai_chat import ChatEndpointConfig, OpenAIChatProvider
from interlock.models.provider import AssistantMessage, ModelRequest, ToolMessage, UserMessage
from tests.harness.model_answers import MODEL, said
from tests.harness.model_server import KEY, ModelServer
from tests.integration.models.asking import asked

TOOL = {
    "type": "function",
    "function": {
        "name": "echo",
        "description": "Echo.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    },
}
GOOD = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "x"}]}


async def faults_of(
    document: object = GOOD, *, path: str = "/chat/completions", key: str = KEY
) -> list[str]:
    data = document if isinstance(document, bytes) else orjson.dumps(document)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    async with ModelServer([said("ok")]) as server, aiohttp.ClientSession() as session:
        async with session.post(server.base_url + path, data=data, headers=headers) as response:
            await response.read()
        return server.faults


async def test_a_good_request_has_no_fault():
    assert await faults_of() == []
    assert await faults_of(GOOD | {"tools": [TOOL], "tool_choice": "required"}) == []


async def test_what_is_wrong_with_a_request_is_kept():
    assert await faults_of(path="/completions") == ["POST /v1/completions"]
    assert await faults_of(key="other") == ["the Authorization header is 'Bearer other'"]
    assert (await faults_of(b"{"))[0].startswith("the body is not JSON")
    assert await faults_of([]) == ["the body is not an object"]
    assert await faults_of(GOOD | {"stream": False}) == ["it does not ask for a stream"]
    assert await faults_of(GOOD | {"model": ""}) == ["there is no model"]
    assert await faults_of(GOOD | {"max_tokens": 0}) == ["max_tokens is no positive number"]
    assert await faults_of(GOOD | {"messages": []}) == ["there are no messages"]
    assert await faults_of(GOOD | {"tool_choice": "required"}) == ["tool_choice without tools"]
    assert await faults_of(GOOD | {"tools": []}) == ["tools is no list, or empty"]
    assert await faults_of(GOOD | {"tools": [TOOL, TOOL]}) == ["two tools have the same name"]
    dotted = {"type": "function", "function": TOOL["function"] | {"name": "fs.read"}}
    assert await faults_of(GOOD | {"tools": [dotted]}) == ["a tool is named 'fs.read'"]


async def test_a_request_that_no_script_foresaw_is_a_fault():
    async with ModelServer() as server, aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with session.post(
            f"{server.base_url}/chat/completions", json=GOOD, headers=headers
        ) as response:
            assert response.status == 500
        assert server.faults == ["a request that no script foresaw"]


async def test_as_a_process_it_plays_a_session_by_the_models_name_and_reports():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.harness.model_server", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        base_url = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
        provider = OpenAIChatProvider(ChatEndpointConfig(base_url, "work-3-7", KEY))
        messages, turns = [UserMessage("Work.")], []
        for _ in range(4):
            pieces, reply = await asked(provider, ModelRequest(tuple(messages), orjson.dumps([TOOL])))
            turns.append(("".join(pieces), [(call.name, call.arguments) for call in reply.tool_calls]))
            messages.append(AssistantMessage(reply.text, reply.tool_calls))
            messages += [ToolMessage(call.call_id, "done") for call in reply.tool_calls]
        await provider.close()
        answer = "".join(f"word{number} " for number in range(7))
        assert turns == [("", [("echo", f'{{"text":"value {n}"}}')]) for n in range(3)] + [(answer, [])]
        address = base_url.removesuffix("/v1") + "/report"
        async with aiohttp.ClientSession() as session, session.get(address) as response:
            report = await response.json()
        assert report == {"requests": 4, "connections": 2, "faults": []}
    finally:
        process.terminate()
        await process.wait()
