"""Other providers, by pydantic-ai's model layer: its test models, and Anthropic's client on a socket."""

import asyncio
import re
from contextlib import suppress
from dataclasses import replace

import orjson
import pytest

pytest.importorskip("pydantic_ai", reason="the extra `providers` is not installed")

from pydantic_ai import exceptions
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError
from interlock.core.token_usage import TokenUsage
from interlock.models.provider import (
    AssistantMessage,
    FinishReason,
    ModelFault,
    ModelReasoningDelta,
    ModelRequest,
    Reasoning,
    RequestedCall,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from interlock.models.provider_factory import PROVIDERS, create_provider
from interlock.models.pydantic_ai import PydanticAIProvider, _reasoning
from tests.integration.models.asking import QUESTION, asked, failed

TOOLS = orjson.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "read_file",
                "description": "Read a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
    ]
)
KEY = "sk-ant-very-secret-0123456789"


def saying(*pieces, seen: list | None = None) -> PydanticAIProvider:
    async def stream(history, info):
        if seen is not None:
            seen.append((history, info))
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return PydanticAIProvider("function", FunctionModel(stream_function=stream), [KEY])


async def test_text_comes_in_pieces():
    pieces, reply = await asked(saying("Hello ", "世界", "!"))
    assert pieces == ["Hello ", "世界", "!"]
    assert (reply.text, reply.finish_reason) == ("Hello 世界!", FinishReason.stop)


async def test_calls_come_as_the_model_wrote_them():
    provider = saying(
        "Let me see.",
        {1: DeltaToolCall(name="read_file", json_args='{"path": ', tool_call_id="a")},
        {1: DeltaToolCall(json_args='"x"}')},
        {2: DeltaToolCall(name="bash", json_args='{"cmd": oops', tool_call_id="b")},
    )
    _, reply = await asked(provider, ModelRequest(QUESTION.messages, TOOLS))
    assert reply.text == "Let me see."
    assert reply.finish_reason is FinishReason.tool_calls
    assert reply.tool_calls == (
        RequestedCall("a", "read_file", '{"path": "x"}'),
        RequestedCall("b", "bash", '{"cmd": oops'),
    )


async def test_the_conversation_is_put_in_the_words_of_that_library():
    seen: list = []
    calls = [RequestedCall("c1", "read_file", '{"path":"a"}'), RequestedCall("c2", "bash", "{}")]
    history = (
        SystemMessage("Be brief."),
        UserMessage("Hi"),
        AssistantMessage("One moment.", calls),
        ToolMessage("c1", "content"),
        ToolMessage("c2", "listing"),
    )
    request = ModelRequest(history, TOOLS, ToolChoice.required, max_output_tokens=9)
    await asked(saying("done", seen=seen), request)
    ((given, info),) = seen
    assert [type(message).__name__ for message in given] == [
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
    ]
    system, user = given[0].parts
    assert (system.content, user.content) == ("Be brief.", "Hi")
    text, first, second = given[1].parts
    assert (text.content, first.tool_name, first.args, first.tool_call_id) == (
        "One moment.",
        "read_file",
        '{"path":"a"}',
        "c1",
    )
    assert second.tool_call_id == "c2"
    assert [(part.tool_name, part.content, part.tool_call_id) for part in given[2].parts] == [
        ("read_file", "content", "c1"),
        ("bash", "listing", "c2"),
    ]
    (tool,) = info.function_tools
    assert (tool.name, tool.description) == ("read_file", "Read a file.")
    assert tool.parameters_json_schema == {"type": "object", "properties": {"path": {"type": "string"}}}
    settings = info.model_settings
    assert (settings["max_tokens"], settings["tool_choice"]) == (9, "required")
    assert settings["max_retries"] == 0


