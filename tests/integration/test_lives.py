"""What a process held that has gone is taken at once, where one kernel knows all of them; what a living one
holds is not."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.db.leases import Leases
from interlock.db.process_liveness import ProcessLocks
from interlock.log.kinds import SYSTEM_STREAM
from tests.harness.store import StoreHarness

ROOT = Path(__file__).parents[2]
HOLDING = """
import sys
from pathlib import Path
from interlock.db.process_liveness import ProcessLocks
print(ProcessLocks(Path(sys.argv[1])).acquire(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "lives"


@pytest.fixture
def lives(path):
    made = []

    def make() -> ProcessLocks:
        made.append(ProcessLocks(path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def holding(path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_process_is_gone_when_it_was_killed_and_not_when_it_is_stopped(holding, lives):
    name = holding.stdout.readline().strip()
    here = lives()
    assert not here.is_gone(name)
    holding.send_signal(signal.SIGSTOP)
    assert not here.is_gone(name)
    holding.kill()
    holding.wait()
    assert here.is_gone(name)


def test_what_one_process_started_does_not_keep_its_lock(lives):
    one, other = lives(), lives()
    name = one.acquire()
    command = [sys.executable, "-c", "print(flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, close_fds=False, **pipes) as child:
        child.stdout.readline()
        one.close()
        assert other.is_gone(name)
        child.communicate(b"\n")


def test_two_within_one_process_are_told_apart(lives):
    one, other = lives(), lives()
    names = [one.acquire(), other.acquire()]
    assert len(set(names)) == 2
    assert [one.acquire(), other.acquire()] == names
    assert not any(each.is_gone(name) for each in (one, other) for name in names)
    one.close()
    assert other.is_gone(names[0])


def test_a_lock_in_a_file_that_was_removed_says_nothing(lives, path):
    one = lives()
    name = one.acquire()
    path.unlink()
    other = lives()
    assert other.acquire().rpartition(":")[0] != name.rpartition(":")[0]
    assert not other.is_gone(name)


@pytest.mark.parametrize("name", ["", "x", "1:2:3", "{own}:x", "{own}:-1", "{own}:99999999999999999999"])
def test_nothing_is_gone_that_names_no_lock(lives, name):
    here = lives()
    own = here.acquire().rpartition(":")[0]
    assert not here.is_gone(name.replace("{own}", own))


def test_without_a_file_nobody_is_known_to_be_gone(lives, path):
    path.symlink_to(path.with_name("elsewhere"))
    here = lives()
    assert here.acquire() is None
    assert not here.is_gone("1:2:3")
    assert not path.with_name("elsewhere").exists()


@pytest.mark.parametrize("name", [None, "bot:7"])
async def test_what_a_dead_process_held_is_taken_and_the_token_grows(
    sqlite_store: StoreHarness, lives, name
):
    session = (await sqlite_store.sessions.create(opened_by="test")).id
    theirs, ours = lives(), lives()
    dead = await Leases(sqlite_store.log, seconds=30, lives=theirs).take(session, "dead", name=name)
    leases = Leases(sqlite_store.log, seconds=30, lives=ours)
    assert await leases.take(session, "next", name=name) is None
    theirs.close()
    taken = await leases.take(session, "next", name=name)
    assert taken.token > dead.token
    assert (taken.holder, dead.holder) == ("next", "dead")
    await leases.renew(taken)


async def test_an_expired_lease_is_taken_from_a_living_process_and_is_not_lost_with_it(sqlite_store, lives):
    processes = [lives() for _ in range(3)]
    old, new, next_one = (Leases(sqlite_store.log, seconds=30, lives=each) for each in processes)
    assert await old.take(SYSTEM_STREAM, "old", name="bot:7")
    sqlite_store.execute("UPDATE leases SET expires_ms = 1")
    assert await new.take(SYSTEM_STREAM, "new", name="bot:7")
    processes[0].close()
    assert await next_one.take(SYSTEM_STREAM, "next", name="bot:7") is None


def test_a_dead_holder_is_looked_for_sooner_than_a_lease_ends(sqlite_store, lives):
    assert Leases(sqlite_store.log, seconds=30, lives=lives()).retry_seconds == 0.5
    assert Leases(sqlite_store.log, seconds=30).retry_seconds == 10


async def test_a_session_is_not_taken_from_who_says_nothing_of_a_lock(sqlite_store: StoreHarness, lives):
    session = (await sqlite_store.sessions.create(opened_by="test")).id
    assert await Leases(sqlite_store.log, seconds=30).take(session, "one under nothing")
    leases = Leases(sqlite_store.log, seconds=30, lives=lives())
    assert await leases.take(session, "two") is None
