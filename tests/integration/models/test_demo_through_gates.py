"""What a newcomer sees: the demo asks, the real gates judge, the real tools work."""

import orjson
import pytest

from interlock.config.modes import ToolMode
from interlock.config.settings import Settings
from interlock.gates.gate import ToolCall
from interlock.models.demo import DemoProvider
from interlock.models.message_encoding import encode_message
from interlock.models.provider import (
    AssistantMessage,
    ModelRequest,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from interlock.policy.authority_inputs import ModeSwitching
from interlock.policy.verdict import ModeSwitchMethod
from interlock.tools.tool import ToolContext
from interlock.wiring import open_runtime, select_sandbox
from tests.harness.model_request_checks import message_faults
from tests.integration.models.asking import asked


class Conversation:
    """The loop, in the few lines that a test needs of it."""

    def __init__(self, runtime, session_id: str, root) -> None:
        self.runtime, self.session_id, self.root = runtime, session_id, root
        self.mode = ToolMode.chat_safe
        self.messages = [SystemMessage("You are Interlock.")]
        self.codes: list[str] = []
        self.called: list[str] = []

    async def say(self, text: str) -> str:
        """The answer, or the id of the question that was put instead."""
        self.messages.append(UserMessage(text))
        self.codes, self.called = [], []
        authority = await self.runtime.authority(
            self.mode, switching=ModeSwitching(ModeSwitchMethod.page, frozenset(ToolMode))
        )
        for _ in range(5):
            _, reply = await asked(DemoProvider(), ModelRequest(tuple(self.messages), authority.schemas))
            self.messages.append(AssistantMessage(reply.text, reply.tool_calls))
            if not reply.tool_calls:
                return reply.text
            (call,) = reply.tool_calls
            self.called.append(call.name)
            result = await self.runtime.runner.call(
                ToolCall(call.call_id, call.name, call.arguments), authority, ToolContext(self.session_id)
            )
            if result.failure is not None:
                self.codes.append(result.failure.error_code.value)
            self.messages.append(ToolMessage(call.call_id, orjson.dumps(result.as_dict()).decode()))
            if result.question_id:
                return result.question_id
            documents = [orjson.loads(encode_message(message)) for message in self.messages]
            assert message_faults(documents, orjson.loads) == []
        raise AssertionError("the demo never ends")


@pytest.fixture
async def conversation(tmp_path, monkeypatch):
    root = tmp_path / "root"
    root.mkdir()
    (root / "notes.txt").write_text("Buy milk.\nTODO: call Ada.\n")
    monkeypatch.setenv("INTERLOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(tmp_path / "workspace"))
    monkeypatch.setenv("TOOL_ALLOWED_ROOTS", str(root))
    settings = Settings()
    runtime = open_runtime(settings, opened=list(ToolMode), sandbox=await select_sandbox(settings))
    session = await runtime.sessions.create(opened_by="test", mode=ToolMode.coding)
    yield Conversation(runtime, session.id, root)
    await runtime.close()


async def test_a_newcomer_sees_a_denial_and_then_a_success(conversation):
    answer = await conversation.say("read notes.txt")
    assert conversation.codes == ["MODE_DENIED"]
    assert answer.startswith("I tried, but Interlock denied it: read_file is not allowed in chat_safe mode")
    assert "/mode chat" in answer
    conversation.mode = ToolMode.chat
    assert await conversation.say("read notes.txt") == (
        "Content of notes.txt:\n```\nBuy milk.\nTODO: call Ada.\n```"
    )


async def test_reading_requests_work_in_chat(conversation):
    conversation.mode = ToolMode.chat
    assert "notes.txt" in await conversation.say("list files")
    assert "TODO: call Ada." in await conversation.say("search for TODO")
    assert "notes.txt" in await conversation.say("find files named *.txt")
    assert await conversation.say("搜索 m.lk") == "没有找到。"
    assert "UTC" in await conversation.say("what time is it?")
    assert "Asia/Shanghai" in await conversation.say("上海现在几点？")
    assert conversation.codes == []


async def test_writing_is_refused_in_chat_and_works_in_coding(conversation):
    conversation.mode = ToolMode.chat
    assert "write_file is not allowed in chat mode" in await conversation.say("write hello to a.txt")
    conversation.mode = ToolMode.coding
    assert (await conversation.say("write hello to a.txt")).startswith("Done: created a.txt")
    assert (conversation.root / "a.txt").read_text() == "hello\n"


async def test_a_file_that_is_there_is_read_before_it_is_replaced(conversation):
    conversation.mode = ToolMode.coding
    assert (await conversation.say("write nothing to notes.txt")).startswith("Done: replaced notes.txt")
    assert conversation.called == ["write_file", "read_file", "write_file"]
    assert (conversation.root / "notes.txt").read_text() == "nothing\n"


@pytest.mark.parametrize(
    "text", ["replace milk with bread in notes.txt", "把 notes.txt 里的 milk 改成 bread"]
)
async def test_an_edit_works_in_coding(conversation, text):
    conversation.mode = ToolMode.coding
    assert "replaced 1 of 1 occurrence" in await conversation.say(text)
    assert (conversation.root / "notes.txt").read_text().startswith("Buy bread.")


async def test_appending_works_in_coding(conversation):
    conversation.mode = ToolMode.coding
    await conversation.say("append one more to notes.txt")
    assert (conversation.root / "notes.txt").read_text().endswith("Ada.\none more\n")


async def test_a_path_outside_is_refused_and_explained(conversation):
    conversation.mode = ToolMode.chat
    answer = await conversation.say("read /etc/passwd")
    assert conversation.codes == ["PATH_DENIED"]
    assert answer.startswith("I tried, but Interlock denied it")


async def test_a_command_runs_in_the_sandbox(conversation):
    if conversation.runtime.sandbox.backend is None:
        pytest.skip("nothing can confine a command here")
    conversation.mode = ToolMode.chat
    assert "notes.txt" in await conversation.say("run ls")
    assert conversation.called == ["bash_readonly"]
    answer = await conversation.say("run touch made-in-chat")
    assert answer.startswith("I ran touch made-in-chat; its exit code is 1.")
    assert not (conversation.root / "made-in-chat").exists()
    conversation.mode = ToolMode.coding
    assert "its exit code is 0" in await conversation.say("run touch made")
    assert conversation.called == ["bash"]
    assert (conversation.root / "made").exists()


async def test_what_is_remembered_is_recalled(conversation):
    conversation.mode = ToolMode.coding
    assert (await conversation.say("remember that we meet on Friday")).startswith("Done: created the note")
    assert "Friday" in await conversation.say("what do you remember about Friday?")


@pytest.mark.parametrize(
    ("text", "widget"),
    [
        ("ask me to choose between tea and coffee", "selection"),
        ("问我 要茶还是咖啡", "selection"),
        ("ask me whether it works", "confirmation"),
    ],
)
async def test_a_question_is_put(conversation, text, widget):
    question = await conversation.runtime.questions.get(await conversation.say(text))
    assert question.widget == widget