@pytest.mark.parametrize(
    ("identity", "system", "fits"),
    [
        ("toolu_01A-b", "anthropic", True),
        ("functions.read_file:0", "anthropic", False),
        ("call_0123456789abcdef", "mistral", False),
        ("D681PevKs", "mistral", True),
    ],
)
async def test_an_id_that_another_model_gave_out_is_put_as_this_provider_takes_it(
    identity, system, fits, monkeypatch
):
    seen: list = []
    provider = saying("done", seen=seen)
    monkeypatch.setattr(FunctionModel, "system", system)
    calling = AssistantMessage("", [RequestedCall(identity, "a", "{}")])
    await asked(provider, ModelRequest((UserMessage("Hi"), calling, ToolMessage(identity, "x"))))
    ((given, _),) = seen
    sent = {given[1].parts[0].tool_call_id, given[2].parts[0].tool_call_id}
    assert len(sent) == 1
    assert (sent == {identity}) is fits
    assert re.fullmatch("[A-Za-z0-9]{9}" if system == "mistral" else "[A-Za-z0-9_-]+", sent.pop())


async def test_without_tools_none_can_be_required():
    seen: list = []
    await asked(saying("x", seen=seen), ModelRequest(QUESTION.messages, b"[]", ToolChoice.required))
    assert "tool_choice" not in seen[0][1].model_settings


async def test_the_librarys_own_test_model_calls_a_tool_and_then_answers():
    provider = PydanticAIProvider("test", TestModel())
    request = ModelRequest(QUESTION.messages, TOOLS)
    _, reply = await asked(provider, request)
    assert [call.name for call in reply.tool_calls] == ["read_file"]
    answered = (
        *QUESTION.messages,
        AssistantMessage("", reply.tool_calls),
        *(ToolMessage(call.call_id, "x") for call in reply.tool_calls),
    )
    _, reply = await asked(provider, ModelRequest(answered, TOOLS))
    assert reply.text
    assert reply.usage is not None
    assert provider.name == "test"


@pytest.mark.parametrize("delta", ["x" * 1000, {0: DeltaThinkingPart(content="x" * 1000)}])
async def test_an_endless_answer_or_thought_ends(monkeypatch, delta):
    monkeypatch.setattr("interlock.models.pydantic_ai.MAX_REPLY_BYTES", 10_000)
    error = await failed(saying(*[delta] * 11), QUESTION)
    assert error.fault is ModelFault.protocol
    assert "exceeds the size limit" in str(error)
    await asked(saying(*[delta] * 9, "ok"), QUESTION)


async def test_an_empty_answer_is_none():
    error = await failed(saying(""))
    assert (error.fault, str(error)) == (ModelFault.protocol, "the model's response is empty")


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (exceptions.ModelRateLimitError("m", "slow down", retry_after=3), ModelFault.rate_limited),
        (exceptions.ModelQuotaExceededError("m", "no credit"), ModelFault.quota),
        (exceptions.ModelContextWindowExceededError("m", "too long"), ModelFault.too_long),
        (exceptions.ModelAuthenticationError("m", "bad key"), ModelFault.auth),
        (exceptions.ModelNotFoundError("m", "no model"), ModelFault.not_found),
        (exceptions.ModelRequestRejectedError("m", "bad"), ModelFault.invalid_request),
        (exceptions.ModelTimeoutError("m", "late"), ModelFault.timeout),
        (exceptions.ModelConnectionError("m", "gone"), ModelFault.network),
        (exceptions.ModelServerError("m", "broken"), ModelFault.server),
        (exceptions.UnexpectedModelBehavior("odd"), ModelFault.protocol),
        (TimeoutError("late"), ModelFault.timeout),
        (ConnectionResetError("gone"), ModelFault.network),
        (ValueError("a fault of the library"), ModelFault.server),
    ],
)
async def test_a_fault_is_told_by_its_class_whether_or_not_something_was_shown(error, fault):
    for pieces in ([error], ["Hello", error]):
        told = await failed(saying(*pieces))
        assert told.fault is fault
        assert "function says: " in str(told)
        assert told.retry_after_seconds == getattr(error, "retry_after", None)


async def test_a_key_is_not_in_an_error_that_repeats_it():
    for filler in range(270, 300):
        error = exceptions.ModelAuthenticationError("m", f"{'x' * filler} {KEY} is wrong")
        assert "very" not in str(await failed(saying(error)))


