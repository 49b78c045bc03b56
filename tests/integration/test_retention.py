"""What is old is erased by whole tasks, exactly on record, and the log still verifies."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from interlock.agent.conversation import Conversation
from interlock.config.modes import ToolMode
from interlock.events import retention, work
from interlock.events.base import Event
from interlock.events.catalog import SYSTEM_STREAM, SandboxProbed
from interlock.events.checkpoint import write_checkpoint
from interlock.events.feed import whole_stream
from interlock.events.ledger import Scope
from interlock.events.retention import Retention, Swept
from interlock.events.verify import verify
from interlock.gates.authority import compile_authority
from interlock.gates.book import AuthorityBook, look_up
from interlock.gates.situation import Situation
from interlock.infra.errors import PersonError, StoreLocked
from interlock.session.models import Role
from interlock.session.settings_store import patch_for
from interlock.session.transcript import read_for_task
from interlock.tools.registry import ToolRegistry
from interlock.worker.rows import Task, TaskStatus
from tests.conftest import Store, open_store
from tests.integration.worker.shop import Shop

ROOT = Path(__file__).parents[2]
DAY_US = 86_400_000_000
NOON_US = 20_000 * DAY_US + DAY_US // 2
CALLS = [{"id": "c1", "name": "clock", "arguments": "{}"}]


class Clock:
    """What time it is for everybody who writes."""

    def __init__(self) -> None:
        self.now_us = NOON_US

    def __call__(self) -> int:
        return self.now_us

    def days_ago(self, days: float) -> None:
        self.now_us = NOON_US - int(days * DAY_US)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    for module in ("events.ledger", "session.manager", "worker.tasks", "questions.desk"):
        monkeypatch.setattr(f"interlock.{module}.now_us", clock)
    return clock


class Archive:
    """A shop in which things happened at times, and what is left of them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.shop = Shop(store, lease_seconds=3600)

    async def say(self, session: str, role: Role, text: str, task: str | None = None, **more) -> None:
        await self.store.sessions.append_message(session, role, text, scope=Scope(task), **more)

    async def begin(self, session: str, days_ago: float) -> tuple[Task, object]:
        """A task that asks a person and calls a tool."""
        self.clock.days_ago(days_ago)
        task, lease = await self.shop.started(session)
        await self.say(session, Role.assistant, f"thinking of {task.id}", task.id, tool_calls=CALLS)
        question = await self.shop.asked(task, lease)
        await self.shop.questions.answer(question.id, {"confirmed": True}, who="ada")
        await self.say(session, Role.tool, f'{{"stdout": "{task.id}"}}', task.id, tool_call_id="c1")
        turn = {"turn": 1, "finish_reason": "stop", "tool_calls": 1, "latency_ms": 1.0, "model": "m"}
        used = work.TurnCompleted(**turn, input_tokens=10, output_tokens=1)
        await self.store.log.append(session, used, scope=task.scope)
        await self.say(session, Role.assistant, f"answer to {task.id}", task.id)
        return task, lease

    async def end(self, task: Task, lease, days_ago: float) -> None:
        self.clock.days_ago(days_ago)
        await self.shop.tasks.finish(task.id, TaskStatus.failed, f"because of {task.id}", lease)
        await self.shop.leases.give_back(lease)

    async def task(self, session: str, days_ago: float) -> Task:
        task, lease = await self.begin(session, days_ago)
        await self.end(task, lease, days_ago)
        return task

    async def session(self, days_ago: float, identity: str | None = None) -> str:
        self.clock.days_ago(days_ago)
        created = await self.shop.sessions.create(opened_by="ada", title="a talk", session_id=identity)
        return created.id

    def retention(self, days: int = 30, store: Store | None = None) -> Retention:
        self.clock.days_ago(0)
        chosen = store or self.store
        return Retention(chosen.log, chosen.database, days, self.clock)

    async def sweep(self, days: int = 30) -> Swept:
        return await self.retention(days).sweep()

    def faults(self, **options) -> list[str]:
        with self.store.database.reading() as connection:
            return [str(fault) for fault in verify(connection, **options).faults]

    def told(self, kind: str = "log.erased") -> list[dict]:
        rows = self.store.query("SELECT payload FROM events WHERE kind = ? ORDER BY position", kind)
        return [json.loads(row[0]) for row in rows]

    def left(self, session: str, task: str | None = None) -> set[str]:
        """The kinds of which a payload is left."""
        rows = self.store.query(
            "SELECT kind, task FROM events WHERE stream = ? AND payload IS NOT NULL", session
        )
        return {kind for kind, of in rows if task is None or of == task}

    def erased(self, session: str) -> list[int]:
        sql = "SELECT seq FROM events WHERE stream = ? AND payload IS NULL ORDER BY seq"
        return [row[0] for row in self.store.query(sql, session)]

    async def words(self, session: str) -> list[str]:
        return [message.content for message in await self.store.sessions.transcript(session)]

    def dump(self) -> str:
        """Every text that is in the store."""
        rows: list = []
        for table in ("events", "messages", "questions", "tasks"):
            rows += self.store.query(f"SELECT * FROM {table}")
        return repr(rows)


