"""What goes wrong between a client and a model's server, each told as what it is."""

import asyncio
import socket
import ssl
import subprocess
from contextlib import suppress

import pytest

from interlock.models.openai_chat import ChatEndpointConfig, OpenAIChatProvider
from interlock.models.provider import ModelFault
from tests.harness.model_answers import (
    MODEL,
    HangForever,
    ModelAnswer,
    chunk,
    event,
    json_answer,
    refused,
)
from tests.harness.model_server import KEY, ModelServer
from tests.integration.models.asking import chat, failed, failure_of

SAYS = "the model's server says: no"


@pytest.mark.parametrize(
    ("answer", "fault", "sentence"),
    [
        (refused(401), ModelFault.auth, f"the model's server rejects the key (401); {SAYS}"),
        (refused(403), ModelFault.auth, f"the model's server rejects the key (403); {SAYS}"),
        (
            refused(402),
            ModelFault.quota,
            f"the account at the model's server has no credit left (402); {SAYS}",
        ),
        (
            refused(429),
            ModelFault.rate_limited,
            f"the model's server reports too many requests (429); {SAYS}",
        ),
        (refused(500), ModelFault.server, f"the model's server failed (500); {SAYS}"),
        (refused(503), ModelFault.server, f"the model's server failed (503); {SAYS}"),
        (refused(408), ModelFault.server, f"the model's server failed (408); {SAYS}"),
        (
            refused(400),
            ModelFault.invalid_request,
            f"the model's server rejects the request (400); {SAYS}",
        ),
        (
            refused(400, "This model's maximum context length is 8192 tokens."),
            ModelFault.too_long,
            (
                "the conversation is too long for the model (400); the model's server says: "
                "This model's maximum context length is 8192 tokens."
            ),
        ),
        (
            ModelAnswer((), 502, "text/html"),
            ModelFault.server,
            "the model's server failed (502); the model's server gives no reason",
        ),
        (
            ModelAnswer((b"upstream \xff\x1b[1m sleeps\n",), 500, "text/plain"),
            ModelFault.server,
            "the model's server failed (500); the model's server says: upstream \ufffd\\x1b[1m sleeps",
        ),
        (
            ModelAnswer((b'{"detail": "Not enabled"}',), 500, "application/json"),
            ModelFault.server,
            "the model's server failed (500); the model's server says: Not enabled",
        ),
    ],
)
async def test_a_refusal_is_told_by_its_class_and_in_one_sentence(answer, fault, sentence):
    error = await failure_of(answer)
    assert (error.fault, str(error)) == (fault, sentence)


async def test_a_model_that_is_not_there_is_named_with_its_address():
    async with ModelServer([refused(404)]) as server:
        provider = chat(server)
        error = await failed(provider)
        await provider.close()
    assert str(error) == f"there is no model '{MODEL}' at {server.base_url} (404); {SAYS}"
    assert error.fault is ModelFault.not_found


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("999999", 3600.0),
        ("inf", 3600.0),
        ("-1", None),
        ("nan", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_how_long_to_wait_is_taken_from_the_server(status, header, seconds):
    error = await failure_of(refused(status, Retry_After=header))
    assert error.retry_after_seconds == seconds


async def test_an_account_without_credit_is_no_rate_limit():
    document = {"error": {"message": "You exceeded your plan.", "code": "insufficient_quota"}}
    error = await failure_of(json_answer(document, 429))
    assert error.fault is ModelFault.quota
    assert not error.fault.is_transient


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status):
    async with ModelServer() as elsewhere:
        error = await failure_of(refused(status, Location=f"{elsewhere.base_url}/chat/completions"))
        assert elsewhere.connections == 0
    assert error.fault is ModelFault.invalid_request
    assert str(error) == f"the model's server redirects the request ({status}); {SAYS}"


