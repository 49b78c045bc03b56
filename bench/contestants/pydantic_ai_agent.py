"""pydantic-ai's agent, streamed. It keeps no store."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from stage import ASKED, KEY, SYSTEM, Work, perform, work_given


def main() -> None:
    work, loop = work_given(), asyncio.new_event_loop()
    provider = OpenAIProvider(base_url=work.base_url, api_key=KEY)
    agent = Agent(OpenAIChatModel(work.model, provider=provider), instructions=SYSTEM)

    @agent.tool_plain
    def read_file(path: str) -> str:
        """Read a text file."""
        return work.read_file(path)

    async def session(work: Work) -> str:
        limits = UsageLimits(request_limit=work.calls + 10)
        async with agent.run_stream(ASKED, usage_limits=limits) as answer:
            return "".join([piece async for piece in answer.stream_text(delta=True, debounce_by=None)])

    perform(session, work, loop)


main()
