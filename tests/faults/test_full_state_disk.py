"""The disk of the state folder runs full, out of inodes or read-only: nothing acknowledged is lost, nothing
runs unrecorded, and it goes on by itself when there is space again."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.core.errors import (
    InterlockError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnwritable,
    UserError,
    is_transient,
)
from interlock.db.backup_and_restore import create_backup
from interlock.db.database import StoreConfig, open_database
from interlock.db.upgrade import upgrade
from interlock.log.kinds import SessionRenamed
from interlock.wiring.projections import verify
from tests.faults.disks import Disk, mounting, small_disk
from tests.harness.store import open_store
from tests.harness.tool_calls import ToolHarness


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "small", size="8m") as made:
        yield made


def config_at(disk: Disk) -> StoreConfig:
    return StoreConfig(f"sqlite:///{disk.path}/interlock.db", busy_timeout_seconds=0.3)


def one_sentence(error: InterlockError, path: object) -> str:
    sentence = str(error)
    assert "\n" not in sentence
    assert str(path) in sentence
    assert "Errno" not in sentence
    return sentence


def _renamed(number: int) -> SessionRenamed:
    return SessionRenamed(who="test", title=f"{number} " + "x" * 2000)


@mounting
async def test_what_was_acknowledged_before_the_disk_was_full_is_there_afterwards(disk, monkeypatch):
    """Full in the middle of a write, and not when the space was looked at."""
    monkeypatch.setattr("interlock.db.disk_reserve.ROOM_BYTES", 0)
    store = open_store(config_at(disk))
    session = await store.sessions.create(opened_by="test")
    disk.fill(leaving=200_000)
    told = await asyncio.gather(
        *(store.log.append(session.id, _renamed(number)) for number in range(50)),
        return_exceptions=True,
    )
    for number in range(50, 300):
        try:
            told.append(await store.log.append(session.id, _renamed(number)))
        except StoreError as error:
            told.append(error)
    acknowledged = [recorded[0] for recorded in told if isinstance(recorded, list)]
    refused = [error for error in told if not isinstance(error, list)]
    assert acknowledged, "the disk was full from the start"
    assert refused, "the disk never became full"
    assert {type(error) for error in refused} == {StoreFull}
    assert "has no space left to grow; nothing was written" in one_sentence(refused[0], disk.path)
    disk.free()
    after = (await store.log.append(session.id, _renamed(1000)))[0]
    assert after.seq == max(each.seq for each in acknowledged) + 1, "no hole, and nothing unacknowledged"
    stored = dict(store.query("SELECT id, seq FROM events WHERE stream = ?", session.id))
    assert all(stored[each.id] == each.seq for each in acknowledged)
    with store.database.reading() as connection:
        assert verify(connection).ok
    store.close()


@mounting
async def test_reading_goes_on_while_the_disk_is_full(disk):
    store = open_store(config_at(disk))
    session = await store.sessions.create(opened_by="test", title="kept")
    disk.fill()
    assert (await store.sessions.get(session.id)).title == "kept"
    assert [each.id for each in await store.sessions.list_sessions()] == [session.id]
    store.close()


@mounting
@pytest.mark.parametrize("fault", ["full", "names"])
def test_a_new_store_on_a_full_disk_is_said_to_be_full(disk, fault):
    (disk.path / "deeper").mkdir()
    path = disk.path / "deeper" / "interlock.db"
    disk.fill() if fault == "full" else disk.use_up_names()
    with pytest.raises(StoreFull) as raised:
        open_database(StoreConfig(f"sqlite:///{path}"))
    one_sentence(raised.value, path)
    disk.free() if fault == "full" else disk.give_names_back()
    open_database(StoreConfig(f"sqlite:///{path}")).close()


@mounting
async def test_a_store_that_was_closed_is_read_on_a_full_disk_from_its_reserve(disk):
    """To open it, even to read, SQLite needs a little space."""
    store = open_store(config_at(disk))
    await store.sessions.create(opened_by="test")
    store.close()
    disk.fill()
    _read(config_at(disk))
    # Something else takes what was released.
    (disk.path / "interlock.db.reserve").write_bytes(b"")
    disk.fill()
    with pytest.raises(StoreFull) as raised:
        _read(config_at(disk))
    assert "has no space left" in one_sentence(raised.value, disk.path)
    disk.free()
    _read(config_at(disk))


def _read(config: StoreConfig) -> None:
    database = open_database(config)
    try:
        with database.reading() as connection:
            connection.query("SELECT count(*) FROM sessions")
    finally:
        database.close()


@mounting
def test_a_store_on_a_disk_that_became_read_only_is_said_to_be_unwritable(disk):
    open_database(config_at(disk)).close()
    disk.remount("ro")
    with pytest.raises(StoreUnwritable) as raised:
        _read(config_at(disk))
    assert "is not writable" in one_sentence(raised.value, disk.path)
    disk.remount("rw")
    _read(config_at(disk))


@mounting
@pytest.mark.parametrize("fault", ["full", "names"])
async def test_where_the_earlier_content_cannot_be_kept_nothing_is_changed(tmp_path, fault):
    """The store has space of its own: it is the disk of the kept versions that is full."""
    store = open_store(StoreConfig(f"sqlite:///{tmp_path}/interlock.db"))
    session = await store.sessions.create(opened_by="test")
    with small_disk(tmp_path / "state", size="256k") as disk:
        bench = ToolHarness(store, session.id, tmp_path)
        old = "what was there\n" * 1000
        file = bench.write("a.txt", old)
        await bench.ok("read_file", path="a.txt")
        disk.fill() if fault == "full" else disk.use_up_names()
        for call in (
            {"name": "write_file", "path": "a.txt", "content": "new\n"},
            {"name": "write_file", "path": "made/b.txt", "content": "new\n"},
            {"name": "delete_file", "path": "a.txt"},
            {"name": "move_file", "source": "a.txt", "destination": "b.txt"},
        ):
            result = await bench.call(call.pop("name"), call)
            assert result.failure is not None, call
            assert result.failure.error_code.value == "EXECUTION_ERROR"
            assert "the disk of the state folder is full, so the current content cannot be saved" in (
                result.failure.message
            )
            assert "nothing was changed" in result.failure.message
            assert file.read_text() == old
            assert sorted(path.name for path in bench.root.iterdir()) == ["a.txt"]
        assert not list(disk.path.rglob("*.interlock-new"))
        disk.free() if fault == "full" else disk.give_names_back()
        await bench.ok("write_file", path="a.txt", content="new\n")
        assert file.read_text() == "new\n"
    store.close()


# -- other ways in which a disk refuses --


@contextmanager
def limited(limit: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(limit, (soft, hard))


async def test_a_disk_that_fails_to_write_is_told_as_such_and_tried_again(sqlite_config):
    """A limit on the size of files has the system refuse a write for another reason than space."""
    store = open_store(sqlite_config)
    session = await store.sessions.create(opened_by="test")
    with limited(resource.RLIMIT_FSIZE, 300_000):
        with pytest.raises(StoreUnavailable) as raised:
            for number in range(500):
                await store.log.append(session.id, _renamed(number))
        assert "the disk reported a read or write error" in one_sentence(raised.value, sqlite_config.path)
        assert is_transient(raised.value)
        seq = (await store.sessions.get(session.id)).last_seq
    assert (await store.log.append(session.id, _renamed(1000)))[0].seq == seq + 1
    with store.database.reading() as connection:
        assert verify(connection).ok
    store.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    held = []
    with limited(resource.RLIMIT_NOFILE, 256):
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        try:
            yield
        finally:
            for descriptor in held:
                os.close(descriptor)


async def test_a_process_without_descriptors_is_told_so_and_goes_on_when_it_has_some(sqlite_config):
    store = open_store(sqlite_config)
    session = await store.sessions.create(opened_by="test")
    other = open_store(sqlite_config)
    with no_descriptor_left():
        # What is open stays usable; what must be opened first is not.
        assert (await store.log.append(session.id, _renamed(1)))[0].seq == 2
        for refused in (lambda: open_database(sqlite_config), sqlite_config.connect):
            with pytest.raises(StoreUnavailable) as raised:
                refused()
            assert "too many open files" in one_sentence(raised.value, sqlite_config.path)
        with pytest.raises(StoreUnavailable):
            await other.log.append(session.id, _renamed(2))
    assert (await other.log.append(session.id, _renamed(3)))[0].seq == 3
    store.close()
    other.close()


# -- what is written beside the store --


@mounting
async def test_a_backup_to_a_full_disk_is_one_sentence_and_leaves_nothing_behind(sqlite_config, disk):
    store = open_store(sqlite_config)
    session = await store.sessions.create(opened_by="test")
    for _ in range(20):
        await store.log.append(session.id, SessionRenamed(who="test", title=os.urandom(5000).hex()))
    disk.fill(leaving=40_000)
    target = disk.path / "backup.zip"
    with pytest.raises(UserError) as raised:
        create_backup(store.database, target)
    assert "cannot be written: No space left on device" in one_sentence(raised.value, target)
    assert [path.name for path in disk.path.iterdir()] == ["filler"]
    disk.free()
    create_backup(store.database, target)
    store.close()


@mounting
def test_an_upgrade_that_finds_no_space_for_its_copy_leaves_the_store_and_older_copies(disk):
    config = config_at(disk)
    upgrade(config, "0001")
    copies = disk.path / "backups"
    for number in range(5):
        copies.mkdir(exist_ok=True)
        (copies / f"interlock-schema000{number}-20200101T000000Z.db").write_text("an older copy")
    before = sorted(path.name for path in copies.iterdir())
    disk.fill(leaving=60_000)
    for _ in range(3):
        with pytest.raises(StoreFull):
            open_database(config)
    assert sorted(path.name for path in copies.iterdir()) == before
    disk.free()
    open_database(config).close()
