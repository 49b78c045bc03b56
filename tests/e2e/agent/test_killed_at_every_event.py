"""SIGKILL at every event boundary of a task, then another worker: nothing acknowledged is lost, no write
happens twice, and the transcript stays one that a provider takes (S3-7)."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
import pytest

from interlock.config.modes import ToolMode
from interlock.db.database import StoreConfig
from tests.e2e.agent.dying_worker import Round
from tests.harness.cli_processes import PATIENCE_SECONDS, ROOT, ProcessHarness, same_code
from tests.harness.model_answers import called, said
from tests.harness.model_server import ModelServer, by_turns
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness

SIDE_BY_SIDE = 8
KILLED, WELL = -9, 0

# Two reads in one turn, an append, a question, an edit and a command that appends: six calls.
TURNS = by_turns(
    [
        called(("read_file", {"path": "a.txt"}), ("list_files", {}), ids="look"),
        called(("write_file", {"path": "log.txt", "content": "written\n", "mode": "append"}), ids="write"),
        called(("ask_user", {"type": "confirmation", "message": "Shall I go on?"}), ids="ask"),
        called(("edit_file", {"path": "a.txt", "find": "old", "replace": "new"}), ids="edit"),
        called(("bash", {"cmd": "echo run >> log.txt"}), ids="run"),
        said("All of it is done."),
    ]
)
WORKING = {
    "SESSION_OPEN_MODES": "coding",
    "SESSION_LEASE_SECONDS": "4",
    "WORKER_POLL_SECONDS": "0.1",
    "CONTROL_RETRY_SECONDS": "0.05",
}


@dataclass(frozen=True)
class Begun:
    """A place with a task that nobody has taken up yet, to be copied for each round."""

    harness: ProcessHarness
    session: str
    task: str

    def copied(self, home: Path, **variables: str) -> "Begun":
        shutil.copytree(self.harness.home, home)
        copy = ProcessHarness(
            home, self.harness.variables | {"TOOL_ALLOWED_ROOTS": str(home / "project")} | variables
        )
        return Begun(copy, self.session, self.task)

    def round(self, moment: str = "", at: int = 0, *, apart: bool = True) -> Round:
        return Round(
            environment=self.harness.environment,
            session=self.session,
            task=self.task,
            acknowledged=str(self.harness.home / "acknowledged"),
            moment=moment,
            at=at,
            apart=apart,
        )

    def acknowledged(self) -> list[tuple[int, str]]:
        """What the killed worker's store had called durable: number and hash, commit by commit."""
        lines = (self.harness.home / "acknowledged").read_text().split("\n")[:-1]
        return [(int(seq), digest) for seq, digest in (line.split() for line in lines)]


async def begin(home: Path, new_state: Path, server: ModelServer, store) -> Begun:
    harness = ProcessHarness(home, dict(WORKING))
    harness.asks(server)
    harness.root.mkdir(parents=True)
    (harness.root / "a.txt").write_text("old words\n")
    shutil.copytree(new_state, harness.state, dirs_exist_ok=True)
    tasks = TaskHarness(store)
    session = await tasks.session(ToolMode.coding)
    task = await tasks.put(session, "do all of it")
    return Begun(harness, session, task.id)


@asynccontextmanager
async def playground() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.e2e.agent.dying_worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]} | same_code(),
    )
    try:
        yield process
    finally:
        process.stdin.close()
        await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)


async def play(rounds: Iterable[Round]) -> list[list[int]]:
    """How the processes of each round ended, in order."""
    to_play = list(enumerate(rounds))[::-1]
    codes: list[list[int]] = [[] for _ in to_play]
    async with playground() as process:

        def begin_next() -> None:
            if to_play:
                number, given = to_play.pop()
                process.stdin.write(json.dumps([number, asdict(given)]).encode() + b"\n")

        for _ in range(SIDE_BY_SIDE):
            begin_next()
        for _ in codes:
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_SECONDS)
            number, ends = json.loads(line)
            codes[number] = ends
            begin_next()
    return codes


# -- what must hold after every round --


def assert_done_once(begun: Begun) -> None:
    harness = begun.harness
    ((status, reason),) = harness.query("SELECT status, reason FROM tasks WHERE id = ?", begun.task)
    assert (status, reason) == ("done", None)
    harness.assert_sound(begun.session)
    rows = harness.query("SELECT seq, hash FROM events WHERE stream = ?", begun.session)
    stored = {seq: bytes(digest).hex() for seq, digest in rows}
    for seq, digest in begun.acknowledged():
        assert stored[seq] == digest
    assert harness.messages(begun.session)[-1] == {"role": "assistant", "content": "All of it is done."}
    finished = harness.events("task.finished", session=begun.session)
    assert [event.fields["status"] for event in finished] == ["done"]
    assert_writes(begun)
    assert_question(begun)


def told_of(begun: Begun) -> dict[str, dict]:
    """What the model was told of each of the six, by the turn that asked for it."""
    told = {
        message["tool_call_id"]: json.loads(message["content"])
        for message in begun.harness.messages(begun.session)
        if message["role"] == "tool"
    }
    assert sorted(told) == ["ask_0", "edit_0", "look_0", "look_1", "run_0", "write_0"]
    return told


