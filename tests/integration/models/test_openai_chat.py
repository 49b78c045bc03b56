"""The chat completions client against a server on a real socket."""

import asyncio
from contextlib import aclosing

import orjson
import pytest

from interlock.core.token_usage import TokenUsage
from interlock.models.openai_chat import ChatEndpointConfig, OpenAIChatProvider
from interlock.models.provider import (
    AssistantMessage,
    FinishReason,
    ModelRequest,
    ModelTextDelta,
    RequestedCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from tests.harness.model_answers import (
    MODEL,
    Delay,
    HangForever,
    ModelAnswer,
    call_chunks,
    call_delta,
    called,
    chunk,
    event,
    refused,
    said,
    streamed,
    text_chunks,
    usage_chunk,
    whole,
)
from tests.harness.model_server import KEY, PATH, ModelServer, by_turns
from tests.integration.models.asking import QUESTION, asked, chat, reply_to

TOOLS = orjson.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "read_file",
                "description": "Read.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
    ]
)


@pytest.fixture
async def server():
    async with ModelServer() as started:
        yield started
        assert started.faults == []


async def test_text_arrives_in_pieces_and_whole(server):
    server.add(said("Hello 世界, how are you?", 4))
    provider = chat(server)
    pieces, reply = await asked(provider)
    # What came at once is one piece.
    assert 1 <= len(pieces) <= 6
    assert "".join(pieces) == reply.text
    assert reply.text == "Hello 世界, how are you?"
    assert reply.usage == TokenUsage(11, 7)
    assert provider.name == MODEL
    await provider.close()


async def test_text_is_shown_while_the_model_still_speaks(server):
    server.add(ModelAnswer((event(chunk({"content": "so far"})), HangForever())))
    provider = chat(server)
    async with aclosing(provider.stream(QUESTION)) as items:
        assert await anext(items) == ModelTextDelta("so far")
    await provider.close()


async def test_a_request_says_what_is_asked_and_nothing_else(server):
    server.add(said("ok"), said("ok"))
    provider = chat(server)
    await asked(provider)
    request = ModelRequest(QUESTION.messages, TOOLS, tool_choice=ToolChoice.required, max_output_tokens=100)
    await asked(provider, request)
    plain, full = (request.document for request in server.asked)
    assert plain == {
        "model": MODEL,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello?"},
        ],
    }
    assert full == plain | {
        "tools": orjson.loads(TOOLS),
        "tool_choice": "required",
        "max_tokens": 100,
    }
    await provider.close()


async def test_an_empty_list_of_tools_is_not_sent(server):
    server.add(said("ok"))
    provider = chat(server)
    await asked(provider, ModelRequest(QUESTION.messages, b"[]", ToolChoice.required))
    assert "tools" not in server.asked[0].document
    await provider.close()


async def test_a_history_of_many_megabytes_is_sent_whole(server):
    server.add(said("ok"))
    provider = chat(server)
    await asked(provider, ModelRequest((UserMessage("x" * 5_000_000),)))
    await provider.close()
    assert len(server.asked[0].messages[0]["content"]) == 5_000_000


async def test_without_a_key_no_authorization_is_sent():
    async with ModelServer([said("ok")], key=None) as server:
        provider = chat(server)
        await asked(provider)
        await provider.close()
        assert server.faults == []


async def test_a_conversation_with_tools_goes_on_over_one_connection():
    script = by_turns(
        [
            called(("read_file", {"path": "a"}), ("read_file", {"path": "b"})),
            called(("read_file", {"path": "c"}), ids="later"),
            said("All read."),
        ]
    )
    async with ModelServer(script) as server:
        provider = chat(server)
        messages = [UserMessage("Read all.")]
        for _ in range(3):
            _, reply = await asked(provider, ModelRequest(tuple(messages), TOOLS))
            messages.append(AssistantMessage(reply.text, reply.tool_calls))
            messages += [ToolMessage(call.call_id, "content") for call in reply.tool_calls]
        await provider.close()
        assert reply.text == "All read."
        assert server.faults == []
        assert [request.connection for request in server.asked] == [1, 1, 1]