# -- a real client -----------------------------------------------------------------------------------


class Provider:
    """Answers any request with these bytes, and counts."""

    def __init__(self, status: int, content_type: str, body: bytes, headers: str = "") -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: {content_type}\r\n{headers}"
        self._answer = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.asked: list[dict] = []

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            self.asked.append(orjson.loads(await reader.readexactly(length)))
            writer.write(self._answer)
            await writer.drain()
        writer.close()


def events(*documents: dict) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (document["type"].encode(), orjson.dumps(document))
        for document in documents
    )


SAID = (
    {
        "type": "message_start",
        "message": {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 12, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
    {"type": "content_block_stop", "index": 0},
)
ANSWER = events(
    *SAID,
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"path": "a"}'},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
)
STOP = {"stop_reason": "end_turn", "stop_sequence": None}
WORDS = events(
    *SAID,
    {"type": "message_delta", "delta": STOP, "usage": {"output_tokens": 20}},
    {"type": "message_stop"},
)


async def test_anthropics_stream_is_read(monkeypatch):
    provider = Provider(200, "text/event-stream", ANSWER)
    async with provider as address:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        model = create_provider("anthropic:claude-haiku-4-5", Settings())
        pieces, reply = await asked(model, ModelRequest(QUESTION.messages, TOOLS))
    assert pieces == ["Let me ", "look."]
    assert reply.tool_calls == (RequestedCall("t1", "read_file", '{"path": "a"}'),)
    assert reply.usage == TokenUsage(12, 20)
    (document,) = provider.asked
    assert document["model"] == "claude-haiku-4-5"
    assert "Be brief." in str(document["system"])
    assert document["tools"][0]["name"] == "read_file"


async def test_anthropic_is_sent_no_text_that_is_blank(monkeypatch):
    """It refuses the whole history for one; and other models of the session may have said such."""
    provider = Provider(200, "text/event-stream", ANSWER)
    history = (
        *QUESTION.messages,
        AssistantMessage("\n\n", [RequestedCall("c1", "read_file", "{}")]),
        ToolMessage("c1", "content"),
        AssistantMessage(" "),
        UserMessage("And?"),
    )
    async with provider as address:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        await asked(create_provider("anthropic:claude-haiku-4-5", Settings()), ModelRequest(history, TOOLS))
    (document,) = provider.asked
    blocks = [block for message in document["messages"] for block in message["content"]]
    assert all(block["text"].strip() for block in blocks if block["type"] == "text")
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "user"]


THINKING = events(
    orjson.loads(ANSWER.split(b"data: ")[1].split(b"\n")[0]),
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm, "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "redacted_thinking", "data": "aGlk"},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}},
    },
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
)


async def test_anthropics_signed_thoughts_go_back_as_they_came(monkeypatch):
    """Without them, or with others, it refuses a turn that follows calls."""
    provider = Provider(200, "text/event-stream", THINKING)
    async with provider as address:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        model = create_provider("anthropic:claude-haiku-4-5", Settings())
        items = [item async for item in model.stream(ModelRequest(QUESTION.messages, TOOLS))]
        reply = items[-1]
        assert [item.text for item in items if isinstance(item, ModelReasoningDelta)] == ["Hm, ", "a."]
        assert (reply.reasoning.text, reply.reasoning.model) == ("Hm, a.", "anthropic:claude-haiku-4-5")
        for reasoning in (reply.reasoning, replace(reply.reasoning, model="openai:claude-haiku-4-5"), None):
            calling = AssistantMessage("", reply.tool_calls, reasoning)
            history = (*QUESTION.messages, calling, ToolMessage("t1", "content"))
            await asked(model, ModelRequest(history, TOOLS))
    blocks = [document["messages"][1]["content"] for document in provider.asked[1:]]
    assert [[block["type"] for block in each] for each in blocks] == [
        ["thinking", "redacted_thinking", "tool_use"],
        ["tool_use"],
        ["tool_use"],
    ]
    thought, hidden, _ = blocks[0]
    assert (thought["thinking"], thought["signature"], hidden["data"]) == ("Hm, a.", "c2ln", "aGlk")


