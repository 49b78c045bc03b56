"""What was opened once and is closed now: whoever waited, was stored or was remembered gets no more."""

import asyncio
import json
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.events.verify import verify
from interlock.gates.authority import compile_authority
from interlock.gates.gate import ToolCall
from interlock.gates.policy import ToolPolicy
from interlock.gates.runner import CallContext
from interlock.gates.situation import Situation
from interlock.infra.errors import InvalidSettings
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.session.settings_store import CLOSED
from interlock.tools.registry import ToolRegistry
from interlock.wiring import foreign, open_runtime
from interlock.wiring.office import open_office
from tests.conftest import Store, open_store
from tests.doubles import DeclaredTool
from tests.escape.victim import faults
from tests.integration.agent.office import Person, call, opened, script
from tests.integration.gateway.house import opened_house, task_of
from tests.integration.mcp.stand import HOSTILE, QUICK, WHO, opened_stand

ASK = {"tool_calls": [call("ask_user", type="confirmation", message="Shall I?")]}
WRITE = {"tool_calls": [call("write_file", path="a.txt", content="x")]}
VERSION = "INSERT INTO settings_versions (version, document, changed_by, time_us) VALUES (?, ?, 'x', 0)"


# -- a task that waits for an answer --


async def parked(tmp_path: Path, monkeypatch) -> tuple[str, str]:
    """A session in coding whose task has asked, and whose process has ended."""
    model = {"MODEL": script(tmp_path, ASK, WRITE, "msg:done")}
    async with opened(tmp_path, monkeypatch, model) as ada:
        session = await ada.session(ToolMode.coding)
        task = await ada.say(session, "write it")
        assert task.status == "waiting"
        return session, task.question_id


async def answered(person: Person, session: str, question_id: str) -> str:
    """The code that the write of the resumed task ended with; empty where it was written."""
    question = await person.office.runtime.questions.get(question_id)
    await person.talk(session).answer(question, {"confirmed": True})
    answers = await person.answers(session)
    return [answer.get("error_code", "") for given in answers.values() for answer in given][-1]


