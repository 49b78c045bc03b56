"""Returns the date and time."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from interlock.config.modes import ALL_MODES
from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.arguments import ToolArguments
from interlock.tools.result import ToolResult
from interlock.tools.tool import Effect, ToolContext, ToolGroup, TypedTool


class CurrentTimeArguments(ToolArguments):
    timezone: str = Field(
        default="UTC",
        min_length=1,
        max_length=64,
        description="An IANA name such as Europe/Zurich or Asia/Shanghai. Default: UTC.",
    )


class CurrentTimeTool(TypedTool):
    name = "current_time"
    description = "Return the current date and time, in UTC or in a named time zone."
    arguments = CurrentTimeArguments
    group = ToolGroup.world
    allowed_modes = ALL_MODES
    effect = Effect.read

    async def prepare(self, arguments: CurrentTimeArguments, context: ToolContext) -> tuple[str, tzinfo]:  # noqa: ARG002
        name = arguments.timezone
        return name, UTC if name == "UTC" else _zone(name)

    async def execute(self, prepared: tuple[str, tzinfo], context: ToolContext) -> ToolResult:  # noqa: ARG002
        name, zone = prepared
        now = datetime.now(zone)
        text = f"{now.isoformat(timespec='seconds')} {name} ({now:%A})"
        return ToolResult(stdout=text, meta={"unix_seconds": int(now.timestamp())})


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolError(
            ErrorCode.INVALID_ARGS,
            f"timezone: there is no time zone named '{name}'",
            "Use an IANA name such as Europe/Zurich, or omit it for UTC.",
        ) from None