async def test_a_connection_is_used_again_also_when_the_answer_closes_late(server):
    late = ModelAnswer((*said("one").steps, Delay(0.02)))
    server.add(late, said("two"))
    provider = chat(server)
    await asked(provider)
    await asked(provider)
    await provider.close()
    assert server.connections == 1


async def test_a_server_that_never_closes_its_answer_does_not_hold_the_reply_back(server):
    server.add(ModelAnswer(said("done").steps, ends=False), said("again"))
    provider = chat(server)
    async with asyncio.timeout(5):
        _, reply = await asked(provider)
        assert reply.text == "done"
        await asked(provider)
    await provider.close()
    assert server.connections == 2


async def test_many_turns_at_once_do_not_mix():
    async with ModelServer(lambda request: said(request.messages[-1]["content"] * 3)) as server:
        provider = chat(server)
        requests = [ModelRequest((UserMessage(f"[{number}]"),)) for number in range(30)]
        replies = await asyncio.gather(*(asked(provider, request) for request in requests))
        assert [reply.text for _, reply in replies] == [f"[{number}]" * 3 for number in range(30)]
        assert server.faults == []
        await provider.close()


# -- ways to answer ----------------------------------------------------------------------------------


async def test_tool_calls_are_assembled_from_pieces_that_interleave():
    deltas = [
        call_delta(0, name="read_file", arguments="", call_id="a"),
        call_delta(1, name="bash", arguments="", call_id="b"),
        call_delta(0, arguments='{"path"'),
        call_delta(1, arguments='{"cmd":"l'),
        call_delta(0, arguments=':"x"}'),
        call_delta(1, arguments='s"}'),
    ]
    reply = await reply_to(streamed(call_chunks(*deltas), finish="tool_calls"))
    assert reply.finish_reason is FinishReason.tool_calls
    assert reply.tool_calls == (
        RequestedCall("a", "read_file", '{"path":"x"}'),
        RequestedCall("b", "bash", '{"cmd":"ls"}'),
    )


async def test_text_before_calls_is_shown_and_kept():
    chunks = [
        *text_chunks(["Let me ", "look."]),
        *call_chunks(call_delta(0, name="a", arguments="{}", call_id="1")),
    ]
    reply = await reply_to(streamed(chunks, finish="tool_calls"))
    assert (reply.text, len(reply.tool_calls)) == ("Let me look.", 1)


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_events_may_be_cut_anywhere(size):
    data = b"".join(said("Grüße, 世界! 🎉", 2).steps)
    steps = tuple(data[at : at + size] for at in range(0, len(data), size))
    assert (await reply_to(ModelAnswer(steps))).text == "Grüße, 世界! 🎉"


async def test_all_events_may_come_at_once():
    assert (await reply_to(ModelAnswer((b"".join(said("Hello").steps),)))).text == "Hello"


async def test_a_gzipped_answer_is_read():
    answer = said("compressed")
    assert (await reply_to(ModelAnswer(answer.steps, gzipped=True))).text == "compressed"


async def test_an_answer_that_is_not_streamed_is_read():
    reply = await reply_to(whole("all at once"))
    assert (reply.text, reply.usage) == ("all at once", TokenUsage(3, 2))


@pytest.mark.parametrize("content_type", ["text/event-stream", "text/plain", "application/json"])
async def test_what_an_answer_is_shows_in_its_bytes_and_not_in_its_name(content_type):
    assert (await reply_to(ModelAnswer(whole("whole").steps, content_type=content_type))).text == "whole"
    assert (await reply_to(ModelAnswer(said("events").steps, content_type=content_type))).text == "events"


async def test_white_space_before_an_answer_means_nothing():
    assert (await reply_to(ModelAnswer((b"\n", *whole("x").steps)))).text == "x"


async def test_the_end_may_come_without_its_mark():
    assert (await reply_to(streamed(text_chunks(["ok"]), done=False))).text == "ok"


