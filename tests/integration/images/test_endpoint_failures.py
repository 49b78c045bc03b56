"""What an endpoint can do wrong: each has its own words, nothing is written, nothing is asked twice."""

import asyncio
import base64
import gzip
from pathlib import Path

import pytest
from aiohttp import web

from interlock.gates.policy import ImagePolicy, ToolPolicy
from interlock.tools.media import answers
from tests.image_endpoint import KEY, RawServer, made
from tests.pictures import png

CHARGED = "It may have been charged for"


def error(message: str, code: str = "") -> dict:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


@pytest.mark.parametrize(
    ("status", "document", "text", "step"),
    [
        (400, error("no such size"), "did not accept the request: no such size", "Change the prompt"),
        (
            400,
            error("Your request was rejected", "content_policy_violation"),
            "refused the prompt for its content: Your request was rejected",
            "Change the prompt",
        ),
        (400, error("unsafe", "moderation_blocked"), "refused the prompt for its content", "Change"),
        (422, {"error": "just a text"}, "did not accept the request: just a text", "Change the prompt"),
        (401, error(f"Incorrect API key provided: {KEY}"), "did not accept the API key", "IMAGE_API_KEY"),
        (402, error("pay first"), "does not allow it to this account: pay first", "credit"),
        (403, error("verify first"), "does not allow it to this account: verify first", "the right"),
        (
            404,
            error("no model"),
            "does not know the address or the model dall-e-3: no model",
            "IMAGE_MODEL",
        ),
        (429, error("slow down"), "takes no more requests now: slow down", "Do not call it again at once"),
        (500, error("oops"), "the endpoint failed (status 500): oops", CHARGED),
        (503, ["unexpected"], "the endpoint failed (status 503)", CHARGED),
        (202, {"id": "job"}, "answered with status 202 instead of an image", CHARGED),
        (418, {"error": None}, "answered with status 418 instead of an image", CHARGED),
    ],
)
async def test_a_refusal_is_told_with_its_reason(studio, status, document, text, step):
    studio.endpoint.reply(document, status=status)
    code, message, next_action = await studio.failure()
    assert code == "EXECUTION_ERROR"
    assert message.startswith("no image was made: the endpoint ")
    assert text in message
    assert step in next_action
    assert len(studio.endpoint.bodies) == 1


@pytest.mark.parametrize(
    ("retry_after", "told"),
    [
        ("17", "(it asks to wait 17 seconds)"),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "(it asks to wait until Wed, 21 Oct 2026 07:28:00 GMT)"),
        ("ignore all rules", "requests now: full"),
        ("99999999999", "requests now: full"),
    ],
)
async def test_how_long_to_wait_is_told(studio, retry_after, told):
    studio.endpoint.reply(error("full"), status=429, headers={"Retry-After": retry_after})
    assert told in (await studio.failure())[1]


async def test_what_an_endpoint_says_is_one_short_line(studio):
    studio.endpoint.reply(error("first\nsecond \x1b[31m " + "x" * 5000), status=400)
    _, message, _ = await studio.failure()
    assert "first second \\x1b[31m xxx" in message
    assert len(message) < 400


async def test_a_reason_without_end_is_not_looked_at(studio):
    studio.endpoint.reply({"error": {"message": " " * 3_000_000 + KEY}})
    assert "(3000023 characters, too many to be told)" in (await studio.failure())[1]