async def test_the_key_is_not_in_an_error_that_repeats_it():
    error = await failure_of(refused(401, f"Incorrect API key provided: {KEY}."))
    assert str(error).endswith("Incorrect API key provided: ***REDACTED***.")
    error = await failure_of(ModelAnswer((event({"error": {"message": f"bad {KEY}"}}),)))
    assert str(error) == "the model's server aborted the response: bad ***REDACTED***"


async def test_a_long_refusal_is_told_in_short():
    error = await failure_of(ModelAnswer((b"x" * 200_000,), 500, "text/plain"))
    assert len(str(error)) < 400


async def test_a_server_that_refuses_an_option_for_ever_is_not_asked_for_ever():
    answers = [refused(400, "stream_options") for _ in range(5)]
    async with ModelServer(answers) as server:
        provider = chat(server)
        error = await failed(provider)
        await provider.close()
    assert error.fault is ModelFault.invalid_request
    assert len(server.asked) == 2


# -- silence -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        ModelAnswer(first=(HangForever(),)),
        ModelAnswer((HangForever(),)),
        ModelAnswer((event(chunk({"content": "and then"})), HangForever())),
    ],
    ids=["before the head", "before the first event", "in the middle"],
)
async def test_a_server_that_says_nothing_is_given_up_and_hung_up_on(answer):
    async with ModelServer([answer]) as server:
        provider = chat(server, idle_seconds=0.1)
        error = await failed(provider)
        assert (error.fault, str(error)) == (
            ModelFault.timeout,
            "the model sent nothing for 0.1 seconds",
        )
        await asyncio.wait_for(server.hung_up.wait(), 5)
        await provider.close()


async def test_a_refusal_whose_reason_never_comes_is_told_without_one():
    error = await failure_of(ModelAnswer((HangForever(),), 500), idle_seconds=0.1)
    assert str(error) == "the model's server failed (500); the model's server gives no reason"


async def test_a_connection_that_is_not_answered_is_given_up(monkeypatch):
    """A full backlog: the system neither takes the connection nor refuses it."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for other in waiting:
            other.setblocking(False)
            with suppress(BlockingIOError):
                other.connect(address)
        base_url = f"http://127.0.0.1:{address[1]}/v1"
        provider = OpenAIChatProvider(
            ChatEndpointConfig(base_url, MODEL, KEY, connect_seconds=0.2, idle_seconds=5)
        )
        error = await failed(provider)
        await provider.close()
        for other in waiting:
            other.close()
    text = f"the model's server at {base_url} did not accept the connection within 0.2 seconds"
    assert (error.fault, str(error)) == (ModelFault.timeout, text)


# -- addresses ---------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        provider = OpenAIChatProvider(ChatEndpointConfig(base_url, MODEL, KEY))
        error = await failed(provider)
        await provider.close()
    assert str(error) == f"the model's server at {base_url} cannot be reached"
    assert error.fault is ModelFault.network


@pytest.mark.parametrize("base_url", ["nonsense", "http://", "ftp://host/v1", "http://[::1", ""])
async def test_an_address_that_is_none_is_told(base_url):
    provider = OpenAIChatProvider(ChatEndpointConfig(base_url, MODEL, KEY))
    error = await failed(provider)
    await provider.close()
    assert (error.fault, str(error)) == (ModelFault.invalid_request, "the model's address is not a URL")


async def test_plain_http_where_tls_is_expected_is_told():
    def answer(_reader, writer) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base_url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    provider = OpenAIChatProvider(ChatEndpointConfig(base_url, MODEL, KEY))
    error = await failed(provider)
    await provider.close()
    server.close()
    text = f"the model's server at {base_url} cannot be reached"
    assert (error.fault, str(error)) == (ModelFault.network, text)


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    base_url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    provider = OpenAIChatProvider(ChatEndpointConfig(base_url, MODEL, KEY))
    error = await failed(provider)
    await provider.close()
    server.close()
    text = f"the certificate of the model's server at {base_url} is not valid"
    assert (error.fault, str(error)) == (ModelFault.network, text)
