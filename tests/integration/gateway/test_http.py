"""What the gateway answers beside the socket: the page, logging in, downloads, and machines that ask."""

import asyncio
import json

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families


@pytest.fixture
async def browser():
    """Keeps cookies as a browser does, also those of an address without a name."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


async def log_in(harness, browser) -> None:
    code = await harness.gateway.credentials.issue_code(who="root")
    async with browser.post(
        f"{harness.url}/login", json={"code": code}, headers={"Origin": harness.url}
    ) as answer:
        assert answer.status == 204
        assert await answer.read() == b""


NO_CHUNK = b"POST /login HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("pause", [0.0, 0.3], ids=["at once", "while it is answered"])
async def test_a_request_that_goes_on_as_no_http_is_answered_once(harness, caplog, pause):
    reader, writer = await asyncio.open_connection("127.0.0.1", harness.port)
    writer.write(NO_CHUNK % f"127.0.0.1:{harness.port}".encode())
    if pause:
        await writer.drain()
        await asyncio.sleep(pause)
    writer.write(b"this is no length of a chunk\r\n")
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    async with aiohttp.ClientSession() as other, other.get(f"{harness.url}/healthz") as healthy:
        assert healthy.status == 200
    assert not [record for record in caplog.records if record.exc_info]


async def test_the_page_comes_with_a_strict_policy(harness, browser):
    async with browser.get(f"{harness.url}/") as answer:
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        page = await answer.text()
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert '<script type="module" src="/static/app.js">' in page
    async with browser.get(f"{harness.url}/static/app.js") as answer:
        assert answer.status == 200
        assert "javascript" in answer.headers["Content-Type"]


async def test_a_code_opens_a_browser_once(harness, browser):
    async with browser.get(f"{harness.url}/whoami") as answer:
        assert await answer.json() == {"who": None}
    code = await harness.gateway.credentials.issue_code(who="ann")
    given = {"json": {"code": code}, "headers": {"Origin": harness.url}}
    async with browser.post(f"{harness.url}/login", **given) as answer:
        assert answer.status == 204
        cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert code not in cookie
    async with browser.get(f"{harness.url}/whoami") as answer:
        assert await answer.json() == {"who": "ann"}
    async with browser.post(f"{harness.url}/login", **given) as answer:
        assert answer.status == 401


async def test_logging_out_ends_the_cookie_for_good(harness, browser):
    await log_in(harness, browser)
    [cookie] = list(browser.cookie_jar)
    async with browser.post(f"{harness.url}/logout", headers={"Origin": harness.url}) as answer:
        assert answer.status == 204
    kept = {"Cookie": f"{cookie.key}={cookie.value}"}
    async with browser.get(f"{harness.url}/whoami", headers=kept) as answer:
        assert await answer.json() == {"who": None}


async def test_a_browser_talks_over_its_socket(harness, browser):
    await log_in(harness, browser)
    async with browser.ws_connect(f"{harness.url}/ws", headers={"Origin": harness.url}) as socket:
        await socket.send_json({"type": "request", "id": 1, "method": "server.info"})
        answer = await socket.receive_json()
    assert answer["data"]["who"] == "root"


async def test_machines_are_told_little(harness, browser):
    for path in ("/healthz", "/readyz"):
        async with browser.get(f"{harness.url}{path}") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
    async with browser.get(f"{harness.url}/metrics") as answer:
        assert answer.status == 401


async def test_figures_for_prometheus(open_harness, browser):
    script = json.dumps(["call:current_time {}", 'call:read_file {"path": "x"}', "msg:ok"])
    harness = await open_harness(MODEL=f"scripted:{script}")
    client = await harness.connect()
    session = (await client.ask("session.create"))["session"]
    await client.talk(session["id"], "go")
    await client.send("no.such.method")
    await client.ask("server.info")
    token = {"Authorization": f"Bearer {await harness.token('scraper')}"}
    async with browser.get(f"{harness.url}/metrics", headers=token) as answer:
        assert answer.status == 200
        text = await answer.text()
    samples = {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["interlock_sockets", ()] == 1
    assert samples["interlock_turns_total", ()] == 3
    assert samples["interlock_tool_calls_total", ("current_time", "ok")] == 1
    assert samples["interlock_tool_calls_total", ("denied", "read_file")] == 1
    assert samples["interlock_requests_total", ("METHOD_NOT_FOUND", "unknown")] == 1
    assert samples["interlock_frames_sent_total", ()] > 10
    assert "no.such.method" not in text


async def test_downloads_have_everything_and_need_a_login(open_harness, browser):
    harness = await open_harness(MODEL='scripted:["msg:Hello there."]')
    client = await harness.connect()
    session_id = (await client.ask("session.create", title="T"))["session"]["id"]
    await client.talk(session_id, "hi")
    url = (await client.ask("session.export", session_id=session_id))["url"]
    async with browser.get(f"{harness.url}{url}") as answer:
        assert answer.status == 401
    await log_in(harness, browser)
    async with browser.get(f"{harness.url}{url}") as answer:
        assert "attachment" in answer.headers["Content-Disposition"]
        lines = [json.loads(line) for line in (await answer.text()).splitlines()]
    assert lines[0]["type"] == "session"
    assert [line["content"] for line in lines if line["type"] == "message"] == ["hi", "Hello there."]
    events = [line["seq"] for line in lines if line["type"] == "event"]
    assert events == list(range(1, len(events) + 1))
    everything = (await client.ask("events.export"))["url"]
    async with browser.get(f"{harness.url}{everything}") as answer:
        streams = {json.loads(line)["stream"] for line in (await answer.text()).splitlines()}
    assert {session_id, "system"} <= streams
    async with browser.get(f"{harness.url}/export/session/nothing.jsonl") as answer:
        assert (answer.status, await answer.text()) == (404, "there is no session nothing")
