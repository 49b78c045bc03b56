"""A whole session, beside a bare loop and beside other agent libraries, against one scripted server.

A session is eight tool calls, each in a turn of its own, and an answer of two hundred pieces. Every
contestant is a process of its own and says what it used; the server is another one.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.duties import Duty
from bench.environments import ROOT, python_with
from bench.rows import Row, interleaved

CONTESTANTS = Path(__file__).parent / "contestants"
ROUNDS = 5
SESSIONS = 20
SESSIONS_AT_ONCE = 50
AT_ONCE = 100
CALLS, PIECES, MANY_CALLS = 8, 200, 256

OURS = {
    "bare loop, aiohttp (the floor)": "bare",
    "governed loop of 150 lines": "governed",
    "Interlock": "interlock_agent",
}
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
        sessions = [row for at_once in (1, SESSIONS_AT_ONCE) for row in _session(place, at_once)]
        return [*sessions, _growth(place), _memory(place)]


def _session(place: Place, at_once: int) -> list[Row]:
    """One at a time, each commit is one session's; at once, they share commits and warm caches."""
    work = {"sessions": max(SESSIONS, at_once), "at_once": at_once}
    ours, governed, bare = interleaved(
        ROUNDS,
        *(lambda name=name: place.cpu_ms(name, **work) for name in ("interlock_agent", "governed", "bare")),
    )
    how, target = ("alone", 2.7) if at_once == 1 else (f"one of {at_once} at once", 2.5)
    what = f"a session of {CALLS} calls and {PIECES} pieces, {how}"
    return [
        Row(what, ours, bare, "ms CPU", "bare aiohttp loop", target, duty=Duty.session),
        Row(f"{what}, governed", ours, governed, "ms CPU", "governed loop", 1.8, duty=Duty.governed),
    ]


def _growth(place: Place) -> Row:
    def per_step(calls: int, sessions: int) -> float:
        return place.cpu_ms("interlock_agent", calls=calls, pieces=1, sessions=sessions) / calls

    many, few = interleaved(3, lambda: per_step(MANY_CALLS, 2), lambda: per_step(CALLS, SESSIONS))
    what = f"a step of {MANY_CALLS}"
    return Row(what, many, few, "ms CPU", f"a step of {CALLS}", 1.2, duty=Duty.growth)


def _memory(place: Place) -> Row:
    (kilobytes,) = interleaved(3, lambda: place.kb("interlock_agent"))
    what = f"memory of one of {AT_ONCE} sessions at once"
    return Row(what, kilobytes, 250.0, "KB", "KB allowed", 1.0, duty=Duty.memory)


# -- beside others --


@dataclass(frozen=True, slots=True)
class Contestant:
    """What one of them took for the same work, each figure beside those of the others in one run."""

    name: str
    session_ms: float
    step_ms: float
    piece_us: float
    growth: float
    import_s: float
    rss_mb: float
    kb_at_once: float


def contestants() -> list[Contestant]:
    with _place() as place:
        found = [_measured(place, name, program, sys.executable, 3) for name, program in OURS.items()]
        for name, (program, environment, packages) in PEERS.items():
            found.append(_measured(place, name, program, python_with(environment, *packages), 1))
        return found


def _measured(place: Place, name: str, program: str, python: Path | str, rounds: int) -> Contestant:
    def cpu_ms(calls: int, pieces: int, sessions: int) -> float:
        told = [
            place.run(program, python, calls=calls, pieces=pieces, sessions=sessions) for _ in range(rounds)
        ]
        return statistics.median(each["cpu_ms"] for each in told)

    print(f"measuring {name}", file=sys.stderr, flush=True)
    few, some = cpu_ms(CALLS, 1, 5), cpu_ms(3 * CALLS, 1, 5)
    short, long = cpu_ms(0, 1, 10), cpu_ms(0, 1 + 5 * PIECES, 10)
    many = place.run(program, python, calls=MANY_CALLS, pieces=1, sessions=1)["cpu_ms"]
    at_once = place.run(program, python, sessions=AT_ONCE, at_once=AT_ONCE)
    return Contestant(
        name,
        session_ms=cpu_ms(CALLS, PIECES, 10),
        step_ms=(some - few) / (2 * CALLS),
        piece_us=(long - short) / (5 * PIECES) * 1000,
        growth=(many / MANY_CALLS) / (few / CALLS),
        import_s=at_once["import_s"],
        rss_mb=at_once["rss_mb"],
        kb_at_once=at_once["kb_at_once"],
    )


@contextmanager
def _place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as home:
        folder = Path(home) / "files"
        folder.mkdir()
        for number in range(MANY_CALLS):
            (folder / f"value {number}").write_text(f"This is file number {number}, a short one.\n")
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.model_server"],
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
