"""What models write before their replies: read in each server's form, and sent back as each wants it."""

import orjson
import pytest

from interlock.models import openai_chat
from interlock.models.provider import (
    AssistantMessage,
    ModelFault,
    ModelReasoningDelta,
    ModelRequest,
    ModelTextDelta,
    Reasoning,
    RequestedCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from tests.harness.model_answers import (
    MODEL,
    ModelAnswer,
    call_chunks,
    call_delta,
    chunk,
    json_answer,
    refused,
    said,
    streamed,
)
from tests.harness.model_server import ModelServer
from tests.integration.models.asking import QUESTION, asked, chat, failed

ORIGIN = f"openai:{MODEL}"
CALL = RequestedCall("c1", "read_file", "{}")
CALLING = call_chunks(call_delta(0, name="read_file", arguments="{}", call_id="c1"))
# As their documentation and the reports of others have them.
DEEPSEEK = "The reasoning_content in the thinking mode must be passed back to the API."
DEEPSEEK_BEFORE = "Missing `reasoning_content` field in the assistant message at message index 2."
GROQ = (
    "'messages.1' : for 'role:assistant' the following must be satisfied"
    "[('messages.1' : property 'reasoning_content' is unsupported)]"
)


def thinking(field: str, *pieces: str) -> ModelAnswer:
    return streamed([*(chunk({field: piece}) for piece in pieces), *CALLING], finish="tool_calls")


def after(*reasonings: Reasoning | None) -> ModelRequest:
    """A task with one turn of a call for each."""
    messages = [*QUESTION.messages]
    for reasoning in reasonings:
        messages += [AssistantMessage("", (CALL,), reasoning), ToolMessage("c1", "content")]
    return ModelRequest(messages)


@pytest.fixture
async def server():
    async with ModelServer() as started:
        yield started
        assert started.faults == []


@pytest.fixture
async def provider(server):
    provider = chat(server)
    yield provider
    await provider.close()


def sent(server: ModelServer) -> list[dict]:
    """The assistant messages of the newest request."""
    return [each for each in server.asked[-1].messages if each["role"] == "assistant"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_shown_as_it_comes_and_goes_back_in_its_field(server, provider, field):
    server.add(thinking(field, "Hmm, ", "a file."), said("done"))
    items = [item async for item in provider.stream(QUESTION)]
    shown = [item.text for item in items if isinstance(item, ModelReasoningDelta)]
    assert "".join(shown) == "Hmm, a file."
    reply = items[-1]
    assert reply.reasoning == Reasoning("Hmm, a file.", ORIGIN)
    await asked(provider, after(reply.reasoning))
    (message,) = sent(server)
    assert message[field] == "Hmm, a file."
    assert {"reasoning", "reasoning_content"} & message.keys() == {field}


async def test_reasoning_comes_before_the_text_that_came_with_it(server, provider):
    chunks = [chunk({"reasoning": "Hm."}), chunk({"content": "Yes."})]
    server.add(ModelAnswer((b"".join(streamed(chunks).steps),)))
    items = [item async for item in provider.stream(QUESTION)]
    assert items[:2] == [ModelReasoningDelta("Hm."), ModelTextDelta("Yes.")]


async def test_an_answer_that_is_not_streamed_has_its_reasoning(server, provider):
    message = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    server.add(json_answer({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    _, reply = await asked(provider)
    assert reply.reasoning == Reasoning("Hm.", ORIGIN)


@pytest.mark.parametrize("odd", [{"reasoning": {"effort": "high"}}, {"reasoning_details": ["x", 3]}])
async def test_reasoning_of_an_unknown_form_is_no_fault(server, provider, odd):
    server.add(streamed([chunk(odd), chunk({"content": "Yes."})]))
    _, reply = await asked(provider)
    assert (reply.text, reply.reasoning) == ("Yes.", None)


async def test_reasoning_alone_is_no_answer(server, provider):
    server.add(streamed([chunk({"reasoning": "Hm."})]))
    assert (await failed(provider)).fault is ModelFault.protocol


async def test_the_details_of_a_router_go_back_whole(server, provider):
    """OpenRouter: signed parts of the models behind it, each in deltas with its type and index."""
    text, signed = {"type": "reasoning.text", "index": 0}, {"type": "reasoning.encrypted", "index": 1}
    deltas = [
        text | {"text": "Hmm, ", "signature": None},
        text | {"text": "a file."},
        text | {"signature": "s1"},
        signed | {"data": "QUJD"},
    ]
    chunks = [chunk({"reasoning": delta.get("text"), "reasoning_details": [delta]}) for delta in deltas]
    server.add(streamed([*chunks, *CALLING], finish="tool_calls"), said("done"))
    _, reply = await asked(provider)
    assert reply.reasoning is not None
    assert reply.reasoning.text == "Hmm, a file."
    await asked(provider, after(reply.reasoning))
    (message,) = sent(server)
    assert message["reasoning_details"] == [
        text | {"text": "Hmm, a file.", "signature": "s1"},
        signed | {"data": "QUJD"},
    ]
    assert "reasoning" not in message


async def test_another_models_reasoning_is_not_sent(server, provider):
    server.add(thinking("reasoning", "Hm."), said("done"))
    await asked(provider)
    anothers = Reasoning("Another's.", f"anthropic:{MODEL}", "[1]")
    await asked(provider, after(Reasoning("Mine.", ORIGIN), anothers))
    assert [message.get("reasoning") for message in sent(server)] == ["Mine.", None]
    assert all("reasoning_details" not in message for message in sent(server))


@pytest.mark.parametrize("refusal", [DEEPSEEK, DEEPSEEK_BEFORE])
async def test_a_server_that_requires_it_gets_the_field_in_every_turn(server, provider, refusal):
    """DeepSeek: also in turns of other models and earlier tasks, where it may be empty."""
    request = after(None, Reasoning("Hm.", ORIGIN))
    server.add(refused(400, refusal), said("done"), said("done"))
    for _ in range(2):
        await asked(provider, request)
        assert [message["reasoning_content"] for message in sent(server)] == ["", "Hm."]
    # It is refused once.
    assert len(server.asked) == 3


async def test_a_server_that_still_refuses_it_is_asked_no_more(server, provider):
    server.add(refused(400, DEEPSEEK), refused(400, DEEPSEEK))
    assert (await failed(provider, after(Reasoning("Hm.", ORIGIN)))).fault is ModelFault.invalid_request


async def test_a_server_that_does_not_take_it_is_asked_without(server, provider):
    """Groq."""
    server.add(thinking("reasoning_content", "Hm."), refused(400, GROQ), said("done"), said("done"))
    _, reply = await asked(provider)
    for _ in range(2):
        await asked(provider, after(reply.reasoning))
        assert "reasoning_content" not in sent(server)[0]
    assert len(server.asked) == 4


async def test_a_refusal_that_only_names_reasoning_is_none_of_the_history(server, provider):
    server.add(refused(400, "reasoning is not supported with this model"))
    assert (await failed(provider, after(None))).fault is ModelFault.invalid_request
    assert len(server.asked) == 1


async def test_a_long_history_is_encoded_once(server, provider, monkeypatch):
    encoded = []
    encode = openai_chat.encode_message
    monkeypatch.setattr(
        openai_chat, "encode_message", lambda *given: encoded.append(given[0]) or encode(*given)
    )
    server.add(*[said("ok")] * 20)
    messages = [SystemMessage("Be brief."), UserMessage("Go.")]
    for _ in range(20):
        await asked(provider, ModelRequest(tuple(messages)))
        messages += [AssistantMessage("", (CALL,)), ToolMessage("c1", "content")]
    assert len(server.asked[-1].messages) == len(encoded) == 2 + 19 * 2
    assert len(orjson.dumps(server.asked[-1].messages)) > 19 * 100
