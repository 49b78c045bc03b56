"""openai-agents, streamed, with its SQLite session."""

import asyncio
import tempfile
import uuid
from pathlib import Path

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent
from stage import ASKED, KEY, SYSTEM, Work, perform, work_given


def main() -> None:
    work, loop = work_given(), asyncio.new_event_loop()
    set_tracing_disabled(disabled=True)

    @function_tool
    def read_file(path: str) -> str:
        """Read a text file."""
        return work.read_file(path)

    client = AsyncOpenAI(base_url=work.base_url, api_key=KEY)
    model = OpenAIChatCompletionsModel(model=work.model, openai_client=client)
    agent = Agent(name="bench", instructions=SYSTEM, tools=[read_file], model=model)
    with tempfile.TemporaryDirectory(dir=Path(work.folder).parent) as home:

        async def session(work: Work) -> str:
            store = SQLiteSession(uuid.uuid4().hex, f"{home}/sessions.db")
            running = Runner.run_streamed(agent, ASKED, session=store, max_turns=work.calls + 10)
            text = ""
            async for event in running.stream_events():
                if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
                    text += event.data.delta
            store.close()
            return text

        perform(session, work, loop)


main()
