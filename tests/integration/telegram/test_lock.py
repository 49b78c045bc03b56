"""A lock tells that whoever had the bot has gone; while they are there, it takes nothing from them."""

import asyncio
from pathlib import Path

import pytest

from interlock.channels.telegram import bot_lease as leases
from interlock.channels.telegram.bot_lease import BotLease
from interlock.channels.telegram.bot_lock import BotFileLock

BOT = 7


@pytest.fixture
def made(sqlite_store, tmp_path):
    locks = []

    def make(*, seconds=30.0, locked=True):
        locks.append(BotFileLock(tmp_path / "telegram-7"))
        lock = locks[-1] if locked else None
        return BotLease(sqlite_store.log, BOT, seconds=seconds, lock=lock), locks[-1]

    yield make
    for lock in locks:
        lock.let_go()


async def test_what_a_dead_holder_had_is_taken_at_once(made):
    first, lock = made()
    assert await first.take()
    # As the kernel does it when the process has ended.
    lock.let_go()
    second, _ = made()
    assert await second.take()
    assert await second._renew()
    assert not await first._renew()


async def test_nothing_is_taken_from_one_that_is_only_stopped(made, sqlite_store):
    first, first_lock = made()
    second, second_lock = made()
    assert await first.take()
    assert not await second.take()
    sqlite_store.execute("UPDATE telegram_leases SET expires_ms = 1")
    assert await second.take()
    # Who took it so does not say that it has the lock, and is left alone by whoever does.
    first_lock.let_go()
    third, _ = made()
    assert not await third.take()
    # Until it renews, and takes the lock that is free by then.
    assert await second._renew()
    assert not await third.take()
    second_lock.let_go()
    assert await third.take()


async def test_nothing_is_taken_from_one_that_knows_no_lock(made):
    first, _ = made(locked=False)
    second, _ = made()
    assert await first.take()
    assert not await second.take()
    assert await first._renew()
    # The lock is not kept by who cannot use it.
    third, lock = made()
    assert lock.take() is not None
    assert not await third.take()


async def test_a_lock_whose_file_was_removed_is_another_one(made, tmp_path):
    first, lock = made()
    assert await first.take()
    name = lock.take()
    (tmp_path / "telegram-7").unlink()
    second, other = made()
    assert other.take() not in (None, name)
    assert not await second.take()
    assert await first._renew()


async def test_who_waits_asks_again_when_the_lock_is_let_go(made, monkeypatch):
    monkeypatch.setattr(leases, "LOOK_SECONDS", 0.02)
    first, lock = made(seconds=3600)
    second, _ = made(seconds=3600)
    assert await first.take()
    assert not await second.take()
    waiting = asyncio.create_task(second.wait_before_retry())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    lock.let_go()
    await asyncio.wait_for(waiting, 10)
    assert await second.take()


async def test_who_gives_it_back_lets_the_lock_go_too(made):
    first, _ = made()
    assert await first.take()
    await first.release()
    second, _ = made()
    assert await second.take()
    await second.release()
    await second.release()


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "telegram-7").symlink_to(tmp_path / "elsewhere")
    assert BotFileLock(tmp_path / "telegram-7").take() is None
    assert not (tmp_path / "elsewhere").exists()


def test_no_descriptor_is_left_open(tmp_path):
    one, other = BotFileLock(tmp_path / "telegram-7"), BotFileLock(tmp_path / "telegram-7")
    assert one.take() is not None
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        assert other.take() is None
        assert one.take() is not None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    one.let_go()
    assert other.take() is not None
    other.let_go()
