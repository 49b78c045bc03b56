"""The file tools, whole: gates, durable audit and envelope, beside the least that does the same work.

Processor time counts this process and its children. Wall time is told as well where a disk is waited for.
"""

import asyncio
import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.duties import Duty
from bench.log import EVENT, BareGroupCommit, Plain, folder
from bench.rows import Row, interleaved
from interlock.config.modes import ToolMode
from interlock.db.database import StoreConfig, open_database
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.log.writer import EventLog
from interlock.policy.authority import AuthorityCache
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.redaction.redactor import Redactor
from interlock.sandbox.file_changer import FileChanger
from interlock.sandbox.programs import RG, locate
from interlock.sandbox.undo_store import UndoStore
from interlock.sessions.manager import SessionManager
from interlock.tools.builtins.registration import FileServices
from interlock.tools.files.read_history import ReadHistory
from interlock.tools.files.write_checks import WriteServices
from interlock.tools.tool import ToolContext
from interlock.wiring import build_registry, capabilities
from interlock.wiring.projections import PROJECTIONS

ROUNDS, READS, SEARCHES, PAGES = 7, 200, 3, 100
FILES, FOLDERS = 20_000, 400
MEGABYTE, GIGABYTE = 10**6, 10**9
NEEDLE = "the_needle_in_the_hay"


class Desk:
    """One session in coding mode on a tree of files."""

    def __init__(self, path: Path) -> None:
        self.root = path / "root"
        self.root.mkdir()
        self.database = open_database(StoreConfig(f"sqlite:///{path / 'ours.db'}"))
        self.log = EventLog(self.database, Redactor(), PROJECTIONS)
        redactor = Redactor(["sk-a-secret-that-is-nowhere"])
        desk = WriteServices(
            FileChanger(UndoStore(path / "kept", max_bytes=10**8)), ReadHistory(self.database.reading)
        )
        registry = build_registry(None, FileServices(redactor, desk, locate(RG, ())))
        self.runner = ToolRunner(registry, self.log, redactor)
        self.authority = AuthorityCache(registry).get(
            AuthorityInputs(
                mode=ToolMode.coding,
                open_modes=frozenset(ToolMode),
                capabilities=capabilities((self.root,)),
            )
        )
        self.plain = Plain(path / "plain.db")
        self.grouped = BareGroupCommit(Plain(path / "grouped.db"))
        self.loop = asyncio.new_event_loop()
        sessions = SessionManager(
            *(self.database, self.log, redactor),
            default_mode=ToolMode.chat_safe,
            open_modes=frozenset(ToolMode),
        )
        self.session = self.loop.run_until_complete(sessions.create(opened_by="bench")).id

    def call(self, name: str, times: int, **arguments: object) -> None:
        async def run() -> None:
            for number in range(times):
                call = ToolCall(f"call_{number}", name, arguments)
                result = await self.runner.call(call, self.authority, ToolContext(self.session))
                assert result.ok, result

        self.loop.run_until_complete(run())

    def close(self) -> None:
        self.grouped.close()
        self.loop.close()
        self.log.close()
        self.database.close()
        self.plain.connection.close()


