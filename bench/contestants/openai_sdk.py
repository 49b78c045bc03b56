"""A loop on the openai SDK: streamed, nothing judged, nothing recorded."""

import asyncio
import json

from openai import AsyncOpenAI
from stage import ASKED, KEY, SYSTEM, TOOL, Work, perform, work_given


async def session(client: AsyncOpenAI, work: Work) -> str:
    history = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}]
    while True:
        text, calls = "", {}
        stream = await client.chat.completions.create(
            model=work.model,
            messages=history,
            tools=[TOOL],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] += part.id or ""
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
        if not calls:
            return text
        asked = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in calls.values()
        ]
        history.append({"role": "assistant", "content": text or None, "tool_calls": asked})
        for call in calls.values():
            result = work.read_file(**json.loads(call["arguments"]))
            history.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def main() -> None:
    work, loop = work_given(), asyncio.new_event_loop()
    client = AsyncOpenAI(base_url=work.base_url, api_key=KEY)
    perform(lambda asked: session(client, asked), work, loop)


main()