@pytest.fixture
def archive(store: Store, clock: Clock) -> Archive:
    return Archive(store, clock)


def numbers(ranges: list[list[int]]) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


async def test_what_is_old_goes_whole_and_what_is_not_stays(archive):
    session = await archive.session(60)
    old = await archive.task(session, 50)
    new = await archive.task(session, 10)
    before = await archive.store.sessions.get(session)
    swept = await archive.sweep()
    assert archive.faults() == []
    assert (swept.streams, swept.messages) == (1, 4)
    assert archive.left(session, old.id) == {"turn.completed"}
    assert archive.left(session, new.id) >= {"message.appended", "task.finished", "ask_user.answered"}
    assert await archive.words(session) == [
        *("hello", f"thinking of {new.id}", f'{{"stdout": "{new.id}"}}'),
        f"answer to {new.id}",
    ]
    dump = archive.dump()
    for words in ("thinking of", "answer to", "because of", '"stdout": "'):
        assert f"{words} {new.id}" in dump or f"{words}{new.id}" in dump
        assert f"{words} {old.id}" not in dump
        assert f"{words}{old.id}" not in dump
    assert (await archive.shop.tasks.get(old.id)).reason is None
    assert (await archive.shop.tasks.get(new.id)).reason == f"because of {new.id}"
    assert [
        question.task for question in await archive.shop.questions.list_questions(include_closed=True)
    ] == [new.id]
    assert await archive.store.sessions.get(session) == before


