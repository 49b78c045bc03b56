"""A socket whose other end is gone without a word is noticed, and only that one."""

import asyncio

from interlock.gateway import server


async def upgraded(harness):
    """A socket that was let in, and whose client never says anything again: not even pongs."""
    reader, writer = await asyncio.open_connection("127.0.0.1", harness.port)
    head = (
        "GET /ws HTTP/1.1",
        f"Host: 127.0.0.1:{harness.port}",
        f"Authorization: Bearer {await harness.token('silent')}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    writer.write("\r\n".join((*head, "", "")).encode())
    assert b" 101 " in await reader.readline()
    return reader, writer


async def test_who_does_not_answer_a_ping_is_cut_off(open_harness, monkeypatch):
    monkeypatch.setattr(server, "PING_SECONDS", 0.3)
    harness = await open_harness()
    answering = await harness.connect()
    reader, writer = await upgraded(harness)
    async with asyncio.timeout(15):
        while await reader.read(65_536):
            pass
    writer.close()
    async with asyncio.timeout(10):
        while len(harness.gateway.sockets) > 1:
            await asyncio.sleep(0.05)
    assert (await answering.ask("server.info"))["who"] == "tester"
