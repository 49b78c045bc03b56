"""Servers that others wrote: the official library's over stdio, and two of npm's over stdio and HTTP."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode
from tests.harness.mcp import OFFICIAL, McpHarness, free_port, listening

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


async def test_the_official_library_over_stdio(harness: McpHarness):
    await harness.add("official", sys.executable, str(OFFICIAL), roots="none")
    tools = await harness.inspect("official")
    assert set(tools) == {"add", "greet", "fail"}
    await harness.allow("official", "greet", modes="chat,coding")
    await harness.switch_on("official")
    result = await harness.call("official__greet", ToolMode.chat, name="Ann")
    assert result.ok
    assert "Hello, Ann!" in result.stdout
    assert (await harness.call("official__greet", name=7)).failure.error_code is ErrorCode.INVALID_ARGS
    assert (await harness.call("official__add", a=1, b=2)).failure.error_code is ErrorCode.MODE_DENIED


@needs_npm
async def test_the_filesystem_server_reads_the_root_and_cannot_write_to_it(harness: McpHarness):
    (harness.root / "a.txt").write_text("hello from inside\n")
    await harness.add("fs", node(), str(FILESYSTEM), str(harness.root), readable=(NPM,))
    tools = await harness.inspect("fs")
    assert not any(tool["problem"] for tool in tools.values())
    assert tools["write_file"]["suggested_effect"] == "write"
    await harness.allow("fs", "read_text_file", modes="chat,coding")
    await harness.allow("fs", "write_file", "write")
    await harness.switch_on("fs")
    read = await harness.call("fs__read_text_file", ToolMode.chat, path=str(harness.root / "a.txt"))
    assert read.stdout == "hello from inside\n"
    # The server would; the wall does not let it.
    written = await harness.call("fs__write_file", path=str(harness.root / "b.txt"), content="x")
    assert written.failure.error_code is ErrorCode.EXECUTION_ERROR
    assert "EACCES" in written.stdout
    assert not (harness.root / "b.txt").exists()


@needs_npm
async def test_the_filesystem_server_writes_where_that_was_granted(harness: McpHarness):
    await harness.add("fs", node(), str(FILESYSTEM), str(harness.root), readable=(NPM,), roots="write")
    await harness.inspect("fs")
    await harness.allow("fs", "write_file", "write")
    await harness.switch_on("fs")
    result = await harness.call("fs__write_file", path=str(harness.root / "b.txt"), content="from a server")
    assert result.ok
    assert (harness.root / "b.txt").read_text() == "from a server"


@needs_npm
async def test_the_everything_server_over_stdio(harness: McpHarness, monkeypatch):
    monkeypatch.setenv("EVERYTHING_WORDS", "correct-horse-battery")
    environment = ("GIVEN=env:EVERYTHING_WORDS",)
    await harness.add(
        "every", node(), str(EVERYTHING), readable=(NPM,), roots="none", environment=environment
    )
    tools = await harness.inspect("every")
    await _everything(harness, tools)
    # Only what it was given, and that masked.
    environment_shown = json.loads((await harness.call("every__get-env")).stdout)
    assert environment_shown["GIVEN"] == "***REDACTED***"
    assert not {"INTERLOCK_STATE_DIR", "TOOL_ALLOWED_ROOTS", "EVERYTHING_WORDS"} & set(environment_shown)


@needs_npm
async def test_the_everything_server_over_http(harness: McpHarness):
    async with everything_served() as url:
        await harness.add("every", url=url, readable=())
        tools = await harness.inspect("every")
        assert {"echo", "get-sum"} <= set(tools)
        await _everything(harness, tools)


async def _everything(harness: McpHarness, tools: dict) -> None:
    assert not any(tool["problem"] for tool in tools.values())
    for tool in tools:
        await harness.allow("every", tool)
    await harness.switch_on("every")
    assert (await harness.call("every__echo", message="hi")).stdout == "Echo: hi"
    assert "is 5" in (await harness.call("every__get-sum", a=2, b=3)).stdout
    image = await harness.call("every__get-tiny-image")
    assert "image of type image/png" in image.stdout
    assert "iVBOR" not in image.stdout
    structured = await harness.call("every__get-structured-content", location="New York")
    assert structured.ok
    assert "temperature" in structured.stdout
    linked = await harness.call("every__get-resource-links", count=2)
    assert "link: " in linked.stdout
    long = await harness.call("every__trigger-long-running-operation", duration=0.2, steps=2)
    assert long.ok
    assert harness.progress


def everything_served():
    port = free_port()
    return listening(port, node(), str(EVERYTHING), "streamableHttp", PORT=str(port))