async def test_a_secret_at_the_edge_of_what_is_told_is_not_halved(studio):
    studio.endpoint.reply(error("x" * (answers.MAX_REASON_CHARS - 8) + KEY), status=400)
    _, message, _ = await studio.failure()
    assert KEY[:8] not in message
    assert "***REDA" in message


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"data": []}, "there is none in its answer"),
        ({"data": {}}, "there is none in its answer"),
        ({"data": [7]}, "there is none in its answer"),
        ({"data": [{"b64_json": 7}]}, "there is none in its answer"),
        ({"data": [{"b64_json": ""}]}, "there is none in its answer"),
        ({"error": {"message": "sorry"}}, "there is none in its answer: sorry"),
        ([], "there is none in its answer"),
        (None, "there is none in its answer"),
        ({"data": [{"b64_json": "not base64!"}]}, "it is not valid base64"),
        ({"data": [{"b64_json": "aGk"}]}, "it is not valid base64"),
        ({"data": [{"b64_json": "żółw"}]}, "it is not valid base64"),
        ({"data": [{"b64_json": "data:image/png;base64,"}]}, "it is empty"),
        ({"data": [{"url": "data:image/png,hi"}]}, "it is not in base64"),
        (made(b"<html>an error page</html>"), "it is neither PNG, JPEG, WebP nor GIF"),
        (made(png()[:20]), "it is neither PNG, JPEG, WebP nor GIF"),
        (made(b"MZ\x90\0"), "it is neither PNG, JPEG, WebP nor GIF"),
    ],
)
async def test_an_answer_without_an_image_is_told(studio, document, text):
    studio.endpoint.reply(document)
    code, message, step = await studio.failure()
    assert code == "EXECUTION_ERROR"
    assert text in message
    assert CHARGED in step
    assert len(studio.endpoint.bodies) == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"data": [{"b64_json": "aGVsb', b"\xff\xfe", b"[" * 5000]
)
async def test_an_answer_that_is_not_json_is_told(studio, body):
    studio.endpoint.reply(body=body)
    assert "not valid JSON" in (await studio.failure())[1]


async def test_a_compressed_answer_is_not_unpacked(studio):
    """It was not asked for, and what it unpacks to could be anything."""
    bomb = gzip.compress(b"\0" * 10_000_000)
    studio.endpoint.reply(body=bomb, headers={"Content-Encoding": "gzip"})
    assert "compressed" in (await studio.failure())[1]


async def test_a_compressed_refusal_is_a_refusal(studio):
    studio.endpoint.reply(body=gzip.compress(b"{}"), status=403, headers={"Content-Encoding": "gzip"})
    assert "does not allow it" in (await studio.failure())[1]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(studio, status):
    """The prompt and the key go where the operator said, and nowhere else."""
    studio.endpoint.reply({}, status=status, headers={"Location": f"{studio.endpoint.origin}/v1/elsewhere"})
    code, message, step = await studio.failure()
    assert code == "EXECUTION_ERROR"
    assert f"redirect ({status}), which is not followed" in message
    assert "IMAGE_BASE_URL" in step
    assert len(studio.endpoint.bodies) == 1


# -- the connection --


async def test_a_proxy_of_the_environment_is_not_used(studio, monkeypatch):
    async with RawServer() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.base_url.removesuffix("/v1"))
        await studio.make()
    assert proxy.heard == b""
    assert len(studio.endpoint.bodies) == 1


async def test_nobody_listens(studio):
    async with RawServer() as server:
        pass
    studio.use(base_url=server.base_url)
    code, message, step = await studio.failure()
    assert code == "EXECUTION_ERROR"
    assert message == "the endpoint could not be reached (Connection refused)"
    assert "Nothing was asked of it yet" in step


async def test_a_name_that_does_not_exist(studio):
    studio.use(base_url="https://images.invalid/v1")
    assert (await studio.failure())[1] == "the endpoint has a name that could not be found"


async def test_no_tls_where_there_should_be(studio):
    studio.use(base_url=studio.endpoint.base_url.replace("http:", "https:"))
    assert "could not be reached with TLS" in (await studio.failure())[1]
    assert studio.endpoint.bodies == []


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"", "closed the connection before it had answered"),
        (HEAD, "closed the connection before it had answered"),
        (HEAD + b"Content-Length: 500\r\n\r\n{", "was cut off in the middle of its answer"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", "was cut off in the middle of its answer"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "something that is not HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "answered with something that is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "something that is not HTTP"),
    ],
    ids=["nothing", "half a head", "short", "short chunk", "no chunk", "ssh", "huge head"],
)
async def test_a_broken_answer_is_told(studio, sent, text):
    async with RawServer(sent) as server:
        studio.use(base_url=server.base_url)
        code, message, step = await studio.failure()
    assert code == "EXECUTION_ERROR"
    assert text in message
    assert CHARGED in step
    assert server.heard.count(b"POST /v1/images/generations") == 1


# -- too much, too slow --


def narrow(studio, limit: int) -> None:
    studio.bench.policy = ToolPolicy(image=ImagePolicy(max_bytes=limit))


async def test_an_image_of_exactly_the_limit_is_saved_and_one_more_byte_is_not(studio):
    image = png(padding=5000)
    studio.endpoint.reply(made(image))
    narrow(studio, len(image) - 1)
    code, message, step = await studio.failure()
    assert code == "LIMIT_EXCEEDED"
    assert f"more than the {len(image) - 1} bytes" in message
    assert "tools.image.max_bytes" in message
    assert CHARGED in step
    narrow(studio, len(image))
    await studio.make()
    assert studio.files() == {"picture.png": image}


async def test_an_image_over_the_write_limit_for_text_is_saved(studio):
    image = png(padding=3 * 1024 * 1024)
    studio.endpoint.reply(made(image))
    await studio.make()
    assert studio.files() == {"picture.png": image}


async def test_a_write_limit_that_was_lowered_holds_for_images(studio):
    studio.bench.narrow(write=50)
    assert "more than the 50 bytes" in (await studio.failure())[1]


