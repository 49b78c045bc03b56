"""A server with one running job, to be killed.

python -m tests.escape.server_process FOLDER MARK CODE
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from interlock.sandbox.jobs import Job
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.sandbox.profile import SandboxProfile
from tests.escape.confinement import MARK, line_of


async def serve(folder: str, mark: str, code: str) -> None:
    backend = LandlockBackend()
    await backend.start()
    script = "(setsid sleep 60 > /dev/null 2>&1 &); setsid sleep 60 & echo on; wait"
    opened = os.open(folder, os.O_PATH)
    job = Job(
        ("/bin/sh", "-c", script), opened, {MARK: mark, "PATH": "/bin"}, SandboxProfile((Path(folder),))
    )
    async with backend.running(job) as child:
        await line_of(child.stdout)
        exec(code)  # noqa: S102 - a test's own
        sys.stdout.write(json.dumps({"launcher": backend.launcher_pid}) + "\n")
        sys.stdout.flush()
        await child.wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
