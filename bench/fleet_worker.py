"""One worker process of the fleet's bench: `python -m bench.fleet_worker empty|agent`.

`empty` takes tasks up and ends them by the same scheme, and does nothing in between. It prints "ready", and
when its input ends, the seconds of processor time it used since.
"""

import asyncio
import sys
import time

from interlock.config.settings import load_settings
from interlock.session.lease import Lease
from interlock.wiring import open_runtime
from interlock.wiring.office import Office, open_office, worker_name
from interlock.worker.handler import Done, TaskOutcome
from interlock.worker.rows import Task
from interlock.worker.worker import Worker, WorkerLimits


class Nothing:
    async def handle(self, task: Task, lease: Lease, cancelled: asyncio.Event) -> TaskOutcome:  # noqa: ARG002
        return Done()


def idle_hands(office: Office) -> Worker:
    runtime = office.runtime
    return Worker(
        worker_name(),
        Nothing(),
        log=runtime.log,
        tasks=office.tasks,
        backlog=office.backlog,
        bell=runtime.bell,
        leases=runtime.leases,
        limits=WorkerLimits(),
    )


async def main(kind: str) -> None:
    runtime = open_runtime(load_settings())
    office = open_office(runtime)
    worker = office.worker() if kind == "agent" else idle_hands(office)
    tasks = [asyncio.create_task(worker.run()), asyncio.create_task(office.listen(worker.has_room))]
    await asyncio.sleep(1)
    print("ready", flush=True)
    began = time.process_time()
    await asyncio.to_thread(sys.stdin.read)
    print(time.process_time() - began, flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await office.close()
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
