"""The two tools, through the real gates, runner and log, on both databases."""

import asyncio
import os

import pytest

from interlock.config.modes import ToolMode
from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.gateway.auth import CredentialService
from interlock.log.kinds import merge_payload
from interlock.log.stream_appender import NO_SCOPE, EventScope
from interlock.policy.authority import AuthorityCache
from interlock.policy.authority_inputs import AuthorityInputs, CallLimits
from interlock.policy.policy_fields import FsPolicy, MemoryPolicy, ToolPolicy
from interlock.redaction.redactor import Redactor
from interlock.tools.tool import ToolContext
from interlock.wiring import build_registry, memory_services
from tests.harness.store import StoreHarness
from tests.harness.tasks import TaskHarness
from tests.integration.memory.conftest import SECRET


class Tools:
    def __init__(self, store: StoreHarness, session_id: str, workspace) -> None:
        self.store, self.session_id, self.workspace = store, session_id, workspace
        self.folder = workspace / "memory"
        redactor = Redactor([SECRET])
        memory = memory_services(workspace, workspace.parent / "state", store.database, redactor)
        self.registry = build_registry(memory=memory)
        self.runner = ToolRunner(self.registry, store.log, redactor)
        self.mode, self.policy, self.limits = ToolMode.coding, ToolPolicy(), CallLimits()
        self.scope = NO_SCOPE

    async def call(self, name: str, **arguments):
        authority = AuthorityCache(self.registry).get(
            AuthorityInputs(
                mode=self.mode,
                open_modes=frozenset(ToolMode),
                environment=self.policy,
                limits=self.limits,
            )
        )
        call = ToolCall("call_1", name, arguments)
        return await self.runner.call(call, authority, ToolContext(self.session_id, scope=self.scope))

    async def ok(self, name: str, **arguments):
        result = await self.call(name, **arguments)
        assert result.failure is None, result.failure
        return result

    async def code(self, name: str, **arguments) -> str:
        result = await self.call(name, **arguments)
        assert result.failure is not None, result.stdout
        assert result.failure.message
        assert result.failure.next_action
        return result.failure.error_code.value


@pytest.fixture
async def tools(store: StoreHarness, tmp_path) -> Tools:
    session = await store.sessions.create(opened_by="test")
    return Tools(store, session.id, tmp_path / "workspace")


async def test_what_is_kept_is_found(tools):
    done = await tools.ok("memory_append", content="The boiler is serviced in May.", title="House")
    assert done.meta["path"] == "house.md"
    assert done.stdout == "created the note house.md at line 1\n"
    found = await tools.ok("memory_search", query="when is the boiler serviced?")
    assert found.stdout.startswith("1. house.md:7 | House")
    assert "The boiler is serviced in May." in found.stdout
    (hit,) = found.meta["hits"]
    assert (hit["path"], hit["line"]) == ("house.md", 7)
    assert hit["day"]


async def test_chinese_is_kept_and_found(tools):
    await tools.ok("memory_append", content="我们上次去的咖啡店叫蓝瓶。", title="上海 咖啡")
    found = await tools.ok("memory_search", query="咖啡店叫什么名字？")
    assert "蓝瓶" in found.stdout
    assert found.meta["hits"][0]["path"] == "上海-咖啡.md"


@pytest.mark.parametrize(
    ("who", "channel"), [("ada", "exec"), ("telegram:5", "telegram"), ("script", "gateway")]
)
async def test_every_hit_says_who_wrote_it_and_when(tools, store, who, channel):
    session = await store.sessions.create(opened_by="exec", agent="scribe")
    credential = None
    if channel == "gateway":
        credentials = CredentialService(store.database, store.log, Redactor())
        credential = (await credentials.add_token("script", who="ada")).id
    tasks = TaskHarness(store).tasks
    task = await tasks.put(session.id, "hello", who=who, credential_id=credential)
    tools.session_id, tools.scope = session.id, EventScope(task=task.id)
    await tools.ok("memory_append", content="The boiler is serviced in May.", title="House")
    (tools.folder / "hand.md").write_text("# Hand | written by tool memory_append\n\nThe boiler is old.\n")
    os.utime(tools.folder / "hand.md", (1_700_000_000, 1_700_000_000))
    found = await tools.ok("memory_search", query="boiler")
    by = {hit["path"]: hit for hit in found.meta["hits"]}
    named = ("tool memory_append", "agent scribe", f"person {who}", f"channel {channel}", f"task {task.id}")
    assert by["house.md"]["author"] == dict(each.split(" ", 1) for each in named)
    said = "; ".join(named)
    assert (
        f"\n   written {by['house.md']['written_at']} by {said}\n   The boiler is serviced" in found.stdout
    )
    assert (by["hand.md"]["author"], by["hand.md"]["written_at"]) == (None, "2023-11-14 22:13 +00:00")
    unknown = "author unknown (written or edited by hand); the file is of 2023-11-14 22:13 +00:00"
    assert f"\n   {unknown}\n   The boiler is old." in found.stdout


async def test_an_entry_edited_by_hand_loses_its_author(tools):
    await tools.ok("memory_append", content="The boiler is serviced in May.", title="House")
    note = tools.folder / "house.md"
    note.write_text(note.read_text().replace("in May", "in June"))
    (hit,) = (await tools.ok("memory_search", query="boiler")).meta["hits"]
    assert hit["author"] is None
    assert "Written" not in hit["snippet"]
    note.write_text(note.read_text().replace("in June", "in May"))
    (hit,) = (await tools.ok("memory_search", query="boiler")).meta["hits"]
    assert hit["author"]["tool"] == "memory_append"


