"""langchain's create_agent, streamed, with langgraph's SQLite checkpoints."""

import asyncio
import tempfile
import uuid
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from stage import ASKED, KEY, SYSTEM, Work, perform, work_given


def main() -> None:
    work, loop = work_given(), asyncio.new_event_loop()

    @tool
    def read_file(path: str) -> str:
        """Read a text file."""
        return work.read_file(path)

    model = ChatOpenAI(model=work.model, base_url=work.base_url, api_key=KEY, streaming=True)
    with tempfile.TemporaryDirectory(dir=Path(work.folder).parent) as home:
        opening = AsyncSqliteSaver.from_conn_string(f"{home}/checkpoints.db")
        saver = loop.run_until_complete(opening.__aenter__())
        agent = create_agent(model, [read_file], system_prompt=SYSTEM, checkpointer=saver)

        async def session(work: Work) -> str:
            limits = {
                "configurable": {"thread_id": uuid.uuid4().hex},
                "recursion_limit": 4 * work.calls + 20,
            }
            asked = {"messages": [{"role": "user", "content": ASKED}]}
            text = ""
            async for piece, _where in agent.astream(asked, limits, stream_mode="messages"):
                if isinstance(piece, AIMessageChunk):
                    text += str(piece.content)
            return text

        perform(session, work, loop)
        loop.run_until_complete(opening.__aexit__(None, None, None))


main()
