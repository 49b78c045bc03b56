"""What a server is given and told to run does not depend on what agents write into an opened folder."""

import os
import sys

import pytest

from interlock.core.errors import BadUsage
from interlock.gates.mcp_administration import AddServerRequest
from interlock.tools.mcp.server import NamedValue, ReferenceUnresolved
from tests.harness.mcp import QUICK, McpHarness

SERVER = (*QUICK, "-m", "server")


@pytest.mark.parametrize("name", ["root/token", "link", "root/deep/token"])
async def test_no_secret_is_read_from_an_opened_folder(mcp: McpHarness, name):
    """An agent could put a link to any other file of the account there, or a pipe that never ends."""
    (mcp.root / "deep").mkdir()
    for path in (mcp.root / "token", mcp.root / "deep" / "token"):
        path.write_text("x")
    (mcp.root.parent / "link").symlink_to(mcp.root / "token")
    path = mcp.root.parent / name
    with pytest.raises(BadUsage, match="TOKEN is read from"):
        await mcp.add("s", *SERVER, environment=(f"TOKEN=file:{path}",))
    with pytest.raises(BadUsage, match="Authorization is read from"):
        wish = AddServerRequest(id="s", url="https://mcp.example/", headers=(f"Authorization=file:{path}",))
        await mcp.runtime.mcp_servers.add(wish, who="local:tester")


LOADING = ("PYTHONPATH", "PATH", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "HOME", "GIT_CONFIG_GLOBAL")


@pytest.mark.parametrize("value", ["{root}", "{root}/lib", "/usr/lib:{root}/lib", "--require={root}/a.js"])
async def test_no_variable_has_code_loaded_from_an_opened_folder(mcp: McpHarness, value):
    for variable in LOADING:
        with pytest.raises(BadUsage, match="must not be run"):
            await mcp.add("s", *SERVER, environment=(f"{variable}={value.format(root=mcp.root)}",))


@pytest.mark.parametrize(
    "words",
    [
        ("uv", "--directory", "{root}", "run", "serve"),
        ("uv", "run", "--project={root}", "serve"),
        ("npm", "--prefix", "{root}", "start"),
        ("make", "-C", "{root}", "serve"),
        ("cargo", "run", "--manifest-path={root}"),
    ],
)
async def test_no_launcher_is_sent_into_an_opened_folder(mcp: McpHarness, tmp_path, words):
    """They run what the settings of a project say."""
    program = tmp_path / "own" / words[0]
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    rest = [word.format(root=mcp.root) for word in words[1:]]
    with pytest.raises(BadUsage, match="must not be run"):
        await mcp.add("s", str(program), *rest)


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("server-files", "{root}"), ()),
        (("server-files", "--directory", "{root}"), ()),
        (("npx", "-y", "server-files", "{root}"), ()),
        (("server-files",), ("DATA={root}/data.db", "PYTHONPATH=/usr/lib/server")),
    ],
)
async def test_a_server_may_be_told_what_to_serve(mcp: McpHarness, tmp_path, words, environment):
    program = tmp_path / "own" / words[0]
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    rest = [word.format(root=mcp.root) for word in words[1:]]
    given = tuple(each.format(root=mcp.root) for each in environment)
    assert await mcp.add("s", str(program), *rest, environment=given)


async def test_what_is_no_plain_file_is_never_waited_for(tmp_path):
    """Wherever it lies: nobody else would be served meanwhile."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReferenceUnresolved, match="not a regular file"):
        NamedValue("TOKEN", f"file:{tmp_path / 'pipe'}").resolved()
    (tmp_path / "token").write_text(" x\n")
    assert NamedValue("TOKEN", f"file:{tmp_path / 'token'}").resolved() == "x"
