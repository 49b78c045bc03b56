"""One worker process of the fleet's bench: `python -m bench.fleet_worker empty|agent`.

`empty` takes tasks up and ends them by the same scheme, and does nothing in between. It prints "ready", and
when its input ends, the seconds of processor time it used since.
"""

import asyncio
import sys
import time

from interlock.config.settings import load_settings
from interlock.db.leases import Lease
from interlock.runtime.task_handler import DoneOutcome, TaskOutcome
from interlock.runtime.task_rows import Task
from interlock.runtime.worker import Worker, WorkerLimits
from interlock.wiring import open_runtime
from interlock.wiring.agents import AgentRuntime, new_worker_name, open_agent_runtime


class Nothing:
    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:  # noqa: ARG002
        return DoneOutcome()


def idle_hands(agent_runtime: AgentRuntime) -> Worker:
    runtime = agent_runtime.runtime
    return Worker(
        new_worker_name(),
        Nothing(),
        log=runtime.log,
        tasks=agent_runtime.tasks,
        backlog=agent_runtime.backlog,
        bus=runtime.bus,
        leases=runtime.leases,
        limits=WorkerLimits(),
    )


async def main(kind: str) -> None:
    runtime = open_runtime(load_settings())
    agent_runtime = open_agent_runtime(runtime)
    worker = agent_runtime.worker() if kind == "agent" else idle_hands(agent_runtime)
    tasks = [asyncio.create_task(worker.run()), asyncio.create_task(runtime.bus.run(worker.has_room))]
    await asyncio.sleep(1)
    print("ready", flush=True)
    began = time.process_time()
    await asyncio.to_thread(sys.stdin.read)
    print(time.process_time() - began, flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await agent_runtime.close()
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
