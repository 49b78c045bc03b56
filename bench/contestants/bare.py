"""The floor: aiohttp and orjson, the history kept encoded, nothing judged, nothing recorded."""

import asyncio

import aiohttp
import orjson
from stage import ASKED, KEY, SYSTEM, TOOL, Work, perform, work_given

BODY = b'{"model":%b,"stream":true,"stream_options":{"include_usage":true},"tools":%b,"messages":[%b]}'


async def session(client: aiohttp.ClientSession, work: Work) -> str:
    history = [
        orjson.dumps({"role": "system", "content": SYSTEM}),
        orjson.dumps({"role": "user", "content": ASKED}),
    ]
    tools, model = orjson.dumps([TOOL]), orjson.dumps(work.model)
    while True:
        body = BODY % (model, tools, b",".join(history))
        text, calls = await turn(client, work, body)
        if not calls:
            return text
        asked = [{"id": call.pop("id"), "type": "function", "function": call} for call in calls]
        history.append(orjson.dumps({"role": "assistant", "content": text or None, "tool_calls": asked}))
        for call in asked:
            result = work.read_file(**orjson.loads(call["function"]["arguments"]))
            history.append(orjson.dumps({"role": "tool", "tool_call_id": call["id"], "content": result}))


async def turn(client: aiohttp.ClientSession, work: Work, body: bytes) -> tuple[str, list[dict[str, str]]]:
    pieces: list[str] = []
    calls: dict[int, dict[str, str]] = {}
    async with client.post(f"{work.base_url}/chat/completions", data=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            for choice in orjson.loads(line[6:]).get("choices", ()):
                delta = choice["delta"]
                if delta.get("content"):
                    pieces.append(delta["content"])
                for part in delta.get("tool_calls") or ():
                    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                    call["id"] += part.get("id") or ""
                    call["name"] += part["function"].get("name") or ""
                    call["arguments"] += part["function"].get("arguments") or ""
    return "".join(pieces), list(calls.values())


def main() -> None:
    work, loop = work_given(), asyncio.new_event_loop()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}

    async def client() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0))

    opened = loop.run_until_complete(client())
    perform(lambda asked: session(opened, asked), work, loop)
    loop.run_until_complete(opened.close())


main()