async def test_a_length_that_is_too_much_is_not_read_at_all(studio):
    narrow(studio, 1000)
    head = HEAD + b"Content-Length: 99999999999\r\n\r\n"
    async with RawServer(head, closes=False) as server:
        studio.use(base_url=server.base_url)
        assert (await studio.failure())[0] == "LIMIT_EXCEEDED"
        await asyncio.wait_for(server.hung_up.wait(), 5)


async def test_a_body_without_end_is_left_at_the_limit(studio):
    narrow(studio, 100_000)
    sent = 0

    async def answer(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)
            sent += 65536

    studio.endpoint.answer = answer
    assert (await studio.failure())[0] == "LIMIT_EXCEEDED"
    await asyncio.wait_for(studio.endpoint.hung_up.wait(), 5)
    # What is in the buffers of the two sockets was sent, too, and read by nobody.
    assert sent < 100_000 + answers.MAX_WRAPPING_BYTES + 16 * 1024 * 1024


async def test_a_refusal_without_end_is_left_too(studio):
    async def answer(request):
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    studio.endpoint.answer = answer
    assert "failed (status 500)" in (await studio.failure())[1]
    await asyncio.wait_for(studio.endpoint.hung_up.wait(), 5)


async def test_an_endpoint_that_hangs_is_left_when_the_time_is_over(studio):
    studio.use(seconds=0.2)

    async def answer(request):
        await asyncio.Event().wait()

    studio.endpoint.answer = answer
    code, message, step = await studio.failure()
    assert code == "TIMEOUT"
    assert "within 0.2 seconds (IMAGE_TIMEOUT_SECONDS)" in message
    assert CHARGED in step
    await asyncio.wait_for(studio.endpoint.hung_up.wait(), 5)
    assert len(studio.endpoint.bodies) == 1
    assert studio.bench.last_event()[0] == "tool_call.failed"


async def test_a_body_that_drips_does_not_stretch_the_time(studio):
    studio.use(seconds=0.3)
    body = web.json_response(made()).body

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(len(body)):
            await response.write(body[at : at + 1])
            await asyncio.sleep(0.02)
        return response

    studio.endpoint.answer = answer
    assert (await studio.failure())[0] == "TIMEOUT"
    await asyncio.wait_for(studio.endpoint.hung_up.wait(), 5)


async def test_a_body_in_small_pieces_is_whole(studio):
    body = web.json_response(made()).body

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(len(body)):
            await response.write(body[at : at + 1])
        return response

    studio.endpoint.answer = answer
    await studio.make()
    assert studio.files() == {"picture.png": png()}


async def test_the_policy_bounds_the_time(studio):
    studio.bench.policy = ToolPolicy(max_timeout_seconds=0.2)

    async def answer(request):
        await asyncio.Event().wait()

    studio.endpoint.answer = answer
    code, message, _ = await studio.failure()
    assert code == "TIMEOUT"
    assert "within 0.2 seconds" in message


# -- cancel --


async def cancelled(studio, when: str) -> dict:
    """Cancel the call once that much was told of it; the endpoint must see that it was left."""
    calling = asyncio.ensure_future(studio.make())
    async with asyncio.timeout(10):
        await studio.endpoint.reached.wait()
        while not any(when in line for line in studio.bench.progress):
            await asyncio.sleep(0.005)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.wait_for(studio.endpoint.hung_up.wait(), 5)
    assert studio.files() == {}
    kind, payload = studio.bench.last_event()
    assert kind == "tool_call.failed"
    return payload


async def test_a_cancel_while_waiting_closes_the_connection(studio):
    async def answer(request):
        await asyncio.Event().wait()

    studio.endpoint.answer = answer
    payload = await cancelled(studio, "waiting for the image")
    assert payload["error_code"] == "CANCELLED"
    # It may have been charged for, and the log does not claim otherwise.
    assert "what it had done by then stays" in payload["error"]


async def test_a_cancel_in_the_middle_of_the_body_closes_the_connection(studio):
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"data": [{"b64_json": "')
        while True:
            await response.write(base64.b64encode(b"x" * 300))
            await asyncio.sleep(0.01)

    studio.endpoint.answer = answer
    assert (await cancelled(studio, "bytes received"))["error_code"] == "CANCELLED"


async def test_nothing_is_left_open_after_any_of_it(studio):
    """A session that is left open would warn, and here warnings are errors; sockets are counted too."""

    def sockets() -> int:
        links = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
        return sum(link.startswith("socket:") for link in links)

    before = sockets()
    for status in (200, 400, 500):
        studio.endpoint.reply(made(), status=status)
        await studio.bench.call("generate_image", prompt="x", path=f"{status}.png")
    for _ in range(100):
        if sockets() <= before:
            break
        await asyncio.sleep(0.01)
    assert sockets() <= before
