"""Calls one reading tool as an account that permissions hold for, which they do not for root.

python -m tests.integration.tools.ordinary_account ROOT TOOL ARGUMENTS
"""

import asyncio
import ctypes
import sys
from pathlib import Path

import orjson

from interlock.config.modes import ToolMode
from interlock.core.errors import ToolError
from interlock.redaction.redactor import Redactor
from interlock.sandbox.profile import SandboxProfile
from interlock.sandbox.programs import RG, locate
from interlock.tools.builtins.registration import FileServices
from interlock.tools.tool import ToolContext, ToolLimits
from interlock.wiring import build_registry

_CAPABILITY_VERSION_3 = 0x20080522


def give_up_privileges() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    # The bounding set of programs that are started is that of this thread.
    for capability in range(64):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    if ctypes.CDLL(None).capset(header, nothing) != 0:
        raise SystemExit("privileges could not be given up")


async def call(root: str, name: str, arguments: str) -> dict:
    services = FileServices(Redactor(), None, locate(RG, ()))  # type: ignore[arg-type]
    registered = build_registry(None, services).get(name)
    assert registered is not None
    tool = registered.tool
    context = ToolContext(
        "session",
        call_id="call",
        mode=ToolMode.chat,
        limits=ToolLimits(524288, 2097152, 2000, 51200, 30.0, 300.0),
        profile=SandboxProfile((Path(root),)),
    )
    try:
        prepared = await tool.prepare(registered.parser.parse(orjson.loads(arguments)), context)
        result = await tool.execute(prepared, context)
    except ToolError as error:
        return {"ok": False, "message": error.message}
    return result.as_dict()


if __name__ == "__main__":
    give_up_privileges()
    sys.stdout.buffer.write(orjson.dumps(asyncio.run(call(*sys.argv[1:]))))
