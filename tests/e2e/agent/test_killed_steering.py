"""SIGKILL around the moment at which a task gets a message that steers it: it gets it exactly once."""

import shutil
from collections.abc import Callable

from interlock.config.modes import ToolMode
from tests.e2e.agent.test_killed_at_every_event import KILLED, WELL, WORKING, Begun, play, store_of_its_own
from tests.harness.cli_processes import ProcessHarness
from tests.harness.model_answers import called, said
from tests.harness.model_server import ModelServer, by_turns
from tests.harness.store import open_store
from tests.harness.tasks import TaskHarness

__all__ = ["store_of_its_own"]

TURNS = [called(("current_time", {}), ids="look"), said("All of it is done.")]
STEERING = "go left"


async def begin(home, new_state, server: ModelServer, store) -> Begun:
    """A task whose worker was lost, and that somebody steered before another took it up."""
    harness = ProcessHarness(home, dict(WORKING))
    harness.asks(server)
    harness.root.mkdir(parents=True)
    shutil.copytree(new_state, harness.state, dirs_exist_ok=True)
    tasks = TaskHarness(store)
    session = await tasks.session(ToolMode.chat_safe)
    task, lease = await tasks.started(session)
    await tasks.tasks.put(session, STEERING, who="bob", steer=True)
    await tasks.leases.release(lease)
    return Begun(harness, session, task.id)


def assert_given_once(begun: Begun) -> None:
    harness = begun.harness
    statuses = harness.query("SELECT status, attempts FROM tasks ORDER BY message_seq")
    assert [status for status, _ in statuses] == ["done", "done"]
    assert statuses[1][1] == 0, "it is no task of its own"
    harness.assert_sound(begun.session)
    (steered,) = harness.events("task.steered", session=begun.session)
    assert steered.fields["into"] == begun.task
    asked = [message["content"] for message in harness.messages(begun.session) if message["role"] == "user"]
    assert asked == ["hello", STEERING]


async def play_around(copy: Callable[[str], Begun], server: ModelServer, *, apart: bool) -> None:
    undisturbed = copy("undisturbed")
    assert await play([undisturbed.round(apart=apart)]) == [[WELL]]
    assert_given_once(undisturbed)
    (steered,) = undisturbed.harness.events("task.steered", session=undisturbed.session)
    commits = sorted({seq for seq, _ in undisturbed.acknowledged()})
    moments = [("before", steered.seq), *(("after", seq) for seq in commits)]
    copies = [copy(f"{moment}-{at}") for moment, at in moments]
    codes = await play(one.round(*moment, apart=apart) for one, moment in zip(copies, moments, strict=True))
    for one, moment, ends in zip(copies, moments, codes, strict=True):
        assert ends == [KILLED, WELL], moment
        assert_given_once(one)
    # Whatever the model was asked, it had it at most once, and behind the first request.
    for request in server.asked:
        words = [message["content"] for message in request.messages if message["role"] == "user"]
        assert words == ["hello", STEERING]
    assert len(server.asked) >= 2 * (len(moments) + 1)


async def test_killed_at_every_commit_it_is_given_once(tmp_path, new_state, sqlite_config):
    async with ModelServer(by_turns(TURNS)) as server:
        store = open_store(sqlite_config)
        begun = await begin(tmp_path / "begun", new_state, server, store)
        store.close()
        shutil.copy(tmp_path / "state" / "interlock.db", begun.harness.state / "interlock.db")
        await play_around(lambda name: begun.copied(tmp_path / name), server, apart=True)
    assert server.faults == []


async def test_killed_at_every_commit_it_is_given_once_on_postgresql(
    tmp_path, new_state, postgres_server, store_of_its_own
):
    config, copied_store = store_of_its_own
    async with ModelServer(by_turns(TURNS)) as server:
        store = open_store(config)
        begun = await begin(tmp_path / "begun", new_state, server, store)
        store.close()

        def copy(name: str) -> Begun:
            return begun.copied(tmp_path / name, DATABASE_URL=copied_store().url)

        await play_around(copy, server, apart=False)
    assert server.faults == []
