"""Interlock as people run it: tasks, leases, gates, two barriers a call, the chained log, redaction."""

import asyncio
import os
import tempfile
from pathlib import Path

from stage import ASKED, KEY, Work, perform, work_given


def main() -> None:
    work, loop = work_given(), asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(dir=Path(work.folder).parent) as home:
        os.environ.update(
            {
                "INTERLOCK_STATE_DIR": f"{home}/state",
                "WORKSPACE_DIR": f"{home}/workspace",
                "TOOL_ALLOWED_ROOTS": work.folder,
                "OPENAI_BASE_URL": work.base_url,
                "OPENAI_API_KEY": KEY,
                "MODEL": f"openai:{work.model}",
                "MODEL_CONTEXT_TOKENS": "10000000",
                "CONTROL_MAX_TURNS": "10000",
                "CONTROL_MAX_TOKENS": "1000000000",
                "WORKER_SESSIONS": str(work.at_once),
            }
        )
        run(work, loop)


def run(work: Work, loop: asyncio.AbstractEventLoop) -> None:
    from interlock.config.modes import ToolMode
    from interlock.config.settings import Settings
    from interlock.runtime.bus import LogAppended, TextAppended
    from interlock.wiring import open_runtime
    from interlock.wiring.agents import open_agent_runtime

    runtime = open_runtime(Settings(), opened=[ToolMode.chat])
    agent_runtime = open_agent_runtime(runtime)

    async def session(_work: Work) -> str:
        made = await runtime.sessions.create(opened_by="bench", mode=ToolMode.chat)
        heard: asyncio.Queue[TextAppended | LogAppended] = asyncio.Queue()
        leave = runtime.bus.subscribe(heard.put_nowait, TextAppended, LogAppended, session_id=made.id)
        await agent_runtime.tasks.put(made.id, ASKED, who="bench")
        text = ""
        while True:
            match await heard.get():
                case TextAppended(text=more):
                    text += more
                case LogAppended(events=events):
                    if any(event.kind == "task.finished" for event in events):
                        leave()
                        return text

    async def start() -> tuple[object, asyncio.Task[None]]:
        worker = agent_runtime.worker()
        return worker, asyncio.create_task(worker.run())

    worker, running = loop.run_until_complete(start())
    perform(session, work, loop)
    worker.stop()
    loop.run_until_complete(running)
    loop.run_until_complete(agent_runtime.close())
    loop.run_until_complete(runtime.close())


main()