async def test_a_thought_without_a_mark_is_shown_and_not_sent_back():
    seen: list = []
    provider = saying({0: DeltaThinkingPart(content="Hm.")}, "Yes.", seen=seen)
    _, reply = await asked(provider)
    assert reply.reasoning == Reasoning("Hm.", f"function:{provider.name}")
    calling = AssistantMessage("", [RequestedCall("c1", "a", "{}")], reply.reasoning)
    await asked(provider, ModelRequest((UserMessage("Hi"), calling, ToolMessage("c1", "x"))))
    assert [part.part_kind for part in seen[1][0][1].parts] == ["tool-call"]


async def test_the_marks_of_calls_and_text_go_back_with_them():
    """Gemini signs calls, and refuses them without."""
    parts = [
        ThinkingPart("One.", id="r1", provider_name="function"),
        ThinkingPart("Two.", signature="s", provider_name="function"),
        TextPart("Look.", provider_name="function", provider_details={"t": 1}),
        ToolCallPart(
            "a", "{}", "x1", provider_name="function", provider_details={"thought_signature": "g"}
        ),
        ToolCallPart("b", "{}", "x2"),
    ]
    reasoning = _reasoning(ModelResponse(parts), "function:stream:")
    assert reasoning is not None
    assert reasoning.text == "One.\n\nTwo."
    seen: list = []
    provider = saying("ok", seen=seen)
    own = replace(reasoning, model=f"function:{provider.name}")
    calls = [RequestedCall("c1", "a", "{}"), RequestedCall("c2", "b", "{}")]
    calling = AssistantMessage("Look.", calls, own)
    await asked(
        provider, ModelRequest((UserMessage("Hi"), calling, ToolMessage("c1", "x"), ToolMessage("c2", "y")))
    )
    sent = seen[0][0][1]
    assert list(sent.parts) == [
        *parts[:3],
        replace(parts[3], tool_call_id="c1"),
        replace(parts[4], tool_call_id="c2"),
    ]
    assert sent.provider_name == "function"


async def test_each_message_is_put_in_that_librarys_form_once():
    seen: list = []
    provider = saying("ok", seen=seen)
    history = [
        UserMessage("Hi"),
        AssistantMessage("", [RequestedCall("c1", "a", "{}")]),
        ToolMessage("c1", "x"),
    ]
    for _ in range(2):
        await asked(provider, ModelRequest(tuple(history)))
    first, second = seen[0][0], seen[1][0]
    assert first[0].parts[0] is second[0].parts[0]
    assert first[1].parts[0] is second[1].parts[0]
    assert first[2].parts[0] is second[2].parts[0]


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (401, ModelFault.auth),
        (404, ModelFault.not_found),
        (429, ModelFault.rate_limited),
        (500, ModelFault.server),
    ],
)
async def test_anthropics_refusals_are_told_and_not_tried_again(monkeypatch, status, fault):
    body = orjson.dumps({"type": "error", "error": {"type": "some_error", "message": f"not with {KEY}"}})
    provider = Provider(status, "application/json", body, "retry-after: 7\r\n")
    async with provider as address:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        error = await failed(create_provider("anthropic:claude-haiku-4-5", Settings()))
    assert error.fault is fault
    assert str(error).endswith("anthropic says: not with ***REDACTED***")
    assert len(provider.asked) == 1
    if status == 429:
        assert error.retry_after_seconds == 7


def test_a_missing_key_is_named(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"^MODEL: anthropic:claude: .*ANTHROPIC_API_KEY"):
        create_provider("anthropic:claude", Settings())


# A package of Google's has a string that Python warns about when it first compiles it.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_provider_that_can_be_chosen_is_one_that_the_library_knows():
    from pydantic_ai.providers import infer_provider_class

    for name in PROVIDERS:
        # Some need packages of their own, and say so; an unknown name is another error.
        with suppress(ImportError):
            assert infer_provider_class(name)