async def test_the_record_names_exactly_what_is_gone_and_a_second_sweep_does_nothing(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    swept = await archive.sweep()
    (told,) = archive.told()
    assert (told["of"], told["events"], told["messages"]) == (session, swept.events, swept.messages)
    assert told["before_us"] == swept.before_us == NOON_US - DAY_US // 2 - 30 * DAY_US
    assert numbers(told["ranges"]) == archive.erased(session)
    assert len(archive.erased(session)) == swept.events
    head = archive.store.query("SELECT seq FROM stream_heads WHERE stream = 'system'")
    again = await archive.sweep()
    assert again == Swept(swept.before_us)
    assert archive.store.query("SELECT seq FROM stream_heads WHERE stream = 'system'") == head
    assert archive.faults() == []


async def test_a_task_is_as_old_as_its_end(archive):
    session = await archive.session(60)
    task, lease = await archive.begin(session, 50)
    await archive.end(task, lease, 29)
    assert (await archive.sweep()).events == 0
    assert len(await archive.words(session)) == 4
    assert (await archive.sweep(days=28)).messages == 4
    assert archive.faults() == []


async def test_a_session_with_a_task_that_has_not_ended_is_left_alone(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    archive.clock.days_ago(45)
    task, _ = await archive.shop.parked(session)
    assert (await archive.sweep()).events == 0
    assert archive.erased(session) == []
    archive.clock.days_ago(40)
    await archive.shop.tasks.cancel(task.id, who="ada")
    assert (await archive.sweep()).messages == 5
    assert archive.faults() == []


async def test_the_border_is_a_midnight(archive):
    session = await archive.session(60)
    await archive.task(session, 30.4)
    assert (await archive.sweep()).events == 0
    await archive.task(session, 30.6)
    assert (await archive.sweep()).messages == 4


async def test_a_model_is_told_a_valid_conversation_afterwards(archive):
    """The second task's message came while the first was worked on: they lie between one another."""
    session = await archive.session(60)
    first, lease = await archive.begin(session, 50)
    second = await archive.shop.put(session, "second")
    await archive.say(session, Role.assistant, "and", first.id, tool_calls=[CALLS[0] | {"id": "c2"}])
    await archive.say(session, Role.tool, "{}", first.id, tool_call_id="c2")
    await archive.end(first, lease, 40)
    lease = await archive.shop.leases.take(session, "w1")
    await archive.shop.tasks.start(second.id, lease)
    await archive.say(session, Role.assistant, "done", second.id)
    await archive.end(second, lease, 10)
    third = await archive.shop.put(session, "third")
    assert (await archive.sweep()).events == 0
    await archive.shop.tasks.cancel(third.id, who="ada")
    assert (await archive.sweep()).messages == 6
    with archive.store.database.reading() as connection:
        told = read_for_task(connection, session, third.id)
    assert [(message.role, message.content) for message in told] == [
        *(("user", "second"), ("assistant", "done")),
        ("user", "third"),
    ]
    assert Conversation(told).unanswered == ()
    assert archive.faults() == []


async def test_messages_without_a_task_go_by_exchanges(archive):
    session = await archive.session(60)
    for days_ago, role, text in (
        (50, Role.user, "one"),
        (50, Role.assistant, "answer one"),
        (40, Role.user, "two"),
        (40, Role.assistant, "wait"),
        (20, Role.tool, "noon"),
        (20, Role.assistant, "answer two"),
    ):
        archive.clock.days_ago(days_ago)
        more = {"tool_calls": CALLS} if text == "wait" else {}
        await archive.say(session, role, text, **more, tool_call_id="c1" if role is Role.tool else None)
    assert (await archive.sweep()).messages == 2
    assert await archive.words(session) == ["two", "wait", "noon", "answer two"]
    assert (await archive.sweep(days=5)).messages == 4
    assert await archive.words(session) == []
    assert archive.faults() == []


async def test_a_question_stays_whole_while_it_is_open_or_lately_answered(archive):
    session = await archive.session(60)
    archive.clock.days_ago(50)
    lease = await archive.shop.leases.take(session, "w1")
    loose = Task(
        id="t_gone",
        session_id=session,
        message_seq=1,
        status=TaskStatus.running,
        mode=ToolMode.chat,
        who="ada",
        created_us=0,
        queued_event="x",
    )
    question = await archive.shop.asked(loose, lease)
    await archive.sweep()
    assert "ask_user.asked" in archive.left(session)
    archive.clock.days_ago(20)
    await archive.shop.questions.answer(question.id, {"confirmed": True}, who="ada")
    await archive.sweep()
    assert {"ask_user.asked", "ask_user.answered"} <= archive.left(session)
    assert archive.faults() == []
    await archive.sweep(days=10)
    assert not {"ask_user.asked", "ask_user.answered"} & archive.left(session)
    assert archive.faults() == []


async def test_what_is_read_later_is_kept(archive):
    store = archive.store
    archive.clock.days_ago(60)
    await store.settings.update(patch_for("tools.fs.enabled", False), who="ada")
    authority = compile_authority(ToolRegistry(), Situation(ToolMode.chat_safe))
    await AuthorityBook(store.log).enter(authority)
    await store.log.append(SYSTEM_STREAM, SandboxProbed(backend="b", holds=True, rows=[["a", True, "x"]]))
    session = await archive.session(60)
    await archive.task(session, 50)
    anchor = await write_checkpoint(store.log)
    swept = await archive.sweep()
    assert swept.streams == 2
    assert archive.left(SYSTEM_STREAM) == {
        *("settings.changed", "authority.compiled", "log.checkpoint"),
        "log.erased",
    }
    assert archive.left(session) == {"session.created", "turn.completed"}
    with store.database.reading() as connection:
        assert look_up(connection, authority.digest)["genuine"] is True
    assert (await store.settings.current()).settings.tools.fs.enabled is False
    assert archive.faults(anchor=anchor) == []
    assert archive.faults(only=session) == []


class FromTheFuture(Event):
    kind = "future.thing"

    def payload(self) -> dict:
        return {"a": 1}


async def test_kinds_of_another_version_are_left_to_it(archive):
    session = await archive.session(60)
    await archive.store.log.append(session, FromTheFuture())
    assert (await archive.sweep()).events == 0
    assert "future.thing" in archive.left(session)


async def test_a_deleted_session_is_not_touched_again(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    await archive.store.sessions.delete(session, who="ada")
    assert (await archive.sweep()).events == 0
    # What it used counts for the day it was used.
    assert archive.left(session) == {"session.deleted", "turn.completed"}
    kept = await archive.session(60)
    await archive.task(kept, 50)
    assert (await archive.sweep()).streams == 1
    await archive.store.sessions.delete(kept, who="ada")
    assert archive.faults() == []


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE events SET payload = NULL WHERE kind = 'turn.completed'", "no erasure is on record"),
        ("UPDATE events SET payload = NULL WHERE kind = 'session.created'", "no erasure is on record"),
        ("UPDATE events SET payload = NULL WHERE kind = 'log.erased'", "no erasure is on record"),
        ("UPDATE messages SET content = 'x' WHERE seq = 2", "filled again"),
        ("UPDATE questions SET document = '{}'", "no event tells of question"),
        ("UPDATE events SET payload = '{}' WHERE seq = 2 AND stream <> 'system'", "payload was changed"),
    ],
)
async def test_whoever_erases_more_or_fills_it_again_is_found(archive, statement, finding):
    session = await archive.session(60)
    await archive.task(session, 50)
    await archive.sweep()
    assert archive.faults() == []
    archive.store.execute(statement)
    assert any(finding in fault for fault in archive.faults())


async def test_a_record_that_was_made_larger_does_not_cover_for_anybody(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    await archive.sweep()
    (told,) = archive.told()
    for ranges in ([[1, 999]], "x", [["a", "b"]]):
        changed = json.dumps(told | {"ranges": ranges})
        archive.store.execute("UPDATE events SET payload = ? WHERE kind = 'log.erased'", changed)
        assert any(fault.startswith("broken: system") for fault in archive.faults())


# -- in the middle of it -----------------------------------------------------------------------------


def halves(store: Store) -> list[str]:
    """Tasks of which some messages are left and some are not."""
    sql = (
        "SELECT e.task, m.content IS NULL FROM messages m "
        "JOIN events e ON e.stream = m.session_id AND e.seq = m.seq"
    )
    states = defaultdict(set)
    for task, is_gone in store.query(sql):
        states[task].add(bool(is_gone))
    return [task for task, found in states.items() if len(found) == 2]


@pytest.mark.parametrize("batch", [1, 3, 10])
async def test_after_every_transaction_each_task_is_whole_and_all_is_on_record(archive, monkeypatch, batch):
    monkeypatch.setattr(retention, "BATCH", batch)
    session = await archive.session(60)
    for days_ago in (50, 48, 46):
        await archive.task(session, days_ago)
    transact, seen = archive.store.log.transact, []

    async def watched(stream, job, **more):
        result = await transact(stream, job, **more)
        assert halves(archive.store) == []
        assert archive.faults() == []
        seen.append(result.events)
        return result

    monkeypatch.setattr(archive.store.log, "transact", watched)
    swept = await archive.sweep()
    assert (sum(seen), swept.messages) == (swept.events, 12)
    assert len(seen) == len(archive.told()) >= 3
    assert archive.left(session) == {"session.created", "turn.completed"}


async def test_a_sweep_that_is_killed_leaves_nothing_half_and_the_next_one_goes_on(archive):
    # Much more than it is let do: on a busy machine it goes on for a while before it is killed.
    sessions = [await archive.session(400, f"s{number}") for number in range(10)]
    for session in sessions:
        for _ in range(3):
            await archive.task(session, 300)
    total = len(archive.store.query("SELECT 1 FROM events WHERE stream <> 'system'"))
    kept = len(sessions) * (1 + 3)
    for kills in range(3):
        assert await _killed_after(archive.store, lines=2 + 2 * kills) is True
        assert archive.faults() == []
        assert halves(archive.store) == []
    erased = len(archive.store.query("SELECT 1 FROM events WHERE payload IS NULL"))
    assert 0 < erased < total - kept
    assert (await archive.sweep()).events == total - kept - erased
    assert (await archive.sweep()).events == 0
    assert archive.faults() == []
    told = defaultdict(list)
    for each in archive.told():
        told[each["of"]] += numbers(each["ranges"])
    for session in sessions:
        assert sorted(told[session]) == archive.erased(session)
        assert archive.left(session) == {"session.created", "turn.completed"}


async def _killed_after(store: Store, *, lines: int) -> bool:
    """Whether it was killed before it was done."""
    # By this machine's clock everything above happened years ago.
    command = [sys.executable, "-m", "tests.integration.retention_process", store.config.url, "30", "4"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        for _ in range(lines):
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 60)
            if b"done" in line:
                return False
        return True
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()


async def test_two_who_sweep_at_once_erase_and_tell_everything_once(archive, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 5)
    for number in range(5):
        session = await archive.session(60, f"s{number}")
        await archive.task(session, 50)
    other = open_store(archive.store.config)
    total = len(archive.store.query("SELECT 1 FROM events WHERE stream <> 'system'")) - 5 - 5
    both = await asyncio.gather(archive.retention().sweep(), archive.retention(store=other).sweep())
    other.close()
    assert sum(swept.events for swept in both) == total
    assert sum(each["events"] for each in archive.told()) == total
    assert archive.faults() == []
    assert archive.store.deadlocks() == 0


async def test_people_go_on_talking_and_deleting_while_it_sweeps(archive, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    sessions = [await archive.session(60, f"s{number}") for number in range(4)]
    for session in sessions:
        await archive.task(session, 50)
    archive.clock.days_ago(0)

    async def live() -> None:
        for number in range(20):
            await archive.shop.put(sessions[0], f"new {number}")
            await archive.say(sessions[1], Role.user, f"new {number}")
        await archive.store.sessions.delete(sessions[2], who="ada")

    await asyncio.gather(archive.sweep(), live())
    assert archive.faults() == []
    assert halves(archive.store) == []
    assert [word for word in await archive.words(sessions[1]) if word.startswith("new")] == [
        f"new {number}" for number in range(20)
    ]


# -- by itself ---------------------------------------------------------------------------------------


async def test_it_sweeps_by_itself_and_a_failure_is_tried_again(archive, monkeypatch):
    monkeypatch.setattr(retention, "_HOUR_SECONDS", 0.01)
    session = await archive.session(60)
    await archive.task(session, 50)
    swept = archive.retention()
    sweep, tries = swept.sweep, []

    async def fails_first():
        tries.append(1)
        if len(tries) == 1:
            raise StoreLocked("busy")
        return await sweep()

    monkeypatch.setattr(swept, "sweep", fails_first)
    with capture_logs() as logged:
        running = asyncio.create_task(swept.run_hourly())
        async with asyncio.timeout(30):
            while not archive.told():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len(tries) == 2, "what was swept up to the same midnight is not swept again"
    assert [entry["event"] for entry in logged] == ["events_not_swept", "events_swept"]


async def test_a_task_whose_words_are_gone_cannot_be_retried(archive):
    session = await archive.session(60)
    task = await archive.task(session, 50)
    await archive.sweep()
    with pytest.raises(PersonError):
        await archive.shop.tasks.retry(task.id, who="ada")


async def test_an_erased_session_can_still_be_read_as_a_tree(archive):
    session = await archive.session(60)
    await archive.task(session, 50)
    await archive.sweep()
    with archive.store.database.reading() as connection:
        events = [stored.event() for stored in whole_stream(connection, session)]
    assert [event.kind for event in events if event] == ["session.created", "turn.completed"]
