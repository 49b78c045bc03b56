"""Durable events beside plain sqlite3 with the same durability, alone and from fifty writers.

"Plain" is the least anyone could do: one row, one commit, `synchronous=FULL`, no chain, no head, no
fence. The bare group commit does what the log does to share a commit, and nothing else.
"""

import asyncio
import queue
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from bench.duties import Duty
from bench.rows import Row, interleaved
from interlock.db.database import StoreConfig, open_database
from interlock.db.leases import Leases
from interlock.log.kinds import ToolCallCompleted
from interlock.log.stream_appender import NO_SCOPE, EventDraft, StreamAppender
from interlock.log.task_events import TurnCompletedEvent
from interlock.log.writer import EventLog
from interlock.redaction.redactor import Redactor
from interlock.wiring.projections import PROJECTIONS

ROUNDS, ALONE, WRITERS, EACH = 7, 300, 50, 200
EVENT = ToolCallCompleted(
    call_id="call_0123456789ab",
    tool_name="read_file",
    mode="coding",
    authority_digest="d" * 64,
    latency_ms=1.25,
    exit_code=0,
    truncated_lines=False,
    truncated_bytes=False,
    output_hash="e" * 64,
)
# Beside its own row, it has one in the search index and changes one of usage.
TURN = TurnCompletedEvent(
    turn=1,
    authority_digest="d" * 64,
    messages=2,
    finish_reason="stop",
    tool_calls=0,
    input_tokens=1_000,
    output_tokens=100,
    latency_ms=900.0,
    model="bench",
    content="I read the file and changed one line of it. " * 8,
)
PAYLOAD = orjson.dumps(EVENT.payload()).decode()
INSERT = "INSERT INTO events (stream, seq, time_us, kind, payload) VALUES (?, ?, ?, ?, ?)"


@contextmanager
def folder() -> Iterator[Path]:
    """On the disk the repository is on: a memory file system would make every commit free."""
    path = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path(__file__).parent))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Plain:
    """One sqlite3 connection and one table."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(
            "CREATE TABLE events (position INTEGER PRIMARY KEY, stream TEXT, seq INTEGER, time_us INTEGER, "
            "kind TEXT, payload TEXT, UNIQUE (stream, seq))"
        )
        self._seq = 0

    def rows(self, streams: list[str]) -> list[tuple[object, ...]]:
        self._seq += 1
        return [(stream, self._seq, time.time_ns(), EVENT.kind, PAYLOAD) for stream in streams]

    def write(self, streams: list[str]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(INSERT, self.rows(streams))
        self.connection.execute("COMMIT")


class BareGroupCommit:
    """Fifty coroutines, one thread, one shared commit: the floor for any log that keeps off the loop."""

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def append(self, stream: str) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.put((stream, loop, future))
        await future

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty() and len(group) < 1024:
                group.append(self._queue.get())
            self._plain.write([f"{stream}.{n}" for n, (stream, _, _) in enumerate(group)])
            first[1].call_soon_threadsafe(lambda done: [f.set_result(None) for _, _, f in done], group)


class Ours:
    def __init__(self, path: Path) -> None:
        self.database = open_database(StoreConfig(f"sqlite:///{path}"))
        self.log = EventLog(self.database, Redactor(), PROJECTIONS)
        self.streams = [f"s_{number:016x}" for number in range(WRITERS)]
        self.tokens: dict[str, int] = {}

    async def prepare(self) -> None:
        leases = Leases(self.log, seconds=3600)
        for stream in self.streams:
            await self.log.transact(stream, lambda transaction: transaction.open_stream())
            lease = await leases.take(stream, "bench")
            assert lease is not None
            self.tokens[stream] = lease.token

    async def append(self, stream: str) -> None:
        await self.log.append(stream, EVENT, token=self.tokens[stream])

    async def append_turn(self, stream: str) -> None:
        await self.log.append(stream, TURN, token=self.tokens[stream])

    def close(self) -> None:
        self.log.close()
        self.database.close()


@contextmanager
def measured(found: dict[str, float], times: int) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    found["wall"] = (time.perf_counter() - wall) / times * 1e6
    found["cpu"] = (time.process_time() - cpu) / times * 1e6


class Contest:
    """All sides on the same disk, in turn; each call is one round of one side."""

    def __init__(self, path: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.plain = Plain(path / "plain.db")
        self.threaded = Plain(path / "threaded.db")
        self.grouped = BareGroupCommit(Plain(path / "grouped.db"))
        self.ours = Ours(path / "ours.db")
        self.loop.run_until_complete(self.ours.prepare())
        self.direct_connection = self.ours.database.config.connect()
        self.found: dict[str, list[dict[str, float]]] = {}

    def close(self) -> None:
        self.grouped.close()
        self.ours.close()
        self.direct_connection.close()
        self.loop.close()

    def plain_alone(self) -> None:
        for _ in range(ALONE):
            self.plain.write(["alone"])

    def direct_alone(self) -> None:
        """The log's own transaction, without the way from the loop to the writer and back."""
        heads: dict = {}
        stream = self.ours.streams[-1]
        for _ in range(ALONE):
            self.direct_connection.begin(write=True)
            appender = StreamAppender(self.direct_connection, heads, PROJECTIONS)
            draft = EventDraft(EVENT, NO_SCOPE, Redactor())
            appender.add(stream, self.ours.tokens[stream], [draft], print)
            appender.flush()
            self.direct_connection.commit()

    def threaded_alone(self) -> None:
        async def run() -> None:
            for _ in range(ALONE):
                await asyncio.to_thread(self.threaded.write, ["alone"])

        self.loop.run_until_complete(run())

    def ours_alone(self) -> None:
        async def run() -> None:
            for _ in range(ALONE):
                await self.ours.append(self.ours.streams[0])

        self.loop.run_until_complete(run())

    def plain_group(self) -> None:
        for _ in range(EACH):
            self.plain.write(self.ours.streams)

    def _together(self, append: Callable[[str], Awaitable[None]]) -> None:
        async def one(stream: str) -> None:
            for _ in range(EACH):
                await append(stream)

        async def run() -> None:
            await asyncio.gather(*(one(stream) for stream in self.ours.streams))

        self.loop.run_until_complete(run())

    def grouped_together(self) -> None:
        self._together(self.grouped.append)

    def ours_together(self) -> None:
        self._together(self.ours.append)

    def turns_together(self) -> None:
        self._together(self.ours.append_turn)


