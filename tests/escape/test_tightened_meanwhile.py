"""What was opened once and is closed now: whoever waited, was stored or was remembered gets no more."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.agent.events import ToolDenied
from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.core.errors import InvalidStoredSettings
from interlock.db.database import StoreConfig
from interlock.db.driver import PostgresConnection, SqliteConnection
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import ToolPolicy
from interlock.sandbox.backend_selection import BackendSelection
from interlock.sandbox.landlock_backend import LandlockBackend
from interlock.sessions.runtime_settings import CLOSED_SETTINGS
from interlock.tools.mcp.repository import McpRepository
from interlock.tools.registry import ToolRegistry
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext
from interlock.wiring import open_runtime
from interlock.wiring.agents import open_agent_runtime
from interlock.wiring.projections import verify
from tests.escape.victim import faults
from tests.harness.gateway import open_gateway_harness, task_of
from tests.harness.mcp import HOSTILE, QUICK, WHO, open_mcp_harness
from tests.harness.runtime import RuntimeHarness, call, open_runtime_harness, script
from tests.harness.store import StoreHarness, open_store
from tests.harness.tools import DeclaredTool
from tests.harness.workflows import open_workflow_harness
from tests.integration.workflow.graphs import ONE

ASK = {"tool_calls": [call("ask_user", type="confirmation", message="Shall I?")]}
WRITE = {"tool_calls": [call("write_file", path="a.txt", content="x")]}
VERSION = "INSERT INTO settings_versions (version, document, changed_by, time_us) VALUES (?, ?, 'x', 0)"


# -- a task that waits for an answer --


async def parked(tmp_path: Path, monkeypatch) -> tuple[str, str]:
    """A session in coding whose task has asked, and whose process has ended."""
    model = {"MODEL": script(tmp_path, ASK, WRITE, "msg:done")}
    async with open_runtime_harness(tmp_path, monkeypatch, model) as ada:
        session = await ada.session(ToolMode.coding)
        task = await ada.say(session, "write it")
        assert task.status == "waiting"
        return session, task.question_id


async def answered(person: RuntimeHarness, session: str, question_id: str) -> str:
    """The code that the write of the resumed task ended with; empty where it was written."""
    question = await person.agent_runtime.runtime.questions.get(question_id)
    await person.talk(session).answer(question, {"confirmed": True})
    answers = await person.answers(session)
    return [answer.get("error_code", "") for given in answers.values() for answer in given][-1]


async def test_a_parked_task_goes_on_where_nothing_was_tightened(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with open_runtime_harness(tmp_path, monkeypatch, {}) as ada:
        assert await answered(ada, session, question) == ""
    assert (tmp_path / "root" / "a.txt").read_text() == "x"


async def test_a_parked_task_follows_a_mode_that_was_switched_meanwhile(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with open_runtime_harness(tmp_path, monkeypatch, {}) as ada:
        switch = ada.agent_runtime.runtime.mode_switch
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
    agent_runtime = open_agent_runtime(runtime)
    try:
        assert (
            await answered(RuntimeHarness(agent_runtime, tmp_path / "root"), session, question)
            == "MODE_DENIED"
        )
    finally:
        await agent_runtime.close()
        await runtime.close()
    assert list((tmp_path / "root").iterdir()) == []


async def test_a_parked_task_follows_settings_that_were_changed_meanwhile(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with open_runtime_harness(tmp_path, monkeypatch, {}) as ada:
        patch = {"tools": {"denied_tools": ["Write_File"]}}
        await ada.agent_runtime.runtime.stored_settings.update(patch, who="ada")
        assert await answered(ada, session, question) == "TOOL_NOT_AVAILABLE"
    assert list((tmp_path / "root").iterdir()) == []


async def test_a_parked_task_writes_nothing_in_a_folder_that_was_closed_meanwhile(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    (tmp_path / "other").mkdir()
    variables = {"TOOL_ALLOWED_ROOTS": str(tmp_path / "other")}
    async with open_runtime_harness(tmp_path, monkeypatch, variables) as ada:
        assert await answered(ada, session, question) == ""
    assert (tmp_path / "other" / "a.txt").exists()
    assert list((tmp_path / "root").iterdir()) == []


async def test_a_parked_task_ends_where_the_settings_cannot_be_understood(tmp_path, monkeypatch):
    session, question = await parked(tmp_path, monkeypatch)
    async with open_runtime_harness(tmp_path, monkeypatch, {}) as ada:
        runtime = ada.agent_runtime.runtime
        broken = (7, '{"tools": {"fs": "off"}}')
        await runtime.log.transact("system", lambda unit: unit.connection.change(VERSION, broken))
        asked = await runtime.questions.get(question)
        task = await ada.talk(session).answer(asked, {"confirmed": True})
        assert task.status == "failed"
        assert "tools.fs: this is a group of settings" in (task.reason or "")
        with runtime.database.reading() as connection:
            assert "version 7" in str(verify(connection).faults)
    assert list((tmp_path / "root").iterdir()) == []


# -- a task that runs --


class Meanwhile:
    """A tool that does, in the middle of an answer, what a person does from another process."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        # Each is given the other process's store and the session.
        self.steps: list = []
        self.tool = DeclaredTool("meanwhile", effect=Effect.write, run=self._run)

    async def _run(self, _arguments, context) -> ToolResult:
        other = open_store(self._config)
        try:
            await self.steps.pop(0)(other, context.session_id)
        finally:
            other.close()
        return ToolResult(stdout="done\n")


