"""How much servers may say, and where requests may go."""

import httpx2
import pytest

from interlock.tools.mcp.transports import (
    MAX_MESSAGE_BYTES,
    BoundedTransport,
    HttpLimitExceeded,
    MessageRateLimiter,
)

URL = "https://example.org/mcp"


def client(answer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=BoundedTransport(URL, httpx2.MockTransport(answer)))


def test_an_allowance_is_used_up_and_grows_back(monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    allowance = MessageRateLimiter(burst=3, per_second=1)
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
    now += 3
    assert allowance.take()
    allowance.give()
    assert allowance.take()


@pytest.mark.parametrize(
    "url", ["https://other.example/mcp", "http://example.org/mcp", "https://example.org:444/"]
)
async def test_no_request_goes_to_another_origin(url):
    async with client(lambda _request: httpx2.Response(200)) as http:
        assert (await http.post(URL)).status_code == 200
        with pytest.raises(HttpLimitExceeded, match="another host"):
            await http.post(url)


async def test_streams_are_not_asked_for_again_without_end():
    async with client(lambda _request: httpx2.Response(200)) as http:
        with pytest.raises(HttpLimitExceeded, match="without end"):
            for _ in range(30):
                await http.get(URL)
        await http.post(URL)


async def test_an_answer_is_bounded_and_never_packed():
    async with client(
        lambda _request: httpx2.Response(200, content=b"x" * (MAX_MESSAGE_BYTES + 1))
    ) as http:
        with pytest.raises(HttpLimitExceeded, match="larger than"):
            await http.post(URL)
    packed = httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=httpx2.ByteStream(b"x"))
    async with client(lambda _request: packed) as http:
        with pytest.raises(HttpLimitExceeded, match="compressed"):
            await http.post(URL)
