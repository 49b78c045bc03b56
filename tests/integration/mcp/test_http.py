"""Servers over HTTP: the official library's, and those that send us elsewhere or never stop."""

import asyncio
import sys

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import BadUsage, ErrorCode, UserError
from interlock.tools.mcp import connection
from tests.harness.mcp import OFFICIAL, McpHarness, free_port, listening
from tests.harness.mcp_servers.hostile_http import serve_hostile_http

KEY = "a-key-that-nobody-else-has"


async def reached(harness: McpHarness, url: str, *, tool: str = "echo", **wish) -> None:
    await harness.add("web", url=url, readable=(), **wish)
    await harness.inspect("web")
    await harness.allow("web", tool)
    await harness.switch_on("web")


def official(port: int | None = None):
    """The official library's server."""
    port = port or free_port()
    return listening(port, sys.executable, str(OFFICIAL), "--http", str(port))


async def test_the_official_server_is_listed_called_and_its_failures_told(harness: McpHarness):
    async with official() as url:
        await reached(harness, url, tool="add")
        result = await harness.call("web__add", a=2, b=3)
        assert result.ok
        assert "5" in result.stdout
        assert (await harness.call("web__add", a="x", b=3)).failure.error_code is ErrorCode.INVALID_ARGS
        await harness.allow("web", "fail")
        failed = await harness.call("web__fail")
        assert failed.failure.error_code is ErrorCode.EXECUTION_ERROR
        assert "fail" in failed.stdout
        many = await asyncio.gather(*(harness.call("web__add", a=n, b=1) for n in range(10)))
        assert [result.ok for result in many] == [True] * 10
    (started,) = await harness.flushed("mcp.server_started")
    assert started["transport"] == "http"
    assert started["protocol"] >= "2025-11-25"


async def test_a_server_that_was_away_for_a_moment_is_reached_again(harness: McpHarness):
    """It has forgotten us, and begins anew."""
    port = free_port()
    async with official(port) as url:
        await reached(harness, url, tool="add")
        assert (await harness.call("web__add", a=2, b=3)).ok
    gone = await harness.call("web__add", a=2, b=3)
    assert gone.failure.error_code is ErrorCode.EXECUTION_ERROR
    assert "failed: " in gone.failure.message
    async with official(port):
        again = await harness.call("web__add", a=2, b=3)
        assert again.ok, again.failure
    async with official(port):
        # It was not missed, but does not know us any more.
        again = [await harness.call("web__add", a=2, b=3) for _ in range(2)]
        assert again[-1].ok, again[-1].failure


async def test_a_server_that_has_forgotten_our_session_is_given_another(harness: McpHarness):
    """So it is after it was started again. It says so with a 404 to everything that is asked."""
    with serve_hostile_http("keeps-sessions") as (url, seen):
        await reached(harness, url)
        assert (await harness.call("web__echo")).ok
        seen.session = "another"
        again = [await harness.call("web__echo") for _ in range(2)]
        assert again[-1].ok, again[-1].failure
        assert seen.methods().count("initialize") == 2


async def test_headers_travel_with_every_request_and_their_values_are_secret(
    harness: McpHarness, monkeypatch
):
    monkeypatch.setenv("WEB_WORDS", KEY)
    with serve_hostile_http("well") as (url, seen):
        await reached(harness, url, headers=("Authorization=env:WEB_WORDS", "X-Team=blue"))
        assert (await harness.call("web__echo")).stdout == "done"
        posts = [headers for method, _, headers, _ in seen.requests if method == "POST"]
        assert {headers["authorization"] for headers in posts} == {KEY}
        assert {headers["x-team"] for headers in posts} == {"blue"}
        assert {headers["accept-encoding"] for headers in posts} == {"identity"}
    assert harness.runtime.redactor.text(f"it is {KEY}") == "it is ***REDACTED***"
    rows = await harness.runtime.database.read(lambda db: db.query("SELECT definition FROM mcp_servers"))
    assert KEY not in str(rows)
    assert "env:WEB_WORDS" in str(rows)


