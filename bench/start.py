"""A cold `interlock --help` beside importing the command-line library alone, and what a server holds."""

import asyncio
import os
import re
import resource
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from websockets.asyncio.client import connect

from bench.duties import Duty
from bench.rows import Row, interleaved
from bench.soak.people import Page, Tally

ROUNDS = 15
SERVER_MEGABYTES = 70.0


def cpu_milliseconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def server_megabytes() -> float:
    """The memory of its own that `interlock serve` holds once it has shown its page and done a task."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as home:
        places = {"INTERLOCK_STATE_DIR": f"{home}/state", "WORKSPACE_DIR": f"{home}/workspace"}
        server = subprocess.Popen(
            [sys.executable, "-m", "interlock", "serve", "--port", "0"],
            env=os.environ | places,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout is not None
            base = server.stdout.readline().partition("/#")[0]
            _look_at(base)
            add = [sys.executable, "-m", "interlock", "token", "add", "bench"]
            token = subprocess.run(
                add, env=os.environ | places, check=True, capture_output=True, text=True
            ).stdout.strip()
            asyncio.run(_have_a_task_done(base, token))
            status = Path(f"/proc/{server.pid}/status").read_text()
            found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
            assert found is not None
            return int(found[1]) / 1024
        finally:
            server.terminate()
            server.wait()


def _look_at(base: str) -> None:
    for path in ("/", "/static/app.js", "/healthz", "/readyz"):
        with urllib.request.urlopen(base + path) as answer:  # noqa: S310 - a server of ours
            assert answer.status == 200
            answer.read()


async def _have_a_task_done(base: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(base.replace("http", "ws", 1) + "/ws", additional_headers=headers) as socket:
        page = Page(socket, Tally())
        session_id = (await page.ask("session.create"))["session"]["id"]
        _, end = await page.send(session_id, "what time is it?")
        assert await end == "done"
        page.reading.cancel()


def rows() -> list[Row]:
    library, help_page, group, bare = interleaved(
        ROUNDS,
        lambda: cpu_milliseconds("-c", "import cyclopts"),
        lambda: cpu_milliseconds("-m", "interlock", "--help"),
        lambda: cpu_milliseconds("-m", "interlock", "policy", "--help"),
        lambda: cpu_milliseconds("-c", "pass"),
    )
    beside = "ms import cyclopts"
    return [
        Row("start: interlock --help, cold", help_page, library, "ms CPU", beside, 1.3, duty=Duty.start),
        Row("start: interlock policy --help, cold", group, library, "ms CPU", beside),
        Row("start: the library alone", library, bare, "ms CPU", "ms bare Python"),
        Row(
            "start: memory of a warm server",
            *(server_megabytes(), SERVER_MEGABYTES, "MB", "MB asked", 1.0),
            duty=Duty.server,
        ),
    ]
