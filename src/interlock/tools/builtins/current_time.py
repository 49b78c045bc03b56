"""Returns the date and time."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from interlock.config.modes import ALL_MODES
from interlock.core.errors import ErrorCode, ToolError
from interlock.tools.result import ToolResult
from interlock.tools.tool import BaseTool, Effect, ToolContext, ToolGroup, ToolMode


class CurrentTimeTool(BaseTool):
    @property
    def name(self) -> str:
        return "current_time"

    @property
    def description(self) -> str:
        return "Return the current date and time, in UTC or in a named time zone."

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "timezone": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 64,
                    "description": "An IANA name such as Europe/Zurich or Asia/Shanghai. Default: UTC.",
                }
            },
        }

    @property
    def group(self) -> ToolGroup:
        return ToolGroup.world

    @property
    def allowed_modes(self) -> frozenset[ToolMode]:
        return ALL_MODES

    @property
    def effect(self) -> Effect:
        return Effect.read

    async def prepare(self, arguments: Mapping[str, Any], context: ToolContext) -> tuple[str, tzinfo]:  # noqa: ARG002
        name = arguments.get("timezone", "UTC")
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