async def test_a_header_whose_variable_is_missing_is_told(harness: McpHarness):
    with serve_hostile_http("well") as (url, seen):
        await harness.add("web", url=url, readable=(), headers=("Authorization=env:NOT_THERE_AT_ALL",))
        with pytest.raises(UserError, match="NOT_THERE_AT_ALL, which is not set"):
            await harness.inspect("web")
        assert seen.requests == []


@pytest.mark.parametrize("behaviour", ["redirects", "redirects-call"])
async def test_a_redirect_to_another_host_is_not_followed(harness: McpHarness, behaviour):
    with (
        serve_hostile_http("well") as (elsewhere, other),
        serve_hostile_http(behaviour, elsewhere) as (url, seen),
    ):
        await harness.add("web", url=url, readable=(), headers=("X-Team=blue",))
        if behaviour == "redirects":
            with pytest.raises(UserError):
                await harness.inspect("web")
        else:
            await harness.inspect("web")
            await harness.allow("web", "echo")
            await harness.switch_on("web")
            result = await harness.call("web__echo")
            assert result.failure.error_code is ErrorCode.EXECUTION_ERROR
            assert "not followed" in result.failure.message
        assert seen.requests
        assert other.requests == []


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        ("endless", ErrorCode.EXECUTION_ERROR),
        ("endless-events", ErrorCode.EXECUTION_ERROR),
        ("packed", ErrorCode.EXECUTION_ERROR),
        ("closes-streams", None),
    ],
)
async def test_answers_without_end_cost_their_own_call(harness: McpHarness, behaviour, code):
    with serve_hostile_http(behaviour) as (url, seen):
        await reached(harness, url)
        result = await harness.call("web__echo", seconds=5.0)
        assert result.failure.error_code in {code or ErrorCode.TIMEOUT, ErrorCode.EXECUTION_ERROR}
        assert len(seen.requests) < 60
    assert (await harness.call("current_time")).ok


@pytest.mark.parametrize("behaviour", ["refuses", "hangs"])
async def test_a_server_that_refuses_or_hangs_is_told(harness: McpHarness, monkeypatch, behaviour):
    monkeypatch.setattr(connection, "START_SECONDS", 2.0)
    with serve_hostile_http(behaviour) as (url, _):
        await harness.add("web", url=url, readable=())
        with pytest.raises(UserError, match="web: "):
            await harness.inspect("web")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.org/mcp", "use https"),
        ("ftp://example.org/mcp", "not supported"),
        ("https://user:pass@example.org/mcp", "user name or a password"),
        ("https://example.org/mcp?key=1", "remove that part"),
        ("nonsense", "not a valid URL"),
    ],
)
async def test_an_address_that_would_tell_others_is_refused(harness: McpHarness, url, reason):
    with pytest.raises(BadUsage, match=reason):
        await harness.add("web", url=url, readable=())


async def test_secrets_in_so_many_words_are_refused(harness: McpHarness):
    for wish in (
        {"headers": ("Authorization=Bearer abcdef0123456789abcdef0123456789",)},
        {"headers": ("X-Api-Key=whatever",)},
        {"headers": ("Host=other",)},
        {"headers": ("nonsense",)},
    ):
        with pytest.raises(BadUsage):
            await harness.add("web", url="https://example.org/mcp", readable=(), **wish)


async def test_who_is_reached_over_the_network_belongs_in_coding_unless_somebody_vouches(
    harness: McpHarness,
):
    with serve_hostile_http("well") as (url, _):
        await harness.add("web", url=url, readable=())
        await harness.inspect("web")
        with pytest.raises(BadUsage, match="over the network"):
            await harness.allow("web", "echo", modes="chat")
        await harness.allow("web", "echo", modes="chat", is_vouched=True)
        await harness.switch_on("web")
        assert (await harness.call("web__echo", ToolMode.chat)).ok
