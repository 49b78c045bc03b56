"""What a server can reach: nothing that it was not granted."""

import json
import socket

import pytest

from interlock.config.modes import ToolMode
from interlock.core.errors import ErrorCode
from interlock.sandbox.backend_selection import choose_backend
from interlock.sandbox.bubblewrap_backend import BubblewrapBackend
from tests.escape.hostile_servers import until_gone
from tests.harness.mcp import QUICK, SERVERS, McpHarness, open_mcp_harness

SECRET = "THE-SECRET-OUTSIDE-47110815"


@pytest.fixture(params=["landlock", "bubblewrap"])
async def walled(request, tmp_path, monkeypatch):
    if request.param == "bubblewrap" and BubblewrapBackend.found(()) is None:
        pytest.skip("bubblewrap is not installed")
    choice = await choose_backend(request.param, state_folder=tmp_path, opened=())
    if choice.backend is None:
        pytest.skip(f"{request.param} does not work here")
    async with open_mcp_harness(tmp_path, monkeypatch, choice.backend) as made:
        yield made


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("roots", ["none", "read"])
async def test_from_inside_a_server_reaches_nothing_that_was_not_granted(
    walled: McpHarness, tmp_path, listening, roots
):
    outside = tmp_path / "ssh" / "id_key"
    outside.parent.mkdir()
    outside.write_text(SECRET)
    (walled.root / "inside").write_text("inside\n")
    await walled.ready("reaches", roots=roots, environment=(f"PORT={listening}",))
    for place in (outside, walled.runtime.settings.state_dir / "interlock.db", walled.root / "inside"):
        result = await walled.call("bad__echo", text=str(place))
        found = json.loads(result.stdout)
        may_read = place.name == "inside" and roots == "read"
        reached = {name for name, told in found.items() if told.startswith("reached")}
        # It stands in a folder of its own, which is gone when it ends.
        own = {"home", "processes", "write", "link"}
        assert reached <= own | ({"outside", "program", "listing"} if may_read else set())
        assert ("outside" in reached) is may_read
        assert "home" in reached
        assert SECRET not in result.stdout
    assert sorted(path.name for path in walled.root.iterdir()) == ["inside"]


async def test_a_server_granted_writing_writes_and_cannot_plant_what_is_protected(walled: McpHarness):
    hooks = walled.root / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    await walled.ready("writes", roots="write")
    assert (await walled.call("bad__echo", text=str(walled.root / "new"))).stdout == "written"
    assert (walled.root / "new").read_text() == "written by a server\n"
    await walled.call("bad__echo", text=str(hooks / "pre-commit"))
    await walled.call("bad__echo", text=str(hooks / "post-merge"))
    await walled.call("bad__echo", text=str(walled.root / ".vscode" / "tasks.json"))
    assert [path.name for path in hooks.iterdir()] == ["pre-commit"]
    assert (hooks / "pre-commit").read_text() == "#!/bin/sh\n"
    assert not (walled.root / ".vscode" / "tasks.json").exists()
    # It does not live on to do it later.
    assert await until_gone("writes")


@pytest.mark.parametrize("roots", ["read", "write"])
async def test_what_agents_leave_in_an_opened_folder_is_not_run_by_a_server(walled: McpHarness, roots):
    """Python looks for modules in the folder it stands in, before all others."""
    for name in ("hostile.py", "json.py"):
        (walled.root / name).write_text("import os\nos._exit(3)\n")
    command = (QUICK[0], "-S", "-m", "hostile", "well")
    await walled.add("bad", *command, roots=roots, environment=(f"PYTHONPATH={SERVERS}",))
    assert "echo" in await walled.inspect("bad")


async def test_without_a_sandbox_there_is_no_server(tmp_path, monkeypatch):
    from interlock.sandbox.backend_selection import BackendSelection

    async with open_mcp_harness(tmp_path, monkeypatch) as made:
        await made.ready("well")
        made.runtime.mcp.pool.sandbox._given = BackendSelection(None, "nothing works here")
        await made.allow("bad", "echo", modes="chat")
        result = await made.call("bad__echo", ToolMode.chat)
        assert result.failure.error_code is ErrorCode.TOOL_NOT_AVAILABLE
        assert "cannot be confined (nothing works here)" in result.failure.message