async def test_the_last_event_may_come_without_its_empty_line():
    steps = (event(chunk({"content": "ok"})), event(chunk(finish="stop")).rstrip())
    assert (await reply_to(ModelAnswer(steps))).text == "ok"


async def test_an_answer_may_end_without_a_reason():
    assert (await reply_to(streamed(text_chunks(["ok"]), finish=None))).text == "ok"


async def test_comments_and_empty_choices_are_passed_over():
    steps = (b": alive\n\n", event({"choices": []}), event(usage_chunk()), *said("ok").steps)
    assert (await reply_to(ModelAnswer(steps))).text == "ok"


async def test_a_slow_answer_is_waited_for_as_long_as_something_comes():
    drips = [step for piece in said("slow but steady", 1).steps for step in (Delay(0.02), piece)]
    assert (await reply_to(ModelAnswer(tuple(drips)), idle_seconds=0.25)).text == "slow but steady"


# -- what a server does not know ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_that_does_not_know_stream_options_is_asked_without_and_remembered(server, status):
    server.add(refused(status, "Unrecognized request argument: stream_options"), said("a"), said("b"))
    provider = chat(server)
    assert (await asked(provider))[1].text == "a"
    assert (await asked(provider))[1].text == "b"
    await provider.close()
    assert ["stream_options" in request.document for request in server.asked] == [True, False, False]


async def test_a_model_that_names_its_limit_otherwise_is_told_it_so(server):
    text = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server.add(refused(400, text), said("a"))
    provider = chat(server)
    await asked(provider, ModelRequest(QUESTION.messages, max_output_tokens=9))
    await provider.close()
    assert server.asked[1].document["max_completion_tokens"] == 9
    assert "max_tokens" not in server.asked[1].document


# -- stopping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_begun", [True, False])
async def test_cancelling_closes_the_connection_which_the_server_sees(server, is_begun):
    steps = (event(chunk({"content": "x"})), HangForever()) if is_begun else (HangForever(),)
    server.add(ModelAnswer(steps) if is_begun else ModelAnswer(first=steps), said("next"))
    provider = chat(server)
    asking = asyncio.create_task(asked(provider))
    await asyncio.wait_for(server.reached.wait(), 5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.wait_for(server.hung_up.wait(), 5)
    assert (await asked(provider))[1].text == "next"
    await provider.close()


async def test_closing_the_stream_early_closes_the_connection(server):
    server.add(ModelAnswer((event(chunk({"content": "x"})), HangForever())))
    provider = chat(server)
    async with aclosing(provider.stream(QUESTION)) as items:
        assert await anext(items) == ModelTextDelta("x")
        assert not server.hung_up.is_set()
    assert await asyncio.wait_for(server.hung_up.wait(), 5)
    await provider.close()


async def test_a_closed_provider_can_be_asked_again(server):
    server.add(said("one"), said("two"))
    provider = chat(server)
    await provider.close()
    await asked(provider)
    await provider.close()
    assert (await asked(provider))[1].text == "two"
    await provider.close()


# -- where it goes -----------------------------------------------------------------------------------


async def test_no_proxy_of_the_environment_is_used(server, monkeypatch):
    async with ModelServer() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        server.add(said("direct"))
        provider = chat(server)
        assert (await asked(provider))[1].text == "direct"
        await provider.close()
        assert proxy.connections == 0


async def test_no_password_file_of_the_environment_is_used(server, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.add(said("ok"))
    provider = chat(server)
    await asked(provider)
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    await provider.close()


def test_the_key_is_not_in_the_description_of_an_endpoint():
    assert KEY not in repr(ChatEndpointConfig("http://x", MODEL, KEY))


async def test_a_slash_at_the_end_of_the_address_means_nothing(server):
    server.add(said("ok"))
    provider = OpenAIChatProvider(ChatEndpointConfig(f"{server.base_url}/", MODEL, KEY))
    assert (await asked(provider))[1].text == "ok"
    assert [request.path for request in server.asked] == [PATH]
    await provider.close()