MEANWHILE = call("meanwhile")


def to(mode: ToolMode):
    async def switch(other: StoreHarness, session: str) -> None:
        await other.switch(*ToolMode).switch(session, mode, who="ada")

    return switch


def settings(**tools):
    async def change(other: StoreHarness, _session: str) -> None:
        await other.settings.update({"tools": tools}, who="ada")

    return change


@asynccontextmanager
async def at_work(tmp_path: Path, monkeypatch, config: StoreConfig, *turns: object, **variables: str):
    """An office on that store whose model does these turns, and what happens meanwhile."""
    meanwhile = Meanwhile(config)
    given = {"MODEL": script(tmp_path, *turns), "DATABASE_URL": config.url, **variables}
    sandbox = BackendSelection(LandlockBackend(), "chosen by the test")
    async with open_runtime_harness(
        tmp_path, monkeypatch, given, tools=[meanwhile.tool], sandbox=sandbox
    ) as ada:
        yield ada, meanwhile


def append(number: int) -> dict:
    return call("bash", cmd=f"echo {number} >> ran.txt")


def read(number: int) -> dict:
    return call("read_file", path=f"{number}.txt")


def ran(tmp_path: Path) -> str:
    path = tmp_path / "root" / "ran.txt"
    return path.read_text() if path.exists() else ""


def assert_denied_in(ada: RuntimeHarness, session: str, mode: str, count: int) -> None:
    """What a person is shown and what the log has: six fields, none of them empty, and the mode of now."""
    shown = [event for event in ada.shown if isinstance(event, ToolDenied)]
    assert len(shown) == count
    for denied in shown:
        six = (denied.call_id, denied.tool_name, denied.mode, denied.error_code, denied.message)
        assert all((*six, denied.next_action))
        assert denied.mode == mode
    logged = ada.payloads(session, "tool_call.denied")
    assert [each["mode"] for each in logged] == [mode] * count


def started(ada: RuntimeHarness, session: str) -> list[str]:
    return [each["tool_name"] for each in ada.payloads(session, "tool_call.started")]


def sound(ada: RuntimeHarness) -> bool:
    with ada.agent_runtime.runtime.database.reading() as connection:
        return verify(connection).ok


