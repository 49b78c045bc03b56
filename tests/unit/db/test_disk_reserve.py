"""How often the disk is looked at; what happens when it is full is in tests/faults/test_reserve.py."""

import os
from types import SimpleNamespace

import pytest

from interlock.core.errors import StoreError
from interlock.db import disk_reserve
from interlock.db.disk_reserve import PLENTY_BYTES, PLENTY_SECONDS, WAL_BYTES, DiskReserve
from interlock.log.kinds import SessionRenamed
from tests.harness.store import StoreHarness


class FakeDisk:
    def __init__(self, monkeypatch) -> None:
        self.free, self.now, self.looks = PLENTY_BYTES, 1000.0, 0
        monkeypatch.setattr(os, "statvfs", self._statvfs)
        monkeypatch.setattr(disk_reserve, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _statvfs(self, _path: object) -> SimpleNamespace:
        self.looks += 1
        return SimpleNamespace(f_bavail=self.free, f_frsize=1)


@pytest.fixture
def disk(monkeypatch) -> FakeDisk:
    return FakeDisk(monkeypatch)


@pytest.fixture
def reserve(disk, tmp_path) -> DiskReserve:
    reserve = DiskReserve(tmp_path / "interlock.db")
    assert reserve.allocate()
    disk.looks = 0
    return reserve


def test_a_disk_with_plenty_of_space_is_looked_at_now_and_then(disk, reserve):
    assert [reserve.has_room() for _ in range(3)] == [True] * 3
    assert disk.looks == 1
    disk.now += PLENTY_SECONDS
    disk.free = 0
    assert not reserve.has_room()


def test_a_disk_that_may_soon_be_full_is_looked_at_with_every_write(disk, reserve):
    disk.free = PLENTY_BYTES - 1
    assert reserve.has_room()
    disk.free = 0
    assert not reserve.has_room()


def test_a_reserve_that_another_process_released_is_noticed_at_once(reserve):
    assert reserve.has_room()
    reserve.release()
    assert not reserve.has_room()


async def test_every_new_connection_of_the_writer_gets_its_write_ahead_file(sqlite_store: StoreHarness):
    def fail(_transaction: object) -> None:
        raise StoreError("lost")

    session = (await sqlite_store.sessions.create(opened_by="test")).id
    path = sqlite_store.config.path
    wal = path.with_name(f"{path.name}-wal")
    assert wal.stat().st_size >= WAL_BYTES
    with pytest.raises(StoreError):
        await sqlite_store.log.transact(session, fail)
    sqlite_store.query("PRAGMA wal_checkpoint(TRUNCATE)")
    assert wal.stat().st_size == 0
    await sqlite_store.log.append(session, SessionRenamed(who="test", title="again"))
    assert wal.stat().st_size >= WAL_BYTES