def fill(root: Path) -> None:
    """A tree of the size of a large project, and a word that is in few of its files."""
    text = "def function(argument):\n    return argument + 1\n" * 20
    for number in range(FILES):
        place = root / f"pkg{number % FOLDERS:03d}"
        place.mkdir(exist_ok=True)
        (place / f"module_{number}.py").write_text(text + (f"# {NEEDLE}\n" if number % 2000 == 0 else ""))
    (root / "small.txt").write_text("a small file\n" * 40)
    (root / "megabyte.txt").write_text(
        "one line of sixty characters, and then the next one follows.\n" * (MEGABYTE // 61)
    )
    with (root / "gigabyte.txt").open("w") as big:
        big.write("one line of sixty characters, and then the next one follows.\n" * 2000)
        big.truncate(GIGABYTE)
        big.seek(GIGABYTE // 2)
        big.write("one line of sixty characters, and then the next one follows.\n" * 2000)


def cpu(work: Callable[[], object], times: int) -> float:
    def spent() -> float:
        return sum(
            usage.ru_utime + usage.ru_stime
            for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )

    began = spent()
    work()
    return (spent() - began) / times * 1e6


def wall(work: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) / times * 1e6


def plain_search(desk: Desk) -> None:
    for _ in range(SEARCHES):
        subprocess.run(
            [str(locate(RG, ())), "--no-config", "--line-number", "--", NEEDLE, "./"],
            cwd=desk.root,
            capture_output=True,
            check=True,
        )


def plain_reads(desk: Desk) -> None:
    path = os.fspath(desk.root / "small.txt")
    for _ in range(READS):
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as anybody would write it
            file.read()
        desk.plain.write(["alone"])


def off_the_loop(desk: Desk) -> None:
    """The same with the commit on a thread, as any log must do that does not stop the event loop."""
    path = os.fspath(desk.root / "small.txt")

    async def run() -> None:
        for _ in range(READS):
            with open(path, encoding="utf-8") as file:  # noqa: PTH123, ASYNC230
                file.read()
            await desk.grouped.append("alone")

    desk.loop.run_until_complete(run())


def log_alone(desk: Desk) -> None:
    """What the log itself takes of a call: two events in one commit."""

    async def run() -> None:
        for _ in range(READS):
            await desk.log.append(desk.session, EVENT, EVENT)

    desk.loop.run_until_complete(run())


def rows() -> list[Row]:
    with folder() as path:
        desk = Desk(path)
        fill(desk.root)

        def search() -> None:
            desk.call("search_files", SEARCHES, pattern=NEEDLE)

        def read() -> None:
            desk.call("read_file", READS, path="small.txt")

        def page(name: str, offset: int) -> Callable[[], None]:
            return lambda: desk.call("read_file", PAGES, path=name, offset=offset)

        million, billion = page("megabyte.txt", MEGABYTE // 2), page("gigabyte.txt", GIGABYTE // 2)
        plain_search(desk)
        rg_cpu, ours_cpu = interleaved(
            ROUNDS, lambda: cpu(lambda: plain_search(desk), SEARCHES), lambda: cpu(search, SEARCHES)
        )
        rg_wall, ours_wall = interleaved(
            ROUNDS, lambda: wall(lambda: plain_search(desk), SEARCHES), lambda: wall(search, SEARCHES)
        )
        sides = (lambda: plain_reads(desk), lambda: off_the_loop(desk), lambda: log_alone(desk), read)
        plain_cpu, off_cpu, log_cpu, read_cpu = interleaved(
            ROUNDS, *(lambda side=side: cpu(side, READS) for side in sides)
        )
        plain_wall, off_wall, log_wall, read_wall = interleaved(
            ROUNDS, *(lambda side=side: wall(side, READS) for side in sides)
        )
        small_page, big_page = interleaved(ROUNDS, lambda: cpu(million, PAGES), lambda: cpu(billion, PAGES))
        desk.close()
    beside = "µs open().read() and one durable commit"
    return [
        Row(
            "search of 20 000 files, CPU",
            *(ours_cpu / 1000, rg_cpu / 1000, "ms", "ms rg itself", 1.15),
            duty=Duty.search,
        ),
        Row("search of 20 000 files, wall", ours_wall / 1000, rg_wall / 1000, "ms", "ms rg itself"),
        Row("read_file of a small file, CPU", read_cpu, plain_cpu, "µs", beside),
        Row("  of that, two events in one commit", log_cpu, plain_cpu, "µs", beside),
        Row("  beside it, the least off the loop", off_cpu, plain_cpu, "µs", beside),
        Row("read_file of a small file, wall", read_wall, plain_wall, "µs", beside),
        Row("  of that, two events in one commit", log_wall, plain_wall, "µs", beside),
        Row("  beside it, the least off the loop", off_wall, plain_wall, "µs", beside),
        Row("a page of 1 GB, CPU", big_page, small_page, "µs", "µs a page of 1 MB", 1.15, duty=Duty.page),
    ]