async def test_after_a_switch_no_further_command_of_the_running_answer_runs(
    tmp_path, monkeypatch, store_config
):
    """Six more ran, and with the shell switched off as well 16 of 20."""
    calls = [append(1), MEANWHILE, *(append(number) for number in range(2, 8))]
    turns = ({"tool_calls": calls}, {"tool_calls": [append(8)]}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        meanwhile.steps = [to(ToolMode.chat_safe)]
        session = await ada.session(ToolMode.coding)
        assert (await ada.say(session)).status == "done"
        assert ran(tmp_path) == "1\n"
        assert_denied_in(ada, session, "chat_safe", 7)
        assert {each["error_code"] for each in ada.payloads(session, "tool_call.denied")} == {"MODE_DENIED"}
        assert started(ada, session) == ["bash", "meanwhile"]
        digests = [
            {each["authority_digest"] for each in ada.payloads(session, f"tool_call.{kind}")}
            for kind in ("started", "denied")
        ]
        assert not digests[0] & digests[1]
        # The next turn offers what can be called, and no more.
        authorities = [each["authority_digest"] for each in ada.payloads(session, "turn.completed")]
        assert authorities[0] != authorities[1] == authorities[2]
        assert sound(ada)


@pytest.mark.parametrize("count", [1, 9])
async def test_after_a_switch_nothing_is_shown_of_files_that_could_be_read_at_once(
    tmp_path, monkeypatch, store_config, count
):
    calls = [read(0), MEANWHILE, *(read(number) for number in range(1, count + 1))]
    turns = ({"tool_calls": calls}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        for number in range(count + 1):
            (tmp_path / "root" / f"{number}.txt").write_text(f"content {number}\n")
        meanwhile.steps = [to(ToolMode.chat_safe)]
        session = await ada.session(ToolMode.coding)
        await ada.say(session)
        assert_denied_in(ada, session, "chat_safe", count)
        assert started(ada, session) == ["read_file", "meanwhile"]
        transcript = [message.content for message in await ada.transcript(session)]
        assert "content 0" in str(transcript)
        assert "content 1" not in str((transcript, ada.shown))
        assert sound(ada)


async def test_after_the_shell_is_switched_off_no_further_command_of_the_answer_runs(
    tmp_path, monkeypatch, store_config
):
    calls = [append(1), MEANWHILE, *(append(number) for number in range(2, 20)), read(1)]
    turns = ({"tool_calls": calls}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        (tmp_path / "root" / "1.txt").write_text("content\n")
        meanwhile.steps = [settings(shell={"enabled": False})]
        session = await ada.session(ToolMode.coding)
        await ada.say(session)
        assert ran(tmp_path) == "1\n"
        denied = ada.payloads(session, "tool_call.denied")
        assert_denied_in(ada, session, "coding", len(denied))
        assert {each["error_code"] for each in denied} == {"TOOL_NOT_AVAILABLE"}
        assert "in the stored settings" in denied[0]["error"]
        assert sound(ada)


async def test_what_was_loosened_waits_for_the_next_task(tmp_path, monkeypatch, store_config):
    """Also where it was tightened in between, whether or not a call was refused then."""
    calls = [append(1), MEANWHILE, append(2), MEANWHILE, append(3)]
    turns = ({"tool_calls": calls}, {"tool_calls": [append(4)]}, "msg:ok", {"tool_calls": [append(5)]})
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        session = await ada.session(ToolMode.coding)

        async def there_and_back(other: StoreHarness, session: str) -> None:
            await to(ToolMode.chat_safe)(other, session)
            await to(ToolMode.coding)(other, session)

        meanwhile.steps = [there_and_back, to(ToolMode.coding)]
        await ada.say(session)
        assert ran(tmp_path) == "1\n"
        assert_denied_in(ada, session, "chat_safe", 3)
        await ada.say(session, "again")
        assert ran(tmp_path) == "1\n5\n"
        assert sound(ada)


async def test_a_task_that_was_tightened_is_resumed_as_strict(tmp_path, monkeypatch, store_config):
    turns = ({"tool_calls": [MEANWHILE, ASK["tool_calls"][0]]}, WRITE, "msg:done")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        meanwhile.steps = [to(ToolMode.chat)]
        session = await ada.session(ToolMode.coding)
        task = await ada.say(session)
        assert (task.status, task.mode) == ("waiting", "chat")
        await ada.agent_runtime.runtime.mode_switch.switch(session, ToolMode.coding, who="ada")
        assert await answered(ada, session, task.question_id) == "MODE_DENIED"
        assert sound(ada)


async def test_a_looser_mode_changes_nothing_for_the_task_that_runs(tmp_path, monkeypatch, store_config):
    turns = ({"tool_calls": [MEANWHILE, append(1)]}, {"tool_calls": [append(2)]}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        meanwhile.steps = [to(ToolMode.coding)]
        session = await ada.session(ToolMode.chat)
        await ada.say(session)
        assert ran(tmp_path) == ""
        assert_denied_in(ada, session, "chat", 2)


@pytest.mark.parametrize("modes", [(ToolMode.chat, ToolMode.plan), (ToolMode.plan, ToolMode.chat)])
async def test_a_mode_that_is_as_strict_closes_what_it_has_not(tmp_path, monkeypatch, store_config, modes):
    """Within the turn a call needs both modes, from the next turn on the session's."""
    before, after = modes
    calls = [call("old"), MEANWHILE, call("old"), call("new")]
    turns = ({"tool_calls": calls}, {"tool_calls": [call("old"), call("new")]}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        for name, mode in (("old", before), ("new", after)):
            tool = DeclaredTool(name, modes=frozenset({mode}), effect=Effect.write)
            ada.agent_runtime.runtime.registry.register(tool)
        meanwhile.steps = [to(after)]
        session = await ada.session(before)
        task = await ada.say(session)
        assert (task.status, task.mode) == ("done", after)
        assert started(ada, session) == ["old", "meanwhile", "new"]
        denied = [
            (each["requested_name"], each["mode"]) for each in ada.payloads(session, "tool_call.denied")
        ]
        assert denied == [("old", after), ("new", before), ("old", after)]
        assert sound(ada)


async def test_settings_that_leave_a_tool_alone_do_not_stop_its_calls(tmp_path, monkeypatch, store_config):
    turns = ({"tool_calls": [append(1), MEANWHILE, append(2)]}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        meanwhile.steps = [settings(memory={"enabled": False})]
        session = await ada.session(ToolMode.coding)
        await ada.say(session)
        assert ran(tmp_path) == "1\n2\n"
        assert sound(ada)


async def test_a_setting_that_is_loosened_in_a_turn_waits_for_the_next(tmp_path, monkeypatch, store_config):
    """The limit is loosened and something else tightened: the turn has the stricter of both."""
    turns = ({"tool_calls": [MEANWHILE, append(1)]}, {"tool_calls": [append(2)]}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        await ada.agent_runtime.runtime.stored_settings.update(
            {"tools": {"max_timeout_seconds": 5.0}}, who="ada"
        )
        meanwhile.steps = [settings(max_timeout_seconds=10.0, memory={"enabled": False})]
        session = await ada.session(ToolMode.coding)
        await ada.say(session)
        seconds = [each["timeout_seconds"] for each in ada.payloads(session, "tool_call.started")]
        assert seconds == [5.0, 5.0, 10.0]


async def test_what_was_handed_over_is_tightened_as_well(tmp_path, monkeypatch, store_config):
    child = script(tmp_path, {"tool_calls": [append(1), MEANWHILE, append(2)]}, "msg:ok")
    folder = tmp_path / "workspace" / "agents"
    folder.mkdir(parents=True)
    (folder / "helper.md").write_text(f"---\ndescription: helps\nmodel: {child}\n---\nYou help.\n")
    turns = ({"tool_calls": [call("delegate", agent="helper", task="Go."), append(3)]}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns, MODELS=child) as (ada, meanwhile):
        meanwhile.steps = [to(ToolMode.plan)]
        session = await ada.session(ToolMode.coding)
        await ada.say(session)
        assert ran(tmp_path) == "1\n"
        assert [each["mode"] for each in ada.payloads(session, "tool_call.denied")] == ["plan", "plan"]
        assert sound(ada)


@pytest.mark.parametrize(("mode", "is_read"), [("plan", True), ("chat_safe", False)])
async def test_a_step_of_a_run_is_tightened_as_well(tmp_path, monkeypatch, store_config, mode, is_read):
    """With coding alone open: a step may be in a stricter mode than the run's, whatever is open."""
    looks = {"tool_calls": [call("list_files")]}
    model = script(tmp_path, {"tool_calls": [MEANWHILE, *WRITE["tool_calls"]]}, looks, "msg:ok")
    given = {"MODEL": model, "DATABASE_URL": store_config.url, "SESSION_OPEN_MODES": "coding"}
    async with open_workflow_harness(tmp_path, monkeypatch, **given) as hall:
        meanwhile = Meanwhile(store_config)
        meanwhile.steps = [to(ToolMode(mode))]
        hall.agent_runtime.runtime.registry.register(meanwhile.tool)
        hall.put("one", ONE, only="Write.")
        run = (await hall.run("one")).run
        _, written, listed = hall.results(run.session_id)
        assert (written["error_code"], written["mode"]) == ("MODE_DENIED", mode)
        assert listed["ok"] is is_read
        assert not (hall.root / "a.txt").exists()


async def test_no_call_of_a_task_is_begun_after_it_was_cancelled(tmp_path, monkeypatch, store_config):
    turns = ({"tool_calls": [append(1), MEANWHILE, append(2), read(1)]}, "msg:ok")
    async with at_work(tmp_path, monkeypatch, store_config, *turns) as (ada, meanwhile):
        (tmp_path / "root" / "1.txt").write_text("content\n")

        async def cancel(other: StoreHarness, session: str) -> None:
            statement = "UPDATE tasks SET cancel_requested_us = 1, cancel_requested_by = 'ada'"
            await other.log.transact(session, lambda unit: unit.connection.change(statement))

        meanwhile.steps = [cancel]
        session = await ada.session(ToolMode.coding)
        assert (await ada.say(session)).status == "cancelled"
        assert ran(tmp_path) == "1\n"
        # The loop may notice it before it comes to the last call, which then has no event.
        failed = ada.payloads(session, "tool_call.failed")
        assert {each["error_code"] for each in failed} == {"CANCELLED"}
        assert len(failed) in {1, 2}
        assert not ada.payloads(session, "tool_call.started")[2:]
        assert "content" not in str([message.content for message in await ada.transcript(session)])


async def test_what_is_called_from_a_program_follows_what_its_session_is_switched_to(
    store: StoreHarness, tmp_path, monkeypatch
):
    """Between the judgement and the intent: the Authority was asked for before the switch."""
    monkeypatch.setenv("DATABASE_URL", store.config.url)
    (tmp_path / "root").mkdir()
    runtime = open_runtime(Settings(), opened=list(ToolMode), roots=(tmp_path / "root",))
    try:
        session = (await runtime.sessions.create(opened_by="test", mode=ToolMode.coding)).id
        authority = await runtime.authority(ToolMode.coding)
        await to(ToolMode.chat)(store, session)
        write = ToolCall("c1", "write_file", {"path": "a.txt", "content": "x"})
        refused = await runtime.runner.call(write, authority, ToolContext(session))
        assert refused.failure is not None
        assert (refused.failure.error_code, refused.failure.mode) == ("MODE_DENIED", "chat")
        # An operator who names a mode for one call at the command line means that mode.
        chosen = ToolContext(session, follows_session=False)
        write = ToolCall("c2", "write_file", {"path": "a.txt", "content": "x"})
        assert (await runtime.runner.call(write, authority, chosen)).ok
    finally:
        await runtime.close()


async def test_where_nothing_was_tightened_a_call_costs_no_statement_more(
    tmp_path, monkeypatch, store_config
):
    """The same calls, by a runner that looks at nothing else than the Authority."""
    monkeypatch.setenv("DATABASE_URL", store_config.url)
    (root := tmp_path / "root").mkdir()
    (root / "a.txt").write_text("x")
    statements: list[str] = []
    for kind in (SqliteConnection, PostgresConnection):
        for name in ("query", "change", "change_many"):
            monkeypatch.setattr(kind, name, counted(getattr(kind, name), statements))
    runtime = open_runtime(Settings(), opened=list(ToolMode), roots=(root,))
    careless = ToolRunner(runtime.registry, runtime.log, runtime.redactor)
    try:
        session = (await runtime.sessions.create(opened_by="test", mode=ToolMode.coding)).id
        authority, spent = await runtime.authority(ToolMode.coding), []
        for number, runner in enumerate([careless, runtime.runner] * 2):
            statements.clear()
            for tool, arguments in (("read_file", {"path": "a.txt"}), ("list_files", {})):
                call = ToolCall(f"{tool}{number}", tool, arguments)
                assert (await runner.call(call, authority, ToolContext(session))).ok
            spent.append([each.split()[0] for each in statements])
        # Each has entered the Authority with its first calls.
        assert spent[2] == spent[3]
    finally:
        await runtime.close()


def counted(method, statements: list[str]):
    def recording(self, sql, *more):
        if more != ([],):
            statements.append(sql)
        return method(self, sql, *more)

    return recording


# -- a message that waits --


@pytest.mark.parametrize(
    ("sent_in", "started_in", "runs_in"),
    [
        (ToolMode.chat, ToolMode.coding, "chat"),
        (ToolMode.coding, ToolMode.chat, "chat"),
        (ToolMode.coding, ToolMode.coding, "coding"),
        (ToolMode.plan, ToolMode.chat, "chat"),
    ],
)
async def test_a_queued_message_runs_in_the_stricter_of_its_modes(
    tmp_path, monkeypatch, store_config, sent_in, started_in, runs_in
):
    async with at_work(tmp_path, monkeypatch, store_config, "msg:ok", "msg:ok") as (ada, _):
        session = await ada.session(sent_in)
        queued = await ada.agent_runtime.tasks.put(session, "wait", who="ada")
        assert queued.mode is sent_in
        for mode in (ToolMode.chat_safe, started_in):
            await ada.agent_runtime.runtime.mode_switch.switch(session, mode, who="ada")
        assert sound(ada)
        await ada.say(session, "behind it")
        modes = [told["mode"] for told in ada.payloads(session, "task.started")]
        assert modes == [runs_in, started_in]
        assert sound(ada)


# -- two processes --


async def test_modes_that_two_processes_switch_at_once_are_told_one_after_another(store: StoreHarness):
    other = open_store(store.config)
    session = (await store.sessions.create(opened_by="test")).id

    async def switching(process: StoreHarness, *modes: ToolMode) -> None:
        for mode in modes * 4:
            await process.switch(*ToolMode).switch(session, mode, who="ada")

    try:
        await asyncio.gather(
            switching(store, ToolMode.coding, ToolMode.chat_safe),
            switching(other, ToolMode.plan, ToolMode.coding, ToolMode.chat),
        )
    finally:
        other.close()
    rows = store.query("SELECT facts FROM events WHERE kind = 'session.mode_changed' ORDER BY seq")
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
async def test_stored_settings_of_another_shape_open_nothing(sqlite_store: StoreHarness, document):
    """Half of them counted as the defaults, with which everything is switched on."""
    sqlite_store.execute(VERSION, 1, document)
    with pytest.raises(InvalidStoredSettings):
        await sqlite_store.settings.current()


async def test_mending_what_cannot_be_understood_switches_nothing_on_unseen(store: StoreHarness):
    await store.settings.update({"tools": {"fs": {"enabled": False}}}, who="ada")
    store.execute(VERSION, 2, '{"tools": {"fs": "off", "shell": {"enabled": false}}}')
    mended = await store.settings.update({"tools": {"memory": {"enabled": True}}}, who="ada")
    assert mended.settings.tools.memory.enabled is True
    rest = mended.settings.tools.model_copy(update={"memory": CLOSED_SETTINGS.tools.memory})
    assert rest == CLOSED_SETTINGS.tools
    rows = store.query("SELECT facts FROM events WHERE kind = 'settings.changed' ORDER BY seq")
    changes = json.loads(rows[-1][0])["changes"]
    assert changes["tools.fs.enabled"] == [None, False]
    assert changes["tools.memory.enabled"] == [None, True]


@pytest.mark.parametrize("name", ["bash ", "b\u0430sh", "", "\uff42ash", "bash\n", "a" * 65])
async def test_a_denial_that_would_deny_nothing_is_refused(sqlite_store: StoreHarness, name):
    with pytest.raises(InvalidStoredSettings, match="is not a valid tool name"):
        await sqlite_store.settings.update({"tools": {"denied_tools": ["bash", name]}}, who="ada")
    assert (await sqlite_store.settings.current()).version == 0


@pytest.mark.parametrize("name", ["bash", "Bash", "BASH", "Shell.Exec"])
def test_a_denial_holds_in_whatever_case_it_was_written(name):
    registry = ToolRegistry()
    registry.register(DeclaredTool("bash", aliases=("shell.exec",)))
    authority_inputs = AuthorityInputs(
        ToolMode.chat_safe, settings=ToolPolicy(denied_tools=frozenset({name}))
    )
    assert compile_authority(registry, authority_inputs).exposed == ()


# -- a server that was replaced --


async def test_a_server_that_was_replaced_is_not_started_again_by_a_turn_of_before(tmp_path, monkeypatch):
    """Same name, same tool, same class by the same person: only the command is another one."""
    async with open_mcp_harness(tmp_path, monkeypatch, LandlockBackend()) as mcp:
        await mcp.ready("well")
        authority = await mcp.runtime.authority(ToolMode.coding)
        await mcp.runtime.mcp_servers.remove("bad", None, who=WHO)
        await mcp.add("bad", *QUICK, str(HOSTILE), "well", "another")
        await mcp.inspect("bad")
        await mcp.allow("bad", "echo")
        call = ToolCall("late", "bad__echo", {"text": "x"})
        late = await mcp.runtime.runner.call(call, authority, ToolContext(mcp.session_id))
        assert late.failure is not None
        assert late.failure.error_code == "TOOL_NOT_AVAILABLE"
        assert (await mcp.call("bad__echo", text="x")).ok


async def switched_off(other: StoreHarness) -> None:
    await other.settings.update({"tools": {"mcp": {"enabled": False}}}, who="ada")


async def taken_off_the_list(other: StoreHarness) -> None:
    await other.settings.update({"tools": {"mcp": {"allowed_servers": ["another"]}}}, who="ada")


async def removed(other: StoreHarness) -> None:
    await McpRepository(other.database, other.log).remove("bad", who="ada")


@pytest.mark.parametrize("close", [switched_off, taken_off_the_list, removed])
async def test_a_server_that_another_process_closes_gets_no_further_call_of_the_turn(
    tmp_path, monkeypatch, store_config, close
):
    async with open_mcp_harness(
        tmp_path, monkeypatch, LandlockBackend(), DATABASE_URL=store_config.url
    ) as mcp:
        await mcp.ready("well")
        authority = await mcp.runtime.authority(ToolMode.coding)
        context = ToolContext(mcp.session_id)
        first = ToolCall("first", "bad__echo", {"text": "x"})
        assert (await mcp.runtime.runner.call(first, authority, context)).ok
        other = open_store(store_config)
        try:
            await close(other)
        finally:
            other.close()
        late = ToolCall("late", "bad__echo", {"text": "x"})
        refused = (await mcp.runtime.runner.call(late, authority, context)).failure
        assert refused is not None
        assert refused.error_code in {"TOOL_NOT_AVAILABLE", "TOOL_NOT_FOUND"}
        assert all((refused.tool_name, refused.mode, refused.message, refused.next_action))
        told = await mcp.flushed("tool_call.started", mcp.session_id)
        assert [each["call_id"] for each in told] == ["first"]


# -- taking back --


async def test_from_afar_nothing_is_taken_back_in_a_folder_that_was_closed_meanwhile(tmp_path, monkeypatch):
    model = json.dumps(['call:write_file {"path": "made.txt", "content": "hello"}', "msg:Written."])
    given = {"MODEL": f"scripted:{model}", "SESSION_OPEN_MODES": "coding"}
    async with open_gateway_harness(tmp_path, monkeypatch, given) as harness:
        client = await harness.connect()
        session = (await client.ask("session.create", mode="coding"))["session"]["id"]
        task_id = task_of(await client.talk(session, "write it"))
    (tmp_path / "other").mkdir()
    async with open_gateway_harness(
        tmp_path, monkeypatch, given | {"TOOL_ALLOWED_ROOTS": str(tmp_path / "other")}
    ) as harness:
        client = await harness.connect(await harness.token("another"))
        undone = await client.ask("tasks.undo", task_id=task_id)
        assert undone["restored"] == []
        assert "no longer open" in undone["left"][0]["reason"]
        assert (tmp_path / "root" / "made.txt").read_text() == "hello"
        # At the command line the person is the operator.
        report = await harness.runtime.undo.revert(task_id, who="local:ada")
        assert [outcome.reason for outcome in report.outcomes] == [None]
    assert not (tmp_path / "root" / "made.txt").exists()
