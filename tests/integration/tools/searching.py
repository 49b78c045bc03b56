"""A search that must succeed, and one by a runner with a redactor or a program of its own."""

from pathlib import Path

from interlock.gates.gate import ToolCall
from interlock.gates.runner import ToolRunner
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.registration import FileServices
from interlock.tools.result import ToolResult
from interlock.tools.tool import ToolContext
from interlock.wiring import build_registry
from tests.harness.tool_calls import ToolHarness


async def found(harness: ToolHarness, pattern: str, **arguments) -> list[str]:
    return (await harness.ok("search_files", pattern=pattern, **arguments)).stdout.splitlines()


async def searched_with(
    harness: ToolHarness,
    program: Path | None,
    pattern: str,
    *,
    redactor: Redactor | None = None,
    timeout: float | None = None,
) -> ToolResult:
    redactor = redactor or Redactor()
    registry = build_registry(None, FileServices(redactor, None, program))  # type: ignore[arg-type]
    runner = ToolRunner(registry, harness.store.log, redactor)
    call = ToolCall("c", "search_files", {"pattern": pattern}, timeout)
    return await runner.call(call, harness.authority(registry), ToolContext(harness.session_id))
