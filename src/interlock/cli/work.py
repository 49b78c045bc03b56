"""`interlock worker`: works on whatever tasks there are, in all sessions."""

import asyncio
import signal

from interlock.cli.exits import Exit
from interlock.cli.output import note
from interlock.cli.runtime import opened_office


async def worker() -> int:
    """Take up tasks until it is told to stop (Ctrl-C or SIGTERM): what runs is then finished or left.

    A second Ctrl-C does not wait. What is left is gone on with by the next worker, from the log.
    """
    async with opened_office(sandboxed=True) as office:
        office.models.open(office.models.usual)
        working = office.worker()
        running = asyncio.create_task(working.run())
        listening = asyncio.create_task(office.listen(working.has_room))
        loop = asyncio.get_running_loop()

        def stop() -> None:
            if working.is_stopping:
                running.cancel()
            working.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        note(f"working on {office.runtime.settings.state_dir}; Ctrl-C stops")
        await asyncio.wait({running})
        listening.cancel()
        await asyncio.wait({listening})
        if not running.cancelled():
            running.result()
    return Exit.ok