async def test_a_parked_task_goes_on_where_nothing_was_tightened(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with opened(tmp_path, monkeypatch, {}) as ada:
        assert await answered(ada, session, question) == ""
    assert (tmp_path / "root" / "a.txt").read_text() == "x"


async def test_a_parked_task_follows_a_mode_that_was_switched_meanwhile(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with opened(tmp_path, monkeypatch, {}) as ada:
        switch = ada.office.runtime.mode_switch
        await switch.switch(session, ToolMode.chat, who="ada")
        assert await answered(ada, session, question) == "MODE_DENIED"
        await switch.switch(session, ToolMode.coding, who="ada")
        # What it was taken up in last is what it keeps.
        modes = [told["mode"] for told in ada.payloads(session, "task.started")]
        assert modes == ["coding", "chat"]
    assert list((tmp_path / "root").iterdir()) == []


async def test_a_parked_task_is_taken_up_in_what_the_other_process_opened(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    runtime = open_runtime(Settings())
    office = open_office(runtime)
    try:
        assert await answered(Person(office), session, question) == "MODE_DENIED"
    finally:
        await office.close()
        await runtime.close()
    assert list((tmp_path / "root").iterdir()) == []


async def test_a_parked_task_follows_settings_that_were_changed_meanwhile(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with opened(tmp_path, monkeypatch, {}) as ada:
        patch = {"tools": {"denied_tools": ["Write_File"]}}
        await ada.office.runtime.stored_settings.update(patch, who="ada")
        assert await answered(ada, session, question) == "TOOL_NOT_AVAILABLE"
    assert list((tmp_path / "root").iterdir()) == []


async def test_a_parked_task_writes_nothing_in_a_folder_that_was_closed_meanwhile(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    (tmp_path / "other").mkdir()
    variables = {"TOOL_ALLOWED_ROOTS": str(tmp_path / "other")}
    async with opened(tmp_path, monkeypatch, variables) as ada:
        assert await answered(ada, session, question) == ""
    assert (tmp_path / "other" / "a.txt").exists()
    assert list((tmp_path / "root").iterdir()) == []


async def test_a_parked_task_ends_where_the_settings_cannot_be_understood(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with opened(tmp_path, monkeypatch, {}) as ada:
        runtime = ada.office.runtime
        broken = (7, '{"tools": {"fs": "off"}}')
        await runtime.log.transact("system", lambda unit: unit.connection.change(VERSION, broken))
        asked = await runtime.questions.get(question)
        task = await ada.talk(session).answer(asked, {"confirmed": True})
        assert task.status == "failed"
        assert "tools.fs: it is a group of settings" in (task.reason or "")
        with runtime.database.reading() as connection:
            assert "version 7" in str(verify(connection).faults)
    assert list((tmp_path / "root").iterdir()) == []


# -- two processes --


async def test_modes_that_two_processes_switch_at_once_are_told_one_after_another(store: Store):
    other = open_store(store.config)
    session = (await store.sessions.create(opened_by="test")).id

    async def switching(process: Store, *modes: ToolMode) -> None:
        for mode in modes * 4:
            await process.switch(*ToolMode).switch(session, mode, who="ada")

    try:
        await asyncio.gather(
            switching(store, ToolMode.coding, ToolMode.chat_safe),
            switching(other, ToolMode.plan, ToolMode.coding, ToolMode.chat),
        )
    finally:
        other.close()
    rows = store.query("SELECT payload FROM events WHERE kind = 'session.mode_changed' ORDER BY seq")
    told = [json.loads(row[0]) for row in rows]
    assert [each["from_mode"] for each in told] == ["chat_safe", *(each["to_mode"] for each in told[:-1])]
    assert faults(store) == []


# -- stored settings --

NOT_SETTINGS = [
    *("[]", '"off"', "null", "5", "{", '{"tools": "off"}', '{"tools": []}', '{"tools": {"fs": false}}'),
    *('{"tools": {"shell": "off"}}', '{"tools": {"fs": {"enabled": "false"}}}'),
    *('{"tools": {"fs": {"enabled": 0}}}', '{"tools": {"denied_tools": "bash"}}'),
]


@pytest.mark.parametrize("document", NOT_SETTINGS)
async def test_stored_settings_of_another_shape_open_nothing(sqlite_store: Store, document):
    """Half of them counted as the defaults, with which everything is switched on."""
    sqlite_store.execute(VERSION, 1, document)
    with pytest.raises(InvalidSettings):
        await sqlite_store.settings.current()


async def test_mending_what_cannot_be_understood_switches_nothing_on_unseen(store: Store):
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="ada")
    store.execute(VERSION, 2, '{"tools": {"fs": "off", "shell": {"enabled": false}}}')
    mended = await store.settings.update({"tools": {"memory": {"enabled": True}}}, who="ada")
    assert mended.settings.tools.memory.enabled is True
    rest = mended.settings.tools.model_copy(update={"memory": CLOSED.tools.memory})
    assert rest == CLOSED.tools
    rows = store.query("SELECT payload FROM events WHERE kind = 'settings.changed' ORDER BY seq")
    changes = json.loads(rows[-1][0])["changes"]
    assert changes["tools.fs.enabled"] == [None, False]
    assert changes["tools.memory.enabled"] == [None, True]


@pytest.mark.parametrize("name", ["bash ", "b\u0430sh", "", "\uff42ash", "bash\n", "a" * 65])
async def test_a_denial_that_would_deny_nothing_is_refused(sqlite_store: Store, name):
    with pytest.raises(InvalidSettings, match="cannot be a tool's name"):
        await sqlite_store.settings.update({"tools": {"denied_tools": ["bash", name]}}, who="ada")
    assert (await sqlite_store.settings.current()).version == 0


@pytest.mark.parametrize("name", ["bash", "Bash", "BASH", "Shell.Exec"])
def test_a_denial_holds_in_whatever_case_it_was_written(name):
    registry = ToolRegistry()
    registry.register(DeclaredTool("bash", aliases=("shell.exec",)))
    situation = Situation(ToolMode.chat_safe, settings=ToolPolicy(denied_tools=frozenset({name})))
    assert compile_authority(registry, situation).exposed == ()


# -- a server that was replaced --


async def test_a_server_that_was_replaced_is_not_started_again_by_a_turn_of_before(tmp_path, monkeypatch):
    """Same name, same tool, same class by the same person: only the command is another one."""
    async with opened_stand(tmp_path, monkeypatch, LandlockBackend()) as stand:
        await stand.ready("well")
        authority = await stand.runtime.authority(ToolMode.coding)
        await foreign.remove(stand.runtime, "bad", None, who=WHO)
        await stand.add("bad", *QUICK, str(HOSTILE), "well", "another")
        await stand.inspect("bad")
        await stand.allow("bad", "echo")
        call = ToolCall("late", "bad__echo", {"text": "x"})
        late = await stand.runtime.runner.call(call, authority, CallContext(stand.session_id))
        assert late.failure is not None
        assert late.failure.error_code == "TOOL_NOT_AVAILABLE"
        assert (await stand.call("bad__echo", text="x")).ok


# -- taking back --


async def test_from_afar_nothing_is_taken_back_in_a_folder_that_was_closed_meanwhile(tmp_path, monkeypatch):
    model = json.dumps(['call:write_file {"path": "made.txt", "content": "hello"}', "msg:Written."])
    given = {"MODEL": f"scripted:{model}", "SESSION_OPEN_MODES": "coding"}
    async with opened_house(tmp_path, monkeypatch, given) as house:
        client = await house.connect()
        session = (await client.ask("session.create", mode="coding"))["session"]["id"]
        task_id = task_of(await client.talk(session, "write it"))
    (tmp_path / "other").mkdir()
    async with opened_house(
        tmp_path, monkeypatch, given | {"TOOL_ALLOWED_ROOTS": str(tmp_path / "other")}
    ) as house:
        client = await house.connect(await house.token("another"))
        undone = await client.ask("tasks.undo", task_id=task_id)
        assert undone["restored"] == []
        assert "not opened any more" in undone["left"][0]["reason"]
        assert (tmp_path / "root" / "made.txt").read_text() == "hello"
        # At the command line the person is the operator.
        report = await house.runtime.undo.take_back(task_id, who="local:ada")
        assert [outcome.reason for outcome in report.outcomes] == [None]
    assert not (tmp_path / "root" / "made.txt").exists()
