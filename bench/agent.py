"""A whole session, beside a bare loop and beside other agent libraries, against one scripted server.

A session is eight tool calls, each in a turn of its own, and an answer of two hundred pieces. Every
contestant is a process of its own and says what it used; the server is another one.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.environments import ROOT, python_with
from bench.rows import Row, interleaved

CONTESTANTS = Path(__file__).parent / "contestants"
ROUNDS = 5
SESSIONS = 20
SESSIONS_AT_ONCE = 50
AT_ONCE = 100
CALLS, PIECES, MANY_CALLS = 8, 200, 256

PEERS = {
    "openai SDK loop": ("openai_sdk", "openai", ("openai",)),
    "pydantic-ai": ("pydantic_ai_agent", "pydantic-ai", ("pydantic-ai-slim[openai]",)),
    "openai-agents, SQLite": ("openai_agents", "openai-agents", ("openai-agents",)),
    "langchain, SQLite": (
        "langchain_agent",
        "langchain",
        ("langchain", "langchain-openai", "langgraph-checkpoint-sqlite", "aiosqlite"),
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the work is done: the server's address and the folder of the files that are read."""

    base_url: str
    folder: Path

    def run(
        self,
        contestant: str,
        python: Path | str = sys.executable,
        *,
        calls: int = CALLS,
        pieces: int = PIECES,
        sessions: int = SESSIONS,
        at_once: int = 1,
    ) -> dict[str, float]:
        work = {
            "base_url": self.base_url,
            "folder": str(self.folder),
            "calls": calls,
            "pieces": pieces,
            "sessions": sessions,
            "at_once": at_once,
        }
        program = [python, CONTESTANTS / f"{contestant}.py", json.dumps(work)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return told

    def cpu_ms(self, contestant: str, **work: int) -> float:
        return self.run(contestant, **work)["cpu_ms"]

    def kb(self, contestant: str) -> float:
        return self.run(contestant, sessions=AT_ONCE, at_once=AT_ONCE)["kb_at_once"]


def rows() -> list[Row]:
    with _place() as place:
        sessions = [_session(place, at_once) for at_once in (1, SESSIONS_AT_ONCE)]
        return [*sessions, _growth(place), _memory(place), *_peers(place)]


def _session(place: Place, at_once: int) -> Row:
    """One at a time, each commit is one session's; at once, they share commits and warm caches."""
    work = {"sessions": max(SESSIONS, at_once), "at_once": at_once}
    governed, bare = interleaved(
        ROUNDS, lambda: place.cpu_ms("interlock_agent", **work), lambda: place.cpu_ms("bare", **work)
    )
    how = "alone" if at_once == 1 else f"one of {at_once} at once"
    what = f"a session of {CALLS} calls and {PIECES} pieces, {how}"
    return Row(what, governed, bare, "ms CPU", "bare aiohttp loop", 2.0)


def _growth(place: Place) -> Row:
    def per_step(calls: int, sessions: int) -> float:
        return place.cpu_ms("interlock_agent", calls=calls, pieces=1, sessions=sessions) / calls

    many, few = interleaved(3, lambda: per_step(MANY_CALLS, 2), lambda: per_step(CALLS, SESSIONS))
    return Row(f"a step of {MANY_CALLS}", many, few, "ms CPU", f"a step of {CALLS}", 1.5)


def _memory(place: Place) -> Row:
    governed, bare = interleaved(3, lambda: place.kb("interlock_agent"), lambda: place.kb("bare"))
    return Row(
        f"memory of one of {AT_ONCE} sessions at once", governed, bare, "KB", "bare aiohttp loop", 2.0
    )


def _peers(place: Place) -> Iterator[Row]:
    """What others take for the same session, beside the bare loop."""
    bare = place.cpu_ms("bare")
    for name, (contestant, environment, packages) in PEERS.items():
        python = python_with(environment, *packages)
        taken = place.run(contestant, python, sessions=5)["cpu_ms"]
        yield Row(f"the same session: {name}", taken, bare, "ms CPU", "bare aiohttp loop")


@contextmanager
def _place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as home:
        folder = Path(home) / "files"
        folder.mkdir()
        for number in range(MANY_CALLS):
            (folder / f"value {number}").write_text(f"This is file number {number}, a short one.\n")
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.doubles.openai_server"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            yield Place(server.stdout.readline().strip(), folder)
        finally:
            server.terminate()
            server.wait()