def assert_writes(begun: Begun) -> None:
    """Each happened exactly once; or it is told as unknown, in the transcript and in the log."""
    harness, told = begun.harness, told_of(begun)
    log = harness.root / "log.txt"
    lines = log.read_text().splitlines() if log.exists() else []
    times = {
        "write_0": lines.count("written"),
        "run_0": lines.count("run"),
        "edit_0": int((harness.root / "a.txt").read_text() == "new words\n"),
    }
    interrupted = {
        e.fields["call_id"] for e in harness.events("tool_call.interrupted", session=begun.session)
    }
    for call, count in times.items():
        if told[call]["ok"]:
            assert count == 1, call
            assert call not in interrupted
        else:
            assert told[call]["error_code"] == "INTERRUPTED", told[call]
            assert count <= 1
            assert call in interrupted
    for call in ("look_0", "look_1"):
        assert told[call]["ok"], told[call]
    begun_calls = [e.fields["call_id"] for e in harness.events("tool_call.started", session=begun.session)]
    assert all(begun_calls.count(call) == 1 for call in (*times, "ask_0"))


def assert_question(begun: Begun) -> None:
    """Asked and answered once; or cut off before it was put, and told so."""
    told = told_of(begun)["ask_0"]
    statement = "SELECT status FROM questions WHERE session_id = ?"
    statuses = [row[0] for row in begun.harness.query(statement, begun.session)]
    if told["ok"]:
        assert statuses == ["answered"]
        assert json.loads(told["stdout"]) == {"confirmed": True}
    else:
        assert (told["error_code"], statuses) == ("INTERRUPTED", [])


def moments_of(begun: Begun) -> list[tuple[str, int]]:
    """Where one event is durable and the next is not: after those that end a commit.

    Right before an outcome too: then the call has had its effect, and the log has only its intent.
    """
    events = begun.harness.events(session=begun.session)
    first = next(event.seq for event in events if event.kind == "task.started")
    ends = sorted({seq for seq, _ in begun.acknowledged() if seq >= first})
    assert ends[-1] == events[-1].seq
    after = [("after", seq) for seq in ends]
    before = [("before", event.seq) for event in events if event.kind == "tool_call.completed"]
    assert len(before) == 6
    return sorted(after + before, key=lambda moment: moment[1])


def phases_of(begun: Begun) -> list[tuple[str, int]]:
    """One moment of each: before the turn, during the answer, within a call, after it, while it waits."""
    events = begun.harness.events(session=begun.session)
    commits = sorted({seq for seq, _ in begun.acknowledged()})

    def first(kind: str, **fields: str) -> int:
        """The commit with the first such event in it."""
        wanted = fields.items()
        seq = next(e.seq for e in events if e.kind == kind and wanted <= e.fields.items())
        return next(commit for commit in commits if commit >= seq)

    outcome = first("tool_call.completed", call_id="write_0")
    return [
        ("after", first("task.started")),
        ("after", first("agent.started")),
        ("before", outcome),
        ("after", outcome),
        ("after", first("ask_user.asked")),
    ]


async def play_all(
    copy: Callable[[str], Begun],
    choose: Callable[[Begun], list[tuple[str, int]]] = moments_of,
    *,
    apart: bool = True,
) -> set[str]:
    """The kinds of moments at which a worker was killed and after which all was well."""
    undisturbed = copy("undisturbed")
    assert await play([undisturbed.round(apart=apart)]) == [[WELL]]
    assert_done_once(undisturbed)
    assert all(told["ok"] for told in told_of(undisturbed).values())
    moments = choose(undisturbed)
    copies = [copy(f"{moment}-{at}") for moment, at in moments]
    codes = await play(one.round(*moment, apart=apart) for one, moment in zip(copies, moments, strict=True))
    for one, moment, ends in zip(copies, moments, codes, strict=True):
        assert ends == [KILLED, WELL], moment
        try:
            assert_done_once(one)
        except AssertionError as error:
            error.add_note(f"killed {moment[0]} event {moment[1]}: {one.harness.home}")
            raise
    return {moment for moment, _ in moments}


@pytest.fixture
async def scripted():
    async with ModelServer(TURNS) as opened:
        yield opened
    assert opened.faults == []


@pytest.mark.parametrize("choose", [phases_of, pytest.param(moments_of, marks=pytest.mark.full)])
async def test_killed_at_every_event_boundary_the_task_is_done_and_no_write_is_repeated(
    tmp_path, new_state, scripted, sqlite_config, choose
):
    """Daily once in each phase of the task; the whole matrix in `make test-full`."""
    home = tmp_path / "begun"
    store = open_store(sqlite_config)
    begun = await begin(home, new_state, scripted, store)
    store.close()
    shutil.copy(tmp_path / "state" / "interlock.db", begun.harness.state / "interlock.db")
    assert await play_all(lambda name: begun.copied(tmp_path / name), choose) == {"before", "after"}


@pytest.mark.full
async def test_killed_at_some_event_boundaries_on_postgresql(
    tmp_path, new_state, scripted, postgres_server, store_of_its_own
):
    config, copied_store = store_of_its_own
    store = open_store(config)
    begun = await begin(tmp_path / "begun", new_state, scripted, store)
    store.close()

    def copy(name: str) -> Begun:
        return begun.copied(tmp_path / name, DATABASE_URL=copied_store().url)

    # Here commits are shared as they are in daily life.
    assert "after" in await play_all(copy, lambda begun: moments_of(begun)[::4], apart=False)


@pytest.fixture
def store_of_its_own(postgres_server) -> Iterator[tuple[StoreConfig, Callable[[], StoreConfig]]]:
    """A store on PostgreSQL, and what makes another one with all that is in it."""
    with ExitStack() as dropping:

        def made(template: str) -> tuple[StoreConfig, str]:
            config = dropping.enter_context(postgres_server.database(template=template))
            with psycopg.connect(config.url) as connection:
                return config, connection.info.dbname

        first, name = made("interlock_template")
        yield first, lambda: made(name)[0]
