"""On a full disk people can still cancel, delete, revoke and erase; nothing else is written until there is
space again, by any process that shares the store."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Iterable, Iterator
from pathlib import Path

import aiohttp
import pytest

from interlock.core.errors import StoreFull
from interlock.db.database import StoreConfig, open_database
from interlock.db.disk_reserve import RESERVE_BYTES
from interlock.gateway.auth import CredentialService
from interlock.log.kinds import SessionRenamed, ToolCallStarted
from interlock.log.read import iter_stream
from interlock.log.retention import RetentionSweeper
from interlock.memory.authorship import AuthorLines
from interlock.memory.index import MemoryIndex
from interlock.memory.note_directory import NoteDirectory
from interlock.memory.search import MemorySearch
from interlock.wiring.projections import verify
from tests.faults.disks import Disk, mounting, small_disk
from tests.harness.cli_processes import ProcessHarness
from tests.harness.gateway import RequestRefused, open_gateway_harness
from tests.harness.store import StoreHarness, open_store
from tests.harness.tasks import ScriptedHandler, TaskHarness, until
from tests.harness.telegram import ADA, open_telegram_harness, script
from tests.harness.telegram_server import TelegramServer

pytestmark = mounting

MANY = 15  # messages may wait in one session


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "state", size="16m", inodes=2000) as made:
        yield made


@pytest.fixture
def store(disk: Disk, sqlite_template: Path) -> Iterator[StoreHarness]:
    opened = open_store(config_at(disk, sqlite_template))
    yield opened
    opened.close()


@pytest.fixture
def no_blocks_ahead(monkeypatch) -> None:
    """As where the disk had no space for them: what is committed needs new ones."""
    monkeypatch.setattr("interlock.db.disk_reserve.WAL_BYTES", 0)


def config_at(disk: Disk, template: Path) -> StoreConfig:
    path = disk.path / "interlock.db"
    if not path.exists():
        shutil.copy(template, path)
    return StoreConfig(f"sqlite:///{path}", busy_timeout_seconds=5)


def reserve_of(disk: Disk) -> os.stat_result:
    return (disk.path / "interlock.db.reserve").stat()


def is_whole(disk: Disk) -> bool:
    found = reserve_of(disk)
    return found.st_size == RESERVE_BYTES and found.st_blocks * 512 >= RESERVE_BYTES


def _renamed(number: int = 0) -> SessionRenamed:
    return SessionRenamed(who="test", title=f"{number} " + "x" * 2000)


async def fill(disk: Disk, store: StoreHarness, session_id: str) -> None:
    """Until an ordinary write finds no space."""
    disk.fill()
    with pytest.raises(StoreFull):
        for number in range(10_000):
            await store.log.append(session_id, _renamed(number))


async def cancel_all(disk: Disk, cancelling: Iterable[Awaitable[object]]) -> None:
    """As soon as the reserve is released, something else on the disk takes a part of it.

    The write that failed may have left space in the write-ahead file, which is used first.
    """
    is_released = False
    for cancel in cancelling:
        await cancel
        if not is_released and not is_whole(disk):
            is_released = True
            disk.fill(leaving=RESERVE_BYTES // 2)
    assert is_released, "there was space for all of it"


async def written(store: StoreHarness, session_id: str) -> bool:
    try:
        await store.log.append(session_id, _renamed())
    except StoreFull:
        return False
    return True


def assert_sound(store: StoreHarness) -> None:
    with store.database.reading() as connection:
        assert verify(connection).ok


# -- what is allowed --


@pytest.mark.usefixtures("no_blocks_ahead")
async def test_on_a_full_disk_people_cancel_delete_revoke_and_erase(disk, store):
    harness, credentials = (
        TaskHarness(store),
        CredentialService(store.database, store.log, TaskHarness(store).redactor),
    )
    session, other, old = await harness.session(), await harness.session(), await harness.session()
    tasks = [await harness.put(session) for _ in range(MANY)]
    await harness.put(other)
    for number in range(50):
        await store.log.append(old, _renamed(number))
    token = await credentials.add_token("script", who="test")
    await fill(disk, store, other)
    assert is_whole(disk), "an ordinary write has released it"

    await cancel_all(disk, (harness.tasks.cancel(task.id, who="ada") for task in tasks))
    assert harness.ends(session) == [(task.id, "cancelled") for task in tasks]
    revoked = await credentials.revoke("script", harness.runs, who="ada")
    assert (revoked.credential.id, revoked.ended.tasks) == (token.id, 0)
    await harness.tasks.delete_session(other, who="ada")
    assert [status for _, status in harness.ends(other)] == ["cancelled"]
    swept = await RetentionSweeper(store.log, store.database, 1, lambda: 2 * 10**15).sweep()
    assert swept.events >= 50

    with pytest.raises(StoreFull, match="cancelling and deleting still work"):
        await harness.put(session)
    disk.free()
    await until(lambda: written(store, session))
    assert is_whole(disk)
    assert_sound(store)


async def test_a_program_that_keeps_writing_does_not_get_the_space(disk, store):
    """What is committed is written to blocks that the write-ahead file has already."""
    harness, credentials = (
        TaskHarness(store),
        CredentialService(store.database, store.log, TaskHarness(store).redactor),
    )
    session, other = await harness.session(), await harness.session()
    tasks = [await harness.put(session) for _ in range(MANY)]
    await harness.put(other)
    await credentials.add_token("script", who="test")
    with disk.kept_full():
        for task in tasks:
            assert not await written(store, session)
            assert (await harness.tasks.cancel(task.id, who="ada")).status.value == "cancelled"
        await credentials.revoke("script", harness.runs, who="ada")
        await harness.tasks.delete_session(other, who="ada")
        assert is_whole(disk)
    disk.free()
    await until(lambda: written(store, session))
    assert_sound(store)


async def test_one_reserve_is_enough_to_cancel_everything_that_waits(disk, store):
    """What is written from it is folded into the store, so that its space is there for the next."""
    harness = TaskHarness(store)
    tasks = []
    for _ in range(20):
        session = await harness.session()
        tasks += [await harness.put(session) for _ in range(20)]
    await fill(disk, store, session)
    for task in tasks:
        assert (await harness.tasks.cancel(task.id, who="ada")).status.value == "cancelled"
    disk.free()
    await until(lambda: written(store, session))
    assert_sound(store)


@pytest.mark.usefixtures("no_blocks_ahead")
async def test_a_task_that_runs_is_cancelled_on_a_full_disk(disk, store):
    harness = TaskHarness(store, lease_seconds=60)
    session = await harness.session()
    begun = asyncio.Event()

    async def handling(task, lease, cancelled):
        begun.set()
        await cancelled.wait()
        # As the agent does: what it has to say of its end cannot be written.
        await store.log.append(session, _renamed(), token=lease.token)

    async with harness.working(ScriptedHandler(handling), sessions=1):
        task = await harness.put(session)
        await begun.wait()
        tasks = [await harness.put(session) for _ in range(MANY)]
        await fill(disk, store, session)
        await cancel_all(disk, (harness.tasks.cancel(each.id, who="ada") for each in tasks))
        await harness.tasks.cancel(task.id, who="ada")
        (ended,) = await harness.ended(task.id)
        assert ended.status.value == "cancelled"
        disk.free()
        await until(lambda: written(store, session))
    assert harness.faults() == []


@pytest.mark.usefixtures("no_blocks_ahead")
async def test_a_task_whose_worker_is_gone_is_cancelled_on_a_full_disk(disk, store):
    harness = TaskHarness(store, lease_seconds=0.2)
    session = await harness.session()
    task, lease = await harness.started(session)
    intent = await _call_begun(harness, task, lease)
    tasks = [await harness.put(await harness.session()) for _ in range(MANY)]
    await fill(disk, store, session)
    await cancel_all(disk, (harness.tasks.cancel(each.id, who="ada") for each in tasks))
    assert (await harness.tasks.cancel(task.id, who="ada")).status.value == "running"
    async with harness.working(ScriptedHandler()):
        (ended,) = await harness.ended(task.id)
        assert ended.status.value == "cancelled"
        told = await store.database.read(lambda db: list(iter_stream(db, session)))
        settled = [event for event in told if event.header.kind == "tool_call.interrupted"]
        assert [event.header.parent for event in settled] == [intent]
        disk.free()
        await until(lambda: written(store, session))
    assert_sound(store)


async def _call_begun(harness: TaskHarness, task, lease) -> str:
    started = ToolCallStarted(
        call_id="call_1",
        tool_name="write_file",
        mode=task.mode,
        authority_digest="d",
        redacted=False,
        requested_name="write_file",
        arguments={},
        effect="write",
        timeout_seconds=30,
    )
    (recorded,) = await harness.store.log.append(
        task.session_id, started, scope=task.scope, token=lease.token
    )
    return recorded.id


# -- what is not --


@pytest.mark.usefixtures("no_blocks_ahead")
async def test_while_the_reserve_is_released_ordinary_writes_do_not_use_it_up(disk, store):
    harness = TaskHarness(store)
    session = await harness.session()
    tasks = [await harness.put(session) for _ in range(MANY)]
    notes = disk.path.parent / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("Something to find.\n")
    authors = AuthorLines(notes.parent / "key")
    state_dir, reserve = disk.path.parent, store.database.reserve
    memory = MemorySearch(MemoryIndex(state_dir, NoteDirectory(notes), lambda text: text, authors, reserve))
    await fill(disk, store, session)
    await cancel_all(disk, (harness.tasks.cancel(task.id, who="ada") for task in tasks))
    for _ in range(200):
        assert not await written(store, session)
        with pytest.raises(StoreFull):
            memory.search("something", 1, lambda: None)
    disk.free()
    await until(lambda: written(store, session))
    assert not memory.search("something", 1, lambda: None).problem
    assert_sound(store)


@pytest.mark.usefixtures("no_blocks_ahead")
async def test_every_process_that_shares_the_store_refuses_and_goes_on_together(disk, store):
    harness = TaskHarness(store)
    session = await harness.session()
    *tasks, last = [await harness.put(session) for _ in range(MANY)]
    other = open_store(store.config)
    await other.sessions.get(session)
    await fill(disk, store, session)
    await cancel_all(disk, (harness.tasks.cancel(task.id, who="ada") for task in tasks))
    assert not await written(other, session)
    await TaskHarness(other).tasks.cancel(last.id, who="ada")
    disk.free()
    await until(lambda: written(other, session))
    assert is_whole(disk)
    assert await written(store, session), "nobody has to wait for what another process has done"
    other.close()
    assert_sound(store)


@pytest.mark.usefixtures("no_blocks_ahead")
async def test_a_released_reserve_outlives_its_process(disk, store, sqlite_template):
    harness = TaskHarness(store)
    session = await harness.session()
    tasks = [await harness.put(session) for _ in range(MANY)]
    await fill(disk, store, session)
    await cancel_all(disk, (harness.tasks.cancel(task.id, who="ada") for task in tasks))
    again = open_store(store.config)
    assert not await written(again, session)
    disk.free()
    await until(lambda: written(again, session))
    again.close()
    assert is_whole(disk)


def test_a_reserve_without_blocks_gets_them_when_the_store_is_opened(disk, sqlite_template):
    """As a copy of the folder may be: the size alone keeps nothing."""
    path = disk.path / "interlock.db.reserve"
    path.touch()
    os.truncate(path, RESERVE_BYTES)
    assert not is_whole(disk)
    open_database(config_at(disk, sqlite_template)).close()
    assert is_whole(disk)


async def test_a_removed_reserve_is_made_again(disk, store):
    session = await store.sessions.create(opened_by="test")
    (disk.path / "interlock.db.reserve").unlink()
    await until(lambda: written(store, session.id))
    assert is_whole(disk)


def test_a_store_of_a_server_has_none(store_config):
    database = open_database(store_config)
    assert (database.reserve is None) == (database.dialect == "postgresql")
    database.close()


# -- what people see --


@pytest.mark.usefixtures("no_blocks_ahead")
async def test_over_a_socket_a_full_disk_is_store_full_and_people_cancel_and_delete(
    disk, sqlite_template, tmp_path, monkeypatch
):
    config_at(disk, sqlite_template)
    async with open_gateway_harness(tmp_path, monkeypatch, works=False) as harness:
        client = await harness.connect()
        session = (await client.ask("session.create"))["session"]["id"]
        tasks = [
            (await client.ask("chat.send", session_id=session, content="hello"))["task"]["id"]
            for _ in range(MANY)
        ]
        code, origin = await harness.gateway.credentials.issue_code(who="ada"), {"Origin": harness.url}
        await _fill_by_the_socket(disk, client, session)
        for method, params in {
            "chat.send": {"session_id": session, "content": "and this"},
            "session.create": {},
            "session.rename": {"session_id": session, "title": "x" * 100},
        }.items():
            with pytest.raises(RequestRefused) as refused:
                await client.ask(method, **params)
            assert refused.value.code == "STORE_FULL", method
            assert "free space" in refused.value.message
            assert str(tmp_path) not in refused.value.message
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{harness.url}/healthz") as healthy:
                assert (healthy.status, "full" in await healthy.text()) == (200, True)
            async with http.post(f"{harness.url}/login", json={"code": code}, headers=origin) as login:
                assert (login.status, "free space" in await login.text()) == (507, True)
        await cancel_all(disk, (client.ask("chat.cancel", session_id=session) for _ in tasks))
        statuses = {(await harness.agent_runtime.tasks.get(task)).status.value for task in tasks}
        assert statuses == {"cancelled"}
        await client.ask("session.delete", session_id=session)
        with pytest.raises(RequestRefused, match="STORE_FULL"):
            await client.ask("session.create")
        disk.free()

        async def created() -> bool:
            try:
                return bool(await client.ask("session.create"))
            except RequestRefused:
                return False

        await until(created)
        async with aiohttp.ClientSession() as http, http.get(f"{harness.url}/healthz") as healthy:
            assert await healthy.text() == "ok"


async def _fill_by_the_socket(disk: Disk, client, session: str) -> None:
    disk.fill()
    with pytest.raises(RequestRefused):
        for _ in range(10_000):
            await client.ask("session.rename", session_id=session, title="x" * 200)


@pytest.mark.full
async def test_commands_cancel_and_delete_on_a_full_disk_that_nothing_else_uses(
    disk, tmp_path, new_state, sqlite_template
):
    harness = ProcessHarness(tmp_path, {"MODEL": 'scripted:["ok"]'})
    harness.root.mkdir()
    shutil.copytree(new_state, harness.state, dirs_exist_ok=True)
    store = open_store(config_at(disk, sqlite_template))
    tasks = TaskHarness(store)
    session, other = await tasks.session(), await tasks.session()
    task = await tasks.put(session)
    store.close()
    disk.fill()
    assert (await harness.run("doctor", expect=1)).stdout.count("is full") == 1
    await harness.run("tasks", "cancel", task.id)
    await harness.run("sessions", "delete", other, "--yes")
    disk.free()
    assert "is full" not in (await harness.run("doctor")).stdout
    assert (await harness.run("exec", "hello")).stdout == "ok\n"
    store = open_store(store.config)
    assert (await TaskHarness(store).tasks.get(task.id)).status.value == "cancelled"
    assert_sound(store)
    store.close()


async def test_a_chat_is_told_that_its_message_waits_and_it_is_taken_in_afterwards(
    disk, sqlite_template, tmp_path, monkeypatch
):
    config_at(disk, sqlite_template)
    async with TelegramServer() as telegram:
        async with open_telegram_harness(
            tmp_path, monkeypatch, telegram, {"MODEL": script("msg:Hello.")}
        ) as harness:
            await harness.chat("/help", "/cancel")
            while is_whole(disk):
                # The bot may be writing just now, and allocate it again.
                harness.agent_runtime.runtime.database.reserve.release()
                disk.fill(leaving=RESERVE_BYTES // 2)
            await telegram.say(ADA, "hi")
            await telegram.until_shown(ADA, "disk of Interlock's store is full")
            disk.free()
            await telegram.until_shown(ADA, "Hello.")
            await harness.delivered()
        assert telegram.faults == []
        assert sum("is full" in text for text in telegram.texts(ADA)) == 1