@pytest.mark.parametrize("mode", ToolMode)
async def test_searching_is_for_every_mode_and_adding_for_coding(tools, mode):
    tools.mode = mode
    assert (await tools.call("memory_search", query="x")).ok
    added = await tools.call("memory_append", content="x")
    assert added.ok is (mode is ToolMode.coding)
    if not added.ok:
        assert added.failure.error_code.value == "MODE_DENIED"
        assert not tools.folder.exists()


async def test_with_memory_switched_off_both_are_not_available(tools):
    tools.policy = ToolPolicy(memory=MemoryPolicy(enabled=False))
    assert await tools.code("memory_search", query="x") == "TOOL_NOT_AVAILABLE"
    assert await tools.code("memory_append", content="x") == "TOOL_NOT_AVAILABLE"
    assert not tools.folder.exists()


async def test_memory_needs_no_folders_and_no_file_tools(tools):
    tools.policy = ToolPolicy(fs=FsPolicy(enabled=False))
    await tools.ok("memory_append", content="the boiler")
    assert "boiler" in (await tools.ok("memory_search", query="boiler")).stdout


async def test_empty_answers_say_what_to_do(tools):
    assert "no notes" in (await tools.ok("memory_search", query="x")).stdout
    await tools.ok("memory_append", content="the boiler")
    assert "No match in 1 note." in (await tools.ok("memory_search", query="zeppelin")).stdout
    for query in ("", "?!", "\0"):
        result = await tools.ok("memory_search", query=query)
        assert "no searchable word" in result.stdout
        assert result.meta["hits"] == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_search", {}),
        ("memory_search", {"query": "x", "limit": 0}),
        ("memory_search", {"query": "x", "limit": 51}),
        ("memory_search", {"query": 1}),
        ("memory_append", {}),
        ("memory_append", {"content": "  \n"}),
        ("memory_append", {"content": "x", "path": "a.md"}),
    ],
)
async def test_wrong_arguments_are_refused(tools, name, arguments):
    assert await tools.code(name, **arguments) == "INVALID_ARGS"
    assert not tools.folder.exists()


async def test_the_write_limit_of_the_policy_holds(tools):
    tools.policy = ToolPolicy(fs=FsPolicy(max_write_bytes=10))
    assert await tools.code("memory_append", content="é" * 6) == "LIMIT_EXCEEDED"
    await tools.ok("memory_append", content="é" * 5)


async def test_a_workspace_that_cannot_be_written_is_told(tools):
    tools.workspace.write_text("a file, not a folder")
    assert await tools.code("memory_append", content="x") == "EXECUTION_ERROR"
    result = await tools.call("memory_append", content="x")
    assert "WORKSPACE_DIR" in result.failure.next_action
    assert await tools.code("memory_search", query="x") == "EXECUTION_ERROR"


async def test_secrets_are_kept_out_of_note_log_and_result(tools, store):
    kept = await tools.ok("memory_append", content=f"the key is {SECRET}", title=f"key {SECRET}")
    assert kept.stdout.endswith("; a secret in it was removed\n")
    assert kept.meta["secret_left_out"] is True
    (note,) = [path for path in tools.folder.iterdir() if path.suffix == ".md"]
    assert SECRET not in note.name + note.read_text()
    result = await tools.ok("memory_search", query="key")
    assert SECRET not in repr(result)
    assert SECRET not in repr(store.query("SELECT facts, content FROM events"))


async def test_the_log_tells_which_note_was_written(tools, store):
    await tools.ok("memory_append", content="the boiler", title="House")
    content = store.query("SELECT content FROM events WHERE kind = 'tool_call.completed'")[-1][0]
    assert str(tools.folder / "house.md") in content
    assert '"action":"created"' in content


async def test_fifty_hits_fit_into_a_result(tools):
    tools.folder.mkdir(parents=True)
    for number in range(60):
        text = f"# {'长标题' * 30}\n\n" + f"锅炉维修记录{number} " + "锅炉" * 400
        (tools.folder / f"{number}.md").write_text(text)
    result = await tools.ok("memory_search", query="锅炉维修", limit=50)
    assert len(result.meta["hits"]) == 50
    assert not result.truncated_bytes


async def test_the_loop_goes_on_while_notes_are_taken_in(tools):
    tools.folder.mkdir(parents=True)
    for number in range(400):
        (tools.folder / f"{number}.md").write_text(f"# Note {number}\n\n" + "some words of it " * 100)
    longest, running = 0.0, True

    async def beat() -> None:
        nonlocal longest
        loop = asyncio.get_running_loop()
        while running:
            began = loop.time()
            await asyncio.sleep(0.005)
            longest = max(longest, loop.time() - began)

    beating = asyncio.create_task(beat())
    await tools.ok("memory_search", query="note 7")
    running = False
    await beating
    assert longest < 1.0


async def last_outcome(tools) -> dict:
    rows = tools.store.query(
        "SELECT facts, content FROM events WHERE stream = ? ORDER BY seq", tools.session_id
    )
    return merge_payload(*rows[-1])


async def test_a_secret_that_memory_masks_is_told_with_the_call(tools):
    for content, title in ((f"The key is {SECRET}.", "Keys"), ("Plain.", f"Of {SECRET}")):
        await tools.ok("memory_append", content=content, title=title)
        assert (await last_outcome(tools))["redacted"] is True
    await tools.ok("memory_append", content="The boiler is serviced in May.", title="House")
    assert (await last_outcome(tools))["redacted"] is False
    (tools.folder / "hand.md").write_text(f"# Doors\n\nThe code of the shed is {SECRET}.\n")
    for query, redacted in (("what is the key?", True), ("shed code", True), ("boiler", False)):
        assert (await tools.ok("memory_search", query=query, limit=1)).redacted is redacted
        assert (await last_outcome(tools))["redacted"] is redacted
