"""An endpoint that sends too much or takes too long, and a caller that stops waiting for it."""

import asyncio
import base64
from pathlib import Path

import pytest
from aiohttp import web

from interlock.policy.policy_fields import ImagePolicy, ToolPolicy
from interlock.tools.media import image_response
from tests.harness.image_server import RawServer, image_reply
from tests.harness.sample_images import png

CHARGED = "It may have been charged"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


# -- too much, too slow --


def narrow(images, limit: int) -> None:
    images.bench.policy = ToolPolicy(image=ImagePolicy(max_bytes=limit))


async def test_an_image_of_exactly_the_limit_is_saved_and_one_more_byte_is_not(images):
    image = png(padding=5000)
    images.endpoint.reply(image_reply(image))
    narrow(images, len(image) - 1)
    code, message, step = await images.failure()
    assert code == "LIMIT_EXCEEDED"
    assert f"larger than {len(image) - 1} bytes" in message
    assert "tools.image.max_bytes" in message
    assert CHARGED in step
    narrow(images, len(image))
    await images.make()
    assert images.files() == {"picture.png": image}


async def test_an_image_over_the_write_limit_for_text_is_saved(images):
    image = png(padding=3 * 1024 * 1024)
    images.endpoint.reply(image_reply(image))
    await images.make()
    assert images.files() == {"picture.png": image}


async def test_a_write_limit_that_was_lowered_holds_for_images(images):
    images.bench.narrow(write=50)
    assert "larger than 50 bytes" in (await images.failure())[1]


async def test_a_length_that_is_too_much_is_not_read_at_all(images):
    narrow(images, 1000)
    head = HEAD + b"Content-Length: 99999999999\r\n\r\n"
    async with RawServer(head, closes=False) as server:
        images.use(base_url=server.base_url)
        assert (await images.failure())[0] == "LIMIT_EXCEEDED"
        await asyncio.wait_for(server.hung_up.wait(), 5)


async def test_a_body_without_end_is_left_at_the_limit(images):
    narrow(images, 100_000)
    sent = 0

    async def answer(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)
            sent += 65536

    images.endpoint.answer = answer
    assert (await images.failure())[0] == "LIMIT_EXCEEDED"
    await asyncio.wait_for(images.endpoint.hung_up.wait(), 5)
    # What is in the buffers of the two sockets was sent, too, and read by nobody.
    assert sent < 100_000 + image_response.MAX_WRAPPING_BYTES + 16 * 1024 * 1024


async def test_a_refusal_without_end_is_left_too(images):
    async def answer(request):
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    images.endpoint.answer = answer
    assert "failed (status 500)" in (await images.failure())[1]
    await asyncio.wait_for(images.endpoint.hung_up.wait(), 5)


async def test_an_endpoint_that_hangs_is_left_when_the_time_is_over(images):
    images.use(seconds=0.2)

    async def answer(request):
        await asyncio.Event().wait()

    images.endpoint.answer = answer
    code, message, step = await images.failure()
    assert code == "TIMEOUT"
    assert "within 0.2 seconds (IMAGE_TIMEOUT_SECONDS)" in message
    assert CHARGED in step
    await asyncio.wait_for(images.endpoint.hung_up.wait(), 5)
    assert len(images.endpoint.bodies) == 1
    assert images.bench.last_event()[0] == "tool_call.failed"


async def test_a_body_that_drips_does_not_stretch_the_time(images):
    images.use(seconds=0.3)
    body = web.json_response(image_reply()).body

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(len(body)):
            await response.write(body[at : at + 1])
            await asyncio.sleep(0.02)
        return response

    images.endpoint.answer = answer
    assert (await images.failure())[0] == "TIMEOUT"
    await asyncio.wait_for(images.endpoint.hung_up.wait(), 5)


async def test_a_body_in_small_pieces_is_whole(images):
    body = web.json_response(image_reply()).body

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(len(body)):
            await response.write(body[at : at + 1])
        return response

    images.endpoint.answer = answer
    await images.make()
    assert images.files() == {"picture.png": png()}


async def test_the_policy_bounds_the_time(images):
    images.bench.policy = ToolPolicy(max_timeout_seconds=0.2)

    async def answer(request):
        await asyncio.Event().wait()

    images.endpoint.answer = answer
    code, message, _ = await images.failure()
    assert code == "TIMEOUT"
    assert "within 0.2 seconds" in message


# -- cancel --


async def cancelled(images, when: str) -> dict:
    """Cancel the call once that much was told of it; the endpoint must see that it was left."""
    calling = asyncio.ensure_future(images.make())
    async with asyncio.timeout(10):
        await images.endpoint.reached.wait()
        while not any(when in line for line in images.bench.progress):
            await asyncio.sleep(0.005)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.wait_for(images.endpoint.hung_up.wait(), 5)
    assert images.files() == {}
    kind, payload = images.bench.last_event()
    assert kind == "tool_call.failed"
    return payload


async def test_a_cancel_while_waiting_closes_the_connection(images):
    async def answer(request):
        await asyncio.Event().wait()

    images.endpoint.answer = answer
    payload = await cancelled(images, "waiting for the image")
    assert payload["error_code"] == "CANCELLED"
    # It may have been charged, and the log does not claim otherwise.
    assert "its earlier effects remain" in payload["error"]


async def test_a_cancel_in_the_middle_of_the_body_closes_the_connection(images):
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"data": [{"b64_json": "')
        while True:
            await response.write(base64.b64encode(b"x" * 300))
            await asyncio.sleep(0.01)

    images.endpoint.answer = answer
    assert (await cancelled(images, "bytes received"))["error_code"] == "CANCELLED"


async def test_nothing_is_left_open_after_any_of_it(images):
    """A session that is left open would warn, and here warnings are errors; sockets are counted too."""

    def sockets() -> int:
        links = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
        return sum(link.startswith("socket:") for link in links)

    before = sockets()
    for status in (200, 400, 500):
        images.endpoint.reply(image_reply(), status=status)
        await images.bench.call("generate_image", prompt="x", path=f"{status}.png")
    for _ in range(100):
        if sockets() <= before:
            break
        await asyncio.sleep(0.01)
    assert sockets() <= before
