"""Answers that break off, never end or are garbage: each is told as what it is."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.models import openai_chat, sse
from interlock.models.openai_chat import ChatEndpointConfig, OpenAIChatProvider
from interlock.models.provider import ModelError, ModelFault, ModelRequest, UserMessage
from tests.harness.model_answers import (
    MODEL,
    DropConnection,
    ModelAnswer,
    chunk,
    event,
    said,
    streamed,
    text_chunks,
)
from tests.harness.model_server import KEY, ModelServer
from tests.integration.models.asking import QUESTION, asked, chat, failed, failure_of

BROKE = "the connection to the model's server was lost"
CUT_OFF = "the model's response was cut off"


HELLO = event(chunk({"content": "Hello"}))


@pytest.mark.parametrize(
    ("answer", "fault", "sentence"),
    [
        (ModelAnswer((HELLO, DropConnection())), ModelFault.network, BROKE),
        (ModelAnswer(first=(DropConnection(),)), ModelFault.network, BROKE),
        (ModelAnswer((HELLO,)), ModelFault.network, CUT_OFF),
        (ModelAnswer(()), ModelFault.network, CUT_OFF),
        (
            ModelAnswer((HELLO, b"data: {oops\n\n")),
            ModelFault.protocol,
            (
                "the model's server sent a response that cannot be parsed: a chunk of the "
                "response is not JSON"
            ),
        ),
        (
            ModelAnswer((b"<html>Welcome to the router</html>",), 200, "text/html"),
            ModelFault.protocol,
            (
                "the model's server sent a response that cannot be parsed: it is a web page; the "
                "address may be wrong"
            ),
        ),
        (
            ModelAnswer((b'{"choices": [',), 200, "application/json"),
            ModelFault.protocol,
            (
                "the model's server sent a response that cannot be parsed: a chunk of the "
                "response is not JSON"
            ),
        ),
        (streamed(text_chunks([])), ModelFault.protocol, "the model's response is empty"),
        (
            ModelAnswer((event({"choices": []}), event(b"[DONE]"))),
            ModelFault.protocol,
            "the model's response is empty",
        ),
        (
            ModelAnswer((HELLO, event({"error": {"message": "overloaded"}}))),
            ModelFault.server,
            "the model's server aborted the response: overloaded",
        ),
        (
            ModelAnswer((b"not gzip at all",), headers={"Content-Encoding": "gzip"}),
            ModelFault.network,
            BROKE,
        ),
    ],
)
async def test_a_broken_answer_is_told_for_what_it_is(answer, fault, sentence):
    error = await failure_of(answer)
    assert (error.fault, str(error)) == (fault, sentence)
    assert error.fault.is_transient


async def test_what_was_said_before_a_fault_has_been_shown():
    async with ModelServer([ModelAnswer((HELLO, DropConnection()))]) as server:
        provider = chat(server)
        shown = []
        with pytest.raises(ModelError):
            async for item in provider.stream(QUESTION):
                shown.append(item.text)  # noqa: PERF401 - it must be kept when the stream breaks
        await provider.close()
    assert shown == ["Hello"]


async def test_an_event_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(openai_chat, "SseReader", lambda: sse.SseReader(max_event_bytes=100_000))
    answer = ModelAnswer((b"data: ", *[b"x" * 10_000] * 20))
    error = await failure_of(answer)
    assert (error.fault, str(error)) == (
        ModelFault.protocol,
        "the model's server sent a chunk that is too long",
    )


async def test_a_giant_event_within_the_bound_is_read():
    async with ModelServer([said("x" * 2_000_000, 2_000_000)]) as server:
        provider = chat(server)
        assert len((await asked(provider))[1].text) == 2_000_000
        await provider.close()


async def test_a_whole_answer_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(openai_chat, "_MAX_WHOLE_BYTES", 50_000)
    error = await failure_of(ModelAnswer((b'{"a": "', *[b"x" * 10_000] * 20), 200, "application/json"))
    assert error.fault is ModelFault.protocol


# -- garbage -----------------------------------------------------------------------------------------


class RawServer:
    """Sends these bytes, whatever it was asked, and closes."""

    def __init__(self) -> None:
        self.data = b""

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def close(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.data)
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
GARBAGE = st.one_of(
    st.binary(max_size=80),
    st.binary(max_size=80).map(lambda data: HEAD + data),
    st.binary(max_size=80).map(lambda data: HEAD + b"\r\n" + data),
    st.binary(max_size=80).map(lambda data: HEAD + b"\r\ndata: " + data + b"\n\n"),
    st.binary(max_size=80).map(lambda data: HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + data),
    st.binary(max_size=80).map(lambda data: HEAD + b"Content-Encoding: deflate\r\n\r\n" + data),
    st.binary(max_size=80).map(lambda data: HEAD + b"Content-Length: 999\r\n\r\n" + data),
)


async def _failures_of(answers: list[bytes]) -> list[ModelError]:
    server = RawServer()
    provider = OpenAIChatProvider(ChatEndpointConfig(await server.start(), MODEL, KEY, idle_seconds=5))
    errors = []
    for answer in answers:
        server.data = answer
        errors.append(await failed(provider))
    await provider.close()
    await server.close()
    return errors


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(answers=st.lists(GARBAGE, min_size=1, max_size=5))
def test_garbage_is_never_anything_but_a_model_error(answers):
    errors = asyncio.run(_failures_of(answers))
    assert len(errors) == len(answers)
    for error in errors:
        assert error.fault in (ModelFault.network, ModelFault.protocol)
        assert str(error)
        assert "\n" not in str(error)
        assert KEY not in str(error)


async def test_a_server_that_closes_while_a_long_request_is_on_its_way_broke():
    server = RawServer()
    provider = OpenAIChatProvider(ChatEndpointConfig(await server.start(), MODEL, KEY))
    request = ModelRequest((UserMessage("x" * 20_000_000),))
    error = await failed(provider, request)
    assert error.fault is ModelFault.network
    await provider.close()
    await server.close()