def rows() -> list[Row]:
    with folder() as path:
        contest = Contest(path)

        def side(work: Callable[[], None], times: int, what: str) -> Callable[[], float]:
            def run() -> float:
                found: dict[str, float] = {}
                with measured(found, times):
                    work()
                return found[what]

            return run

        events = WRITERS * EACH
        wall = interleaved(
            ROUNDS,
            side(contest.plain_alone, ALONE, "wall"),
            side(contest.direct_alone, ALONE, "wall"),
            side(contest.threaded_alone, ALONE, "wall"),
            side(contest.ours_alone, ALONE, "wall"),
            side(contest.grouped_together, events, "wall"),
            side(contest.ours_together, events, "wall"),
        )
        cpu = interleaved(
            ROUNDS,
            side(contest.plain_alone, ALONE, "cpu"),
            side(contest.ours_alone, ALONE, "cpu"),
            side(contest.plain_group, events, "cpu"),
            side(contest.grouped_together, events, "cpu"),
            side(contest.ours_together, events, "cpu"),
            side(contest.turns_together, events, "cpu"),
        )
        contest.close()
    plain, direct, threaded, ours, grouped, together = wall
    plain_cpu, ours_cpu, group_cpu, grouped_cpu, together_cpu, turn_cpu = cpu
    per_second = 1e6 / together
    return [
        Row(
            "log: a durable event alone, awaited on the loop",
            *(ours, threaded, "µs", "µs plain sqlite3 by to_thread", 1.3),
            duty=Duty.event,
        ),
        Row("log:   beside plain sqlite3 on the loop", ours, plain, "µs", "µs plain sqlite3"),
        Row("log:   its transaction, on the loop", direct, plain, "µs", "µs plain sqlite3"),
        Row("log:   the same, CPU", ours_cpu, plain_cpu, "µs", "µs plain sqlite3"),
        Row(
            "log: 50 writers, durable events/s",
            per_second,
            1.0,
            "/s",
            "(absolute)",
            15_000,
            higher_is_better=True,
            duty=Duty.rate,
        ),
        Row(
            "log: 50 writers, CPU per event",
            *(together_cpu, grouped_cpu, "µs", "µs a bare group commit", 3.0),
            duty=Duty.events,
        ),
        Row("log:   a turn, with its text and usage", turn_cpu, together_cpu, "µs", "µs an event"),
        Row("log:   beside plain sqlite3, 50 rows a commit", together_cpu, group_cpu, "µs", "µs"),
        Row("log:   events/s beside a bare group commit", per_second, 1e6 / grouped, "/s", "/s"),
    ]
