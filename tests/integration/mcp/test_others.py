"""Servers that others wrote: the official library's over stdio, and two of npm's over stdio and HTTP."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.infra.errors import ErrorCode
from tests.integration.mcp.stand import OFFICIAL, Stand, free_port, listening

ROOT = Path(__file__).parents[3]
NPM = ROOT / ".tools" / "mcp-npm" / "node_modules"
FILESYSTEM = NPM / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
EVERYTHING = NPM / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"

needs_npm = pytest.mark.skipif(
    not EVERYTHING.exists() or shutil.which("node") is None, reason="npm's servers are not installed"
)


def node() -> str:
    """The program itself: a version manager's link may lie in a home."""
    return str(Path(shutil.which("node") or "").resolve())


async def test_the_official_library_over_stdio(stand: Stand):
    await stand.add("official", sys.executable, str(OFFICIAL), roots="none")
    tools = await stand.inspect("official")
    assert set(tools) == {"add", "greet", "fail"}
    await stand.allow("official", "greet", modes="chat,coding")
    await stand.switch_on("official")
    result = await stand.call("official__greet", ToolMode.chat, name="Ann")
    assert result.ok
    assert "Hello, Ann!" in result.stdout
    assert (await stand.call("official__greet", name=7)).failure.error_code is ErrorCode.INVALID_ARGS
    assert (await stand.call("official__add", a=1, b=2)).failure.error_code is ErrorCode.MODE_DENIED


@needs_npm
async def test_the_filesystem_server_reads_the_root_and_cannot_write_to_it(stand: Stand):
    (stand.root / "a.txt").write_text("hello from inside\n")
    await stand.add("fs", node(), str(FILESYSTEM), str(stand.root), readable=(NPM,))
    tools = await stand.inspect("fs")
    assert not any(tool["problem"] for tool in tools.values())
    assert tools["write_file"]["suggested_effect"] == "write"
    await stand.allow("fs", "read_text_file", modes="chat,coding")
    await stand.allow("fs", "write_file", "write")
    await stand.switch_on("fs")
    read = await stand.call("fs__read_text_file", ToolMode.chat, path=str(stand.root / "a.txt"))
    assert read.stdout == "hello from inside\n"
    # The server would; the wall does not let it.
    written = await stand.call("fs__write_file", path=str(stand.root / "b.txt"), content="x")
    assert written.failure.error_code is ErrorCode.EXECUTION_ERROR
    assert "EACCES" in written.stdout
    assert not (stand.root / "b.txt").exists()


@needs_npm
async def test_the_filesystem_server_writes_where_that_was_granted(stand: Stand):
    await stand.add("fs", node(), str(FILESYSTEM), str(stand.root), readable=(NPM,), roots="write")
    await stand.inspect("fs")
    await stand.allow("fs", "write_file", "write")
    await stand.switch_on("fs")
    result = await stand.call("fs__write_file", path=str(stand.root / "b.txt"), content="from a server")
    assert result.ok
    assert (stand.root / "b.txt").read_text() == "from a server"


@needs_npm
async def test_the_everything_server_over_stdio(stand: Stand, monkeypatch):
    monkeypatch.setenv("EVERYTHING_WORDS", "correct-horse-battery")
    environment = ("GIVEN=env:EVERYTHING_WORDS",)
    await stand.add(
        "every", node(), str(EVERYTHING), readable=(NPM,), roots="none", environment=environment
    )
    tools = await stand.inspect("every")
    await _everything(stand, tools)
    # Only what it was given, and that masked.
    environment_shown = json.loads((await stand.call("every__get-env")).stdout)
    assert environment_shown["GIVEN"] == "***REDACTED***"
    assert not {"INTERLOCK_STATE_DIR", "TOOL_ALLOWED_ROOTS", "EVERYTHING_WORDS"} & set(environment_shown)


@needs_npm
async def test_the_everything_server_over_http(stand: Stand):
    async with everything_served() as url:
        await stand.add("every", url=url, readable=())
        tools = await stand.inspect("every")
        assert {"echo", "get-sum"} <= set(tools)
        await _everything(stand, tools)


async def _everything(stand: Stand, tools: dict) -> None:
    assert not any(tool["problem"] for tool in tools.values())
    for tool in tools:
        await stand.allow("every", tool)
    await stand.switch_on("every")
    assert (await stand.call("every__echo", message="hi")).stdout == "Echo: hi"
    assert "is 5" in (await stand.call("every__get-sum", a=2, b=3)).stdout
    image = await stand.call("every__get-tiny-image")
    assert "image of type image/png" in image.stdout
    assert "iVBOR" not in image.stdout
    structured = await stand.call("every__get-structured-content", location="New York")
    assert structured.ok
    assert "temperature" in structured.stdout
    linked = await stand.call("every__get-resource-links", count=2)
    assert "link: " in linked.stdout
    long = await stand.call("every__trigger-long-running-operation", duration=0.2, steps=2)
    assert long.ok
    assert stand.progress


def everything_served():
    port = free_port()
    return listening(port, node(), str(EVERYTHING), "streamableHttp", PORT=str(port))
